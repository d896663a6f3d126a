"""Workers that start together create the internal topics together."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.error_mapping import connect_error

SPEC = TopicSpec("statuses", 5)


class RacedAdmin(KafkaAdmin):
    """Another worker creates the topic between this one's look and its own attempt."""

    def __init__(self, code: int, times: int) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1"})
        self._code, self._left = code, times

    def partition_count(self, topic: str, timeout_ms: int = 0) -> int | None:
        return None

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


def test_any_other_failure_is_said_at_once() -> None:
    admin = RacedAdmin(KafkaError.INVALID_REQUEST, times=1)
    with pytest.raises(ConnectError, match="describing the settings of topic statuses"):
        admin.ensure_compacted(SPEC, timeout_ms=10_000)
    admin.close()
