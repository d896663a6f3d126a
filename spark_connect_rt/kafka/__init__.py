"""The only door to Kafka clients."""
