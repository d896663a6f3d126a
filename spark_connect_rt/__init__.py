"""Kafka Connect's distributed runtime as a Spark-native system."""

from spark_connect_rt._moved import install

install()
