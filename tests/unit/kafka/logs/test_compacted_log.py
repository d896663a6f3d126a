"""Appends to a log whose brokers do not answer: never a wait without an end, and every append is answered once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import LogClientProperties
from spark_connect_rt.errors import RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.kafka.logs import compacted_log, log_clients
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog


class Admin:
    """An empty topic of one partition."""

    def check_reachable(self, timeout_ms: int) -> None: ...

    def ensure_compacted(self, spec: TopicSpec, partitions: int | None, timeout_ms: int) -> int:
        return 1

    def earliest_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> Mapping[TopicPartition, int]:
        self.asked_for_ends += 1
        return dict.fromkeys(partitions, 0)

    def __init__(self) -> None:
        self.asked_for_ends = 0


class Consumer:
    def assign(self, partitions: Any) -> None: ...

    def consume(self, count: int, wait_s: float) -> list[Any]:
        threading.Event().wait(wait_s)
        return []

    def close(self) -> None: ...


class Producer:
    """Holds ``room`` records; answers nothing before ``answer``."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.answers_polls = self.closed = False
        self.held: list[tuple[bytes, Callable[[Any, Any], None]]] = []

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        partition: int,
        on_delivery: Callable[[Any, Any], None],
        timestamp: int,
    ) -> None:
        if len(self.held) >= self.room:
            raise BufferError("Local: Queue full")
        self.held.append((key, on_delivery))

    def answer(self) -> None:
        held, self.held = self.held, []
        for _, on_delivery in held:
            on_delivery(None, None)

    def poll(self, wait_s: float) -> None:
        if wait_s and self.answers_polls:
            self.answer()

    def flush(self, wait_s: float) -> None:
        self.answer()

    def purge(self) -> None: ...

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    producer = Producer(room=2)
    monkeypatch.setattr(log_clients, "make_producer", lambda *_: producer)
    monkeypatch.setattr(log_clients, "make_consumer", lambda *_: Consumer())
    return producer


@pytest.fixture
def log(producer: Producer) -> Iterator[KafkaCompactedLog]:
    log = KafkaCompactedLog(TopicSpec("t", 1, 1), Admin(), LogClientProperties({}, {}))  # type: ignore[arg-type]
    log.start(lambda records: None)
    yield log
    log.stop()


def test_an_append_to_a_full_queue_is_refused_at_once_and_may_be_tried_again(
    log: KafkaCompactedLog, producer: Producer
) -> None:
    told: list[Exception | None] = []
    log.append([(b"1", b""), (b"2", b"")])
    appending = threading.Thread(target=lambda: log.append([(b"3", b""), (b"4", b"")], told.append), daemon=True)
    appending.start()
    appending.join(5)
    assert not appending.is_alive()
    assert [type(error) for error in told] == [RetriableError]
    producer.answer()
    log.append([(b"3", b"")], told.append)
    producer.answer()
    assert told[1:] == [None]


def test_an_append_larger_than_the_queue_waits_for_room_but_not_forever(
    log: KafkaCompactedLog, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_log, "BLOCK_LIMIT_S", 0.05)
    told: list[Exception | None] = []
    records = [(b"%d" % number, b"") for number in range(5)]
    log.append(records, told.append)
    assert told == []
    producer.answer()
    assert [type(error) for error in told] == [RetriableError]
    producer.answers_polls = True
    log.append(records, told.append)
    producer.answer()
    assert told[1:] == [None]


def test_the_count_of_reports_is_taken_under_a_lock(log: KafkaCompactedLog, producer: Producer) -> None:
    """A lost count blocks every later commit; today's interpreter switches threads where it cannot be lost."""
    told: list[Exception | None] = []
    log.append([(b"1", b""), (b"2", b"")], told.append)
    answer: Any = producer.held[0][1]
    answer._left = Slow(2)
    threads = [threading.Thread(target=answer, args=(None, None)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [None]


class Slow(int):
    """A number whose subtraction lets other threads run."""

    def __sub__(self, other: int) -> Slow:
        threading.Event().wait(0.05)
        return Slow(int(self) - other)


class Report:
    """A delivery report."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0


def test_read_back_asks_for_the_end_only_when_a_report_has_no_offset(
    producer: Producer,
) -> None:
    admin = Admin()
    log = KafkaCompactedLog(TopicSpec("t", 1, 1), admin, LogClientProperties({}, {}))  # type: ignore[arg-type]
    log.start(lambda records: None)
    at_start = admin.asked_for_ends
    log.append([(b"1", b"")])
    producer.held.pop()[1](None, Report(7))
    with pytest.raises(TimedOutError):
        log.read_back(10)
    assert admin.asked_for_ends == at_start
    log.append([(b"1", b"")])
    producer.held.pop()[1](None, Report(-1001))  # acknowledged as a retry that had arrived: no one knows where
    log.read_back(1_000)
    assert admin.asked_for_ends == at_start + 1
    log.stop()
