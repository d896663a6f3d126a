"""The record's way between task and Kafka: transformations, converters, tolerance. Pure."""
