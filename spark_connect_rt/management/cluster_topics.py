"""The topics of the cluster that a connector works with, as its own clients see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException

from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.error_mapping import connect_error

ListTopics = Callable[[Mapping[str, str]], Mapping[str, int]]
"""Admin properties, resolved -> partitions of each topic. Raises ConnectError. Never makes a topic."""
LIMIT_S = 15.0


def kafka_topics(properties: Mapping[str, str]) -> Mapping[str, int]:
    """Return how many partitions each topic of a cluster has, those that this client may see. See ListTopics."""
    admin = KafkaAdmin(properties)
    admin.check_reachable(int(LIMIT_S * 1000))  # says what is in the way
    with admin.client() as client:
        try:
            found = client.list_topics(timeout=LIMIT_S)
        except KafkaException as error:
            raise connect_error(error, "listing topics") from error
    return {name: len(one.partitions) for name, one in found.topics.items() if one.error is None}
