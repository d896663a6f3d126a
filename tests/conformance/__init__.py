"""Apache Kafka's own Connect integration tests, unmodified, against our workers: ``./test.sh conformance``."""
