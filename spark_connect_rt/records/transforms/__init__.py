"""The bundled transformations: one record in, one or none out. Pure.

Values, schemas and messages are Java's. The column forms take a whole Arrow batch and return the same result as its
rows, or None. Transformations must not import them: they need no Arrow.
"""
