"""``connectrt quickstart``: an embedded Kafka, a worker and connectors to look at, in one process."""
