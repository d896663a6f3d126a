"""``connectrt quickstart``: an embedded Kafka, a worker and connectors to look at, in one process.

Owns what is shown and in which order. Only the command line imports it.
"""
