"""The steps of Apache Kafka's system tests for Connect: short with every run, long with ``./test.sh long``."""
