"""The contract of the stores of the history over any log.

Inherited by tests/unit/topics and tests/integration/kafka.
"""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.operations.history.offset_timeline import (
    HOURS,
    MINUTE_MS,
    MINUTES,
    OffsetTimelineStore,
    TimelineChunk,
    packed,
    with_point,
)
from spark_connect_rt.operations.history.store import CourseKey, Draft, HistoryStore
from spark_connect_rt.rest.change_history import CONFIG, OFFSETS, Change, ChangeQuery
from spark_connect_rt.topics.compacted_log import LogSource
from tests.contract.compacted_log_contract import fresh_name

READ_MS = 10_000
NOW_MS = 1_800_000_000_000


def draft(connector: str, position: int | None = None, **more: Any) -> Draft:
    fields: dict[str, Any] = {"kind": CONFIG, "action": "update", "who": "ada@h", "before": None, "after": {"a": "1"}}
    fields |= {"at_ms": NOW_MS, "worker_id": "w", **more}
    return Draft(Change(number=0, connector=connector, **fields), position)


class HistoryStoreContract:
    """The subclass gives the source of a log; two sources of one name share a topic."""

    def source(self, topic: str) -> LogSource:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        return fresh_name("history")

    def store(self, topic: str, changes_max: int = 10, age_max_ms: int = 10**9, now_ms: int = NOW_MS) -> HistoryStore:
        return HistoryStore(self.source(topic), changes_max, age_max_ms, lambda: now_ms)

    def test_there_is_no_history_until_something_is_written(self, topic: str) -> None:
        store = self.store(topic)
        assert store.refresh(READ_MS) is False
        assert (store.changes(ChangeQuery()), store.problem) == ([], "")
        assert store.append([draft("a"), draft("b")]) == [1, 2]
        assert store.refresh(READ_MS) is True
        store.close()

    def test_another_reader_sees_the_same(self, topic: str) -> None:
        store, other = self.store(topic), self.store(topic)
        store.append([draft("a", 5, note="n", changed_unseen=("p",)), draft("a", 6, kind=OFFSETS, action="alter")])
        assert other.refresh(READ_MS) is True
        assert other.changes(ChangeQuery()) == store.changes(ChangeQuery())
        assert [change.number for change in other.changes(ChangeQuery("a", (CONFIG,)))] == [1]
        assert other.changes(ChangeQuery("a", before=2))[0].changed_unseen == ("p",)
        assert (other.is_recorded("a", CONFIG, 5), other.is_recorded("a", CONFIG, 6)) == (True, False)
        assert other.first_position() == 5
        for history_store in (store, other):
            history_store.close()

    def test_two_writers_never_share_a_number(self, topic: str) -> None:
        store, other = self.store(topic), self.store(topic)
        assert store.append([draft("a")]) == [1]
        assert other.append([draft("b")]) == [2]
        assert store.append([draft("a")]) == [3]
        other.refresh(READ_MS)
        assert [change.number for change in other.changes(ChangeQuery())] == [3, 2, 1]
        for history_store in (store, other):
            history_store.close()

    def test_of_two_records_of_one_change_the_one_that_says_who_counts(self, topic: str) -> None:
        store = self.store(topic)
        store.append([draft("a", 7, who=None)])
        store.append([draft("a", 7)])
        store.append([draft("a", 7, who="eve@h"), draft("a", 7, who=None)])
        assert [(change.who, change.number) for change in store.changes(ChangeQuery("a"))] == [("ada@h", 2)]
        again = self.store(topic)
        again.refresh(READ_MS)
        assert again.changes(ChangeQuery("a")) == store.changes(ChangeQuery("a"))
        for history_store in (store, again):
            history_store.close()

    def test_excess_and_old_changes_are_forgotten_by_connector(self, topic: str) -> None:
        store = self.store(topic, changes_max=3, age_max_ms=1_000)
        store.append([draft("a", at_ms=NOW_MS - 2_000), draft("b"), *(draft("a") for _ in range(5))])
        assert [change.number for change in store.changes(ChangeQuery("a"))] == [7, 6, 5]
        assert [change.number for change in store.changes(ChangeQuery("b"))] == [2]
        later = self.store(topic, changes_max=3, age_max_ms=1_000, now_ms=NOW_MS + 5_000)
        later.refresh(READ_MS)
        assert later.changes(ChangeQuery()) == []
        assert later.forget_excess() == 4
        for history_store in (store, later):
            history_store.close()

    def test_a_change_that_is_too_large_says_what_is_left_out(self, topic: str) -> None:
        store = self.store(topic)
        store.append([draft("a", before={"x": "y" * 2_000_000})])
        [change] = store.changes(ChangeQuery("a"))
        assert (change.before, change.after) == (None, {"a": "1"})
        assert change.note == "before is left out, because it is too large for one record"
        store.close()

    def test_the_course_is_kept_in_slots_that_go_round(self, topic: str) -> None:
        store, other = OffsetTimelineStore(self.source(topic)), OffsetTimelineStore(self.source(topic))
        start_ms = HOURS.start_ms(NOW_MS)
        part = with_point(TimelineChunk(start_ms), MINUTES, (start_ms + MINUTE_MS, [({"f": "x"}, {"p": 2**60})]))
        assert part is not None
        value = packed(part, MINUTES, 10_000)
        assert value is not None
        store.write({CourseKey("minute", MINUTES.slot(start_ms), "a/b c-1"): value})
        assert other.refresh(READ_MS) is True
        assert other.parts("a/b c-1") == [part]
        assert other.part("a/b c-1", MINUTES, start_ms + 1) == part
        next_day_ms = start_ms + MINUTES.slots * MINUTES.part_ms
        assert other.part("a/b c-1", MINUTES, next_day_ms) == TimelineChunk(next_day_ms)  # its slot, another hour
        assert other.forget_old(start_ms) == 0
        assert other.forget_old(next_day_ms + MINUTES.part_ms) == 1
        store.refresh(READ_MS)
        assert store.parts("a/b c-1") == []
        for course_store in (store, other):
            course_store.close()
