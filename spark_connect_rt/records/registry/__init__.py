"""Converters whose schemas are in a Schema Registry, their mappings to Connect's schemas, and its client."""
