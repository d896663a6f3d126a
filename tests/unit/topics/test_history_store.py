"""The stores of the history over memory and over a standalone worker's file, and the effect of damage on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.operations.history.offset_timeline import OffsetTimelineStore
from spark_connect_rt.operations.history.store import HistoryStore
from spark_connect_rt.rest.change_history import ChangeQuery
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.compacted_log import LogSource
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_file import OffsetFile
from tests.contract.history_store_contract import NOW_MS, READ_MS, HistoryStoreContract, draft


class TestHistoryInMemory(HistoryStoreContract):
    @pytest.fixture(autouse=True)
    def _topics(self) -> None:
        self.topics: dict[str, MemoryLogTopic] = {}

    def source(self, topic: str) -> LogSource:
        held = self.topics.setdefault(topic, MemoryLogTopic(topic))
        return LogSource(lambda: held.ends() != [0], lambda _: MemoryCompactedLog(held))


def store_over(topic: MemoryLogTopic) -> HistoryStore:
    source = LogSource(lambda: topic.reachable, lambda _: MemoryCompactedLog(topic))
    return HistoryStore(source, 10, 10**9, lambda: NOW_MS)


def test_a_file_keeps_the_numbers(tmp_path: Path) -> None:
    for numbers in ([1, 2], [3, 4]):
        kept = OffsetFile(tmp_path / "offsets.history")
        source = LogSource(lambda: True, lambda _, kept=kept: LocalCompactedLog("history", kept))
        store = HistoryStore(source, 10, 10**9, lambda: NOW_MS)
        assert store.append([draft("a"), draft("b")]) == numbers
        store.close()


def test_a_file_that_is_damaged_is_reported(tmp_path: Path) -> None:
    (tmp_path / "offsets.history").write_bytes(b"garbage")
    kept = OffsetFile(tmp_path / "offsets.history")
    store = HistoryStore(LogSource(lambda: True, lambda _: LocalCompactedLog("h", kept)), 10, 10**9, lambda: NOW_MS)
    with pytest.raises(ConnectError):
        store.append([draft("a")])
    assert "cannot be read" in store.problem


def test_two_that_take_one_number_at_once_get_two() -> None:
    topic = MemoryLogTopic()
    store = store_over(topic)
    store.append([draft("a")])
    topic.write([(b"change-2-aaaa", topic.records()[0].value), (b"change-2-bbbb", topic.records()[0].value)])
    store.refresh(READ_MS)
    assert [change.number for change in store.changes(ChangeQuery())] == [2, 1]
    assert store.forget_excess() == 1
    assert [change.number for change in store.changes(ChangeQuery())] == [2, 1]
    assert store.append([draft("b")]) == [3]
    store.close()


def test_unreachable_topic_is_reported_and_recovers() -> None:
    topic = MemoryLogTopic()
    store = store_over(topic)
    store.append([draft("a")])
    topic.reachable = False
    with pytest.raises(RetriableError):
        store.append([draft("a")])
    assert "not reachable" in store.problem
    topic.reachable = True
    assert store.append([draft("a")]) == [2]
    assert store.problem == ""
    store.close()


@pytest.mark.parametrize("value", [b"", b"x", b"x\x9c", b"x\x9c\xab\x56\x52\xb2\x52\xa8\x05\x00\x06\x98\x01\xc1"])
def test_a_damaged_part_of_a_timeline_is_reported(value: bytes) -> None:
    topic = MemoryLogTopic()
    topic.write([(b"course-minute-3-a", value), (b"course-x", b"")])
    store = OffsetTimelineStore(LogSource(lambda: True, lambda _: MemoryCompactedLog(topic)))
    store.refresh(READ_MS)
    assert store.parts("a") == []
    assert store.problem.startswith("2 parts of the offset history cannot be read")
    store.close()
