"""A record between task and Kafka: transformations, converters, schema registries, tolerance of errors."""
