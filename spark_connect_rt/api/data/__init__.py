"""Connect's data model: schemas, structs, logical types."""
