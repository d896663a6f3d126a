"""The bundled transformations: one record in, one or none out. Pure. Values, schemas and messages are Java's."""
