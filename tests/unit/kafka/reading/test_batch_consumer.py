"""Errors among the events of a poll: what was read before them, and beside them, is never lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.kafka.reading import batch_consumer
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer


class Event:
    """A message of librdkafka's: a record of topic ``a``, or an error of another one's partition."""

    def __init__(self, offset: int = 0, error: KafkaError | None = None, partition: int = 0) -> None:
        self._offset, self._error, self._partition = offset, error, partition

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "a" if self._error is None else "gone"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> None:
        return None


class FakeClient:
    """A queue of events; like librdkafka it never hands one out twice."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = deque(events)

    def poll(self, _timeout_s: float) -> Event | None:
        return self._events.popleft() if self._events else None

    def incremental_assign(self, _partitions: object) -> None: ...

    def incremental_unassign(self, _partitions: object) -> None: ...

    def consume(self, count: int, _timeout_s: float) -> list[Event]:
        return [self._events.popleft() for _ in range(min(count, len(self._events)))]


def consumer_of(monkeypatch: pytest.MonkeyPatch, *events: Event) -> KafkaBatchConsumer:
    monkeypatch.setattr(batch_consumer, "make_consumer", lambda *_: FakeClient(events))
    monkeypatch.setattr(batch_consumer, "Message", Event)
    return KafkaBatchConsumer({})


def polled(consumer: KafkaBatchConsumer, calls: int, most: int = 100) -> list[Any]:
    """What each call returned: offsets, or the kind of error."""
    found: list[Any] = []
    for _ in range(calls):
        try:
            batch = consumer.poll(most, 0)
            found.append(None if batch is None else batch.column("offset").to_pylist())
        except ConnectError as error:
            found.append(type(error))
    return found


def gone(code: int = KafkaError.UNKNOWN_TOPIC_OR_PART, partition: int = 0) -> Event:
    return Event(error=KafkaError(code), partition=partition)


def test_rows_read_with_an_error_are_returned_first_and_then_the_error_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [Event(at) for at in range(5)]
    consumer = consumer_of(monkeypatch, *records[:3], gone(), *records[3:])
    assert polled(consumer, 3) == [[0, 1, 2, 3, 4], NotFoundError, None]


def test_every_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = consumer_of(
        monkeypatch, Event(0), gone(), gone(KafkaError.TOPIC_AUTHORIZATION_FAILED, partition=1), Event(1)
    )
    assert polled(consumer, 4) == [[0, 1], NotFoundError, ConnectError, None]


def test_an_error_that_the_client_itself_waits_out_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = [gone(code) for code in (KafkaError.REQUEST_TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH)]
    assert polled(consumer_of(monkeypatch, *passing, Event(1)), 2) == [[1], None]


def test_an_error_with_nothing_before_it_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = consumer_of(monkeypatch, gone(), Event(7))
    assert polled(consumer, 3) == [NotFoundError, [7], None]


def test_nothing_is_reported_of_a_partition_that_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = consumer_of(monkeypatch, Event(0), gone(), Event(1))
    place = TopicPartition("gone", 0)
    consumer.assign({place: 5})
    assert polled(consumer, 1) == [[0, 1]]
    consumer.unassign([place])
    assert polled(consumer, 1) == [None]
