"""Kafka Connect's distributed runtime as a Spark-native system."""
