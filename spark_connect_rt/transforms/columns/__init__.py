"""The column forms of the transformations: a whole Arrow batch as its rows would come out, or None.

Owns the choice of forms (``by_columns``) and Arrow. The transformations must not import it: they need no Arrow.
"""
