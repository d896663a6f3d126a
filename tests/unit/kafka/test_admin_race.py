"""Workers that start together create the internal topics together."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec, too_few_brokers
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.internal_topics import internal_topics

SPEC = TopicSpec("statuses", 5)


class RacedAdmin(KafkaAdmin):
    """Another worker creates the topic between this one's look and its own attempt."""

    def __init__(self, code: int, times: int) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1"})
        self._code, self._left = code, times
        self._unknown = 3  # answers before a broker knows the topic

    def partition_count(self, topic: str, timeout_ms: int = 0) -> int | None:
        self._unknown -= 1
        return None if self._unknown >= 0 else 5

    def create_topic(self, spec: TopicSpec, timeout_ms: int = 0) -> bool:
        return False

    def cleanup_policy(self, topic: str, timeout_ms: int = 0) -> str | None:
        if self._left:
            self._left -= 1
            error = KafkaException(KafkaError(self._code))
            raise connect_error(error, f"describing the settings of topic {topic}") from error
        return "compact"


def test_a_broker_that_does_not_know_the_new_topic_yet_is_asked_again() -> None:
    admin = RacedAdmin(KafkaError.UNKNOWN_TOPIC_OR_PART, times=3)
    assert admin.ensure_compacted(SPEC, timeout_ms=10_000) == 5
    admin.close()


def test_the_count_of_a_topic_that_another_worker_created_is_asked_for_not_assumed() -> None:
    admin = RacedAdmin(0, times=0)
    with pytest.raises(BadConfigError, match="5 partitions, but must be 1"):
        admin.ensure_compacted(TopicSpec("configs", 1), exact_partitions=1, timeout_ms=10_000)
    admin.close()


def test_any_other_failure_is_reported_at_once() -> None:
    admin = RacedAdmin(KafkaError.INVALID_REQUEST, times=1)
    with pytest.raises(ConnectError, match="describing the settings of topic statuses"):
        admin.ensure_compacted(SPEC, timeout_ms=10_000)
    admin.close()


def test_too_large_a_replication_factor_names_its_setting_and_the_siblings() -> None:
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
    }
    specs = internal_topics(distributed_config(settings))
    assert too_few_brokers(specs["offsets"]) == (
        "replication factor 3: the cluster has fewer brokers. Set offset.storage.replication.factor to at most the "
        "number of brokers, and config.storage.replication.factor and status.storage.replication.factor as well. "
        "On a single broker, all of them are 1"
    )
    assert too_few_brokers(TopicSpec("t", 1, 2)) == "replication factor 2: the cluster has fewer brokers"
