"""The steps between a task and Kafka: chains of transformations, converters, tolerance, dead letters. Pure."""
