"""The in-memory fenced writer keeps the contract, and gives its claim up when a write fails."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.testing.memory_transactions import MemoryFencedWriter
from tests.contract.fenced_writer_contract import FencedWriterContract


class TestMemoryFencedWriter(FencedWriterContract):
    topics: dict[str, MemoryLogTopic]

    def setup_method(self) -> None:
        self.topics = {}

    def new_log(self, topic: str, partitions: int = 1) -> MemoryCompactedLog:
        return MemoryCompactedLog(self.topics.setdefault(topic, MemoryLogTopic(topic, partitions=partitions)))

    def new_writer(self, topic: str, transactional_id: str) -> MemoryFencedWriter:
        return MemoryFencedWriter(self.topics.setdefault(topic, MemoryLogTopic(topic)), transactional_id)


def test_an_injected_failure_writes_nothing_and_gives_the_claim_up() -> None:
    topic = MemoryLogTopic()
    writer = MemoryFencedWriter(topic, "t")
    writer.claim(10)
    topic.fail_next_append(OSError("disk full"))
    with pytest.raises(RetriableError, match="disk full"):
        writer.write([(b"a", b"1")], 10)
    assert (topic.records(), topic.ends(), writer.is_claimed()) == ([], [0], False)
    writer.claim(10)
    writer.write([(b"a", b"1")], 10)
    assert (len(topic.records()), topic.ends()) == (1, [2])


def test_an_unreachable_broker_grants_no_claim_and_takes_no_write() -> None:
    topic = MemoryLogTopic()
    writer = MemoryFencedWriter(topic, "t")
    topic.reachable = False
    with pytest.raises(RetriableError, match="not reachable"):
        writer.claim(10)
    topic.reachable = True
    writer.claim(10)
    topic.reachable = False
    with pytest.raises(RetriableError, match="not reachable"):
        writer.write([(b"a", b"1")], 10)
