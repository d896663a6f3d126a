"""A local Apache Kafka and a Java to run it, for first runs and tests."""
