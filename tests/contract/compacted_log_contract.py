"""The contract of every CompactedLog. Inherited by tests/unit/testing and tests/integration/kafka."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord

LIMIT_MS = 20_000
_numbers = itertools.count(1)


def fresh_name(prefix: str) -> str:
    """Return a topic or group name no other test of this session uses."""
    return f"{prefix}-{next(_numbers)}-{time.time_ns() % 1_000_000_000}"


def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for a fact; fail when it does not come true."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "the awaited fact did not come true"
        threading.Event().wait(0.005)


class Seen:
    """Collects the records that a log delivers."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.threads: set[int] = set()

    def __call__(self, records: Sequence[LogRecord]) -> None:
        self.records.extend(records)
        self.threads.add(threading.get_ident())

    def pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records]


class CompactedLogContract:
    """The subclass makes logs; two logs of one name share a topic."""

    def new_log(self, topic: str, partitions: int = 1) -> CompactedLog:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        return fresh_name("log")

    def started(self, topic: str, partitions: int = 1) -> tuple[CompactedLog, Seen]:
        log, seen = self.new_log(topic, partitions), Seen()
        log.start(seen)
        return log, seen

    def test_an_empty_topic_starts_and_is_at_its_end(self, topic: str) -> None:
        log, seen = self.started(topic)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.records == []

    def test_reading_to_the_end_shows_what_was_appended_in_order(self, topic: str) -> None:
        log, seen = self.started(topic)
        log.append([(b"a", b"1"), (b"b", b"2")])
        log.append([(b"a", b"3")])
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
        assert [(r.partition, r.offset) for r in seen.records] == [(0, 0), (0, 1), (0, 2)]

    def test_reading_back_shows_what_was_appended_and_all_before_it(self, topic: str) -> None:
        log, seen = self.started(topic)
        other, _ = self.started(topic)
        for n in range(5):
            other.append([(b"o", b"%d" % n)])
            other.flush(LIMIT_MS)
            log.append([(b"a", b"%d" % n), (b"b", b"%d" % n)])
            log.read_back(LIMIT_MS)
            assert [value for _, value in seen.pairs()] == [b"%d" % (m // 3) for m in range(3 * n + 3)]
        other.stop()
        log.stop()

    def test_a_tombstone_is_not_an_empty_value(self, topic: str) -> None:
        log, seen = self.started(topic)
        log.append([(b"a", None), (b"b", b"")])
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", None), (b"b", b"")]

    def test_start_returns_after_everything_already_there(self, topic: str) -> None:
        first, _ = self.started(topic)
        first.append([(b"%d" % n, b"x") for n in range(2_500)])
        first.flush(LIMIT_MS)
        first.stop()
        log, seen = self.started(topic)
        count = len(seen.records)
        log.stop()
        assert count == 2_500

    def test_one_log_sees_what_another_appends_without_being_asked(self, topic: str) -> None:
        reader, seen = self.started(topic)
        writer, _ = self.started(topic)
        writer.append([(b"a", b"1")])
        until(lambda: seen.pairs() == [(b"a", b"1")])
        reader.stop()
        writer.stop()

    def test_reading_to_the_end_covers_other_writers(self, topic: str) -> None:
        reader, seen = self.started(topic)
        writer, _ = self.started(topic)
        for n in range(20):
            writer.append([(b"a", b"%d" % n)])
            writer.flush(LIMIT_MS)
            reader.read_to_end(LIMIT_MS)
            assert seen.records[-1].value == b"%d" % n
        reader.stop()
        writer.stop()

    def test_every_append_is_answered_once(self, topic: str) -> None:
        log, _ = self.started(topic)
        answers: list[Exception | None] = []
        log.append([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], answers.append)
        log.append([], answers.append)
        until(lambda: len(answers) == 2)
        log.flush(LIMIT_MS)
        log.stop()
        assert answers == [None, None]

    def test_after_a_flush_every_answer_was_given(self, topic: str) -> None:
        log, _ = self.started(topic)
        answers: list[Exception | None] = []
        for n in range(100):
            log.append([(b"k%d" % n, b"v")], answers.append)
        log.flush(LIMIT_MS)
        assert answers == [None] * 100
        log.stop()

    def test_records_come_from_one_thread_after_start(self, topic: str) -> None:
        log, seen = self.started(topic)
        seen.threads.clear()
        for n in range(10):
            log.append([(b"k%d" % n, b"v")])
            log.flush(LIMIT_MS)
        until(lambda: len(seen.records) == 10)
        log.stop()
        assert len(seen.threads) == 1

    def test_the_same_key_stays_in_one_partition_and_in_order(self, topic: str) -> None:
        log, seen = self.started(topic, partitions=5)
        log.append([(b"k%d" % (n % 7), b"%d" % n) for n in range(70)])
        log.read_to_end(LIMIT_MS)
        log.stop()
        for key in {record.key for record in seen.records}:
            mine = [record for record in seen.records if record.key == key]
            assert len({record.partition for record in mine}) == 1
            values = [int(record.value or b"") for record in mine]
            assert values == sorted(values)
            assert len(values) == 10
        assert len({record.partition for record in seen.records}) > 1

    def test_an_error_of_a_reader_reaches_the_waiting_thread(self, topic: str) -> None:
        log = self.new_log(topic)

        def refuse(records: Sequence[LogRecord]) -> None:
            raise ValueError("cannot fold")

        log.start(refuse)
        log.append([(b"a", b"1")])
        with pytest.raises(ConnectError, match="cannot fold"):
            log.read_to_end(LIMIT_MS)
        log.stop()

    def test_stopping_twice_and_before_the_start_is_harmless(self, topic: str) -> None:
        self.new_log(topic).stop()
        log, _ = self.started(topic)
        log.append([(b"a", b"1")])
        log.stop()
        log.stop()
        _, seen = again = self.started(topic)
        again[0].stop()
        assert seen.pairs() == [(b"a", b"1")]

    def test_a_stopped_log_takes_no_more(self, topic: str) -> None:
        log, _ = self.started(topic)
        log.stop()
        with pytest.raises(ConnectError, match="stopped"):
            log.append([(b"a", b"1")])
