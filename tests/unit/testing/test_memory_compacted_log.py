"""The in-memory log keeps the contract, and what only it can show: compaction and injected failures."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadConfigError, RetriableError, TimedOutError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from tests.contract.compacted_log_contract import CompactedLogContract, Seen


class TestMemoryCompactedLog(CompactedLogContract):
    topics: dict[str, MemoryLogTopic]

    def setup_method(self) -> None:
        self.topics = {}

    def new_log(self, topic: str, partitions: int = 1) -> MemoryCompactedLog:
        known = self.topics.setdefault(topic, MemoryLogTopic(topic, partitions=partitions))
        return MemoryCompactedLog(known)


def test_manual_delivery_hands_over_only_when_asked() -> None:
    topic = MemoryLogTopic()
    log, seen = MemoryCompactedLog(topic, threaded=False), Seen()
    log.start(seen)
    topic.write([(b"a", b"1")])
    assert seen.records == []
    assert log.deliver() == 1
    assert log.deliver() == 0
    topic.write([(b"a", b"2")])
    log.read_to_end(10)
    assert seen.pairs() == [(b"a", b"1"), (b"a", b"2")]


def test_compaction_keeps_the_last_record_of_each_key_at_its_offset() -> None:
    topic = MemoryLogTopic()
    topic.write([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)])
    topic.compact()
    log, seen = MemoryCompactedLog(topic, threaded=False), Seen()
    log.start(seen)
    assert [(r.offset, r.key, r.value) for r in seen.records] == [(2, b"a", b"2"), (3, b"b", None)]


def test_an_injected_failure_answers_the_append_and_the_flush() -> None:
    topic = MemoryLogTopic()
    log = MemoryCompactedLog(topic, threaded=False)
    log.start(Seen())
    topic.fail_next_append(RetriableError("no leader"))
    answers: list[Exception | None] = []
    log.append([(b"a", b"1")], answers.append)
    assert [str(answer) for answer in answers] == ["no leader"]
    with pytest.raises(RetriableError, match="no leader"):
        log.flush(10)
    log.flush(10)
    assert topic.records() == []


def test_an_unreachable_broker_refuses_the_start_and_times_out_readers() -> None:
    topic = MemoryLogTopic()
    log = MemoryCompactedLog(topic)
    topic.reachable = False
    with pytest.raises(RetriableError, match="not reachable"):
        log.start(Seen())
    topic.reachable = True
    log.start(Seen())
    topic.reachable = False
    with pytest.raises(TimedOutError):
        log.read_to_end(10)
    log.stop()


def test_a_topic_that_is_not_compacted_or_has_too_many_partitions_is_refused() -> None:
    with pytest.raises(BadConfigError, match="delete but must be compact"):
        MemoryCompactedLog(MemoryLogTopic(cleanup_policy="delete")).start(Seen())
    with pytest.raises(BadConfigError, match="2 partitions, but must be 1"):
        MemoryCompactedLog(MemoryLogTopic(partitions=2), exact_partitions=1).start(Seen())
