"""Converters whose schemas live in a Schema Registry, and its client."""
