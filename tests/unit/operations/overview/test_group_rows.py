"""Looks, what they cost, and what a stream is sent, over fakes: one gathering for everyone, changes once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_connect_rt.operations.overview.group_overview import GroupRows, row_json
from spark_connect_rt.operations.overview.model import ConnectorRow
from spark_connect_rt.operations.overview.selection import OverviewQuery
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.peers import GroupWorker, Serve, WorkerAnswer
from spark_connect_rt.runtime.values import ConnectorStateInfo, InstanceState, RestartNote, TaskState
from tests.unit.rest.fake_herder import FakeHerder

HERE, THERE = GroupWorker("h:8083", "http://h:8083/", this=True), GroupWorker("o:8083", "http://o:8083/")


class Time:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


@dataclass
class Reads:
    """Two workers: this one, and one that may not answer."""

    shares: dict[str, list[Any]] = field(default_factory=lambda: {"src": [1.5, None, 0, False]})
    away: str = ""
    asked: int = 0
    gate: threading.Event | None = None

    def serve(self, what: str, read: Serve) -> None: ...

    def answer(self, what: str, arguments: Mapping[str, Any]) -> Any: ...

    def workers(self) -> Sequence[GroupWorker]:
        return [HERE, THERE]

    def ask(
        self,
        what: str,
        arguments: Mapping[str, Any] | None = None,
        limit_ms: int = 1_000,
        only: Collection[str] | None = None,
    ) -> Sequence[WorkerAnswer]:
        self.asked += 1
        if self.gate:
            self.gate.wait(5)
        return [WorkerAnswer(HERE, dict(self.shares)), WorkerAnswer(THERE, {}, self.away)]


class States(FakeHerder):
    """One connector with a task, whose states a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.connector = InstanceState("RUNNING", "h:8083")
        self.task = TaskState(0, "RUNNING", "h:8083")
        self.made = 0
        self.times: dict[int | None, int] = {}

    def become(self, task: TaskState) -> None:
        self.task, self.version = task, self.version + 1

    def status_times(self, name: str) -> Mapping[int | None, int]:
        return self.times

    def states_mark(self) -> object:
        return self.version

    def connector_mark(self, name: str) -> object:
        return self.version

    def connector_status(self, name: str) -> ConnectorStateInfo:
        self.made += 1
        return ConnectorStateInfo(name, self.connector, (self.task,), "source")


Made = tuple[GroupRows, States, Reads, Time]


@pytest.fixture
def made() -> Iterator[Made]:
    states, reads, clock = States(), Reads(), Time()
    rows = GroupRows(states, reads, clock)
    yield rows, states, reads, clock
    rows.stop()


def only_row(rows: GroupRows) -> ConnectorRow:
    (row,) = rows.page(OverviewQuery()).connectors
    return row


def test_many_pages_a_second_share_a_gathering_and_only_changed_states_are_read(made: Made) -> None:
    rows, states, reads, clock = made
    for _ in range(50):
        only_row(rows)
    assert (reads.asked, states.made) == (1, 1)
    clock.ms += 1_001
    only_row(rows)
    assert (reads.asked, states.made) == (2, 1)


def test_a_page_shows_the_last_rates_at_once_during_a_slow_gathering(made: Made) -> None:
    rows, _, reads, clock = made
    assert only_row(rows).records_per_second == 1.5
    reads.gate, reads.shares = threading.Event(), {"src": [9.0, None, 0, False]}
    clock.ms += 2_000
    assert only_row(rows).records_per_second == 1.5
    reads.gate.set()
    clock.ms += 1_001
    assert only_row(rows).records_per_second == 9.0


def test_rows_of_an_unanswering_worker_are_unknown(made: Made) -> None:
    rows, states, reads, clock = made
    reads.shares, reads.away = {}, "no answer"
    assert only_row(rows).records_per_second == 0.0
    states.become(TaskState(0, "RUNNING", "o:8083"))
    clock.ms += 2_000
    row = only_row(rows)
    assert (row.records_per_second, row.lag, row.errors, row.abnormal) == (None, None, None, False)
    assert [unanswered.worker_id for unanswered in rows.page(OverviewQuery()).unanswered] == ["o:8083"]


@pytest.mark.parametrize("odd", [{"src": 1}, {"src": []}, {"src": ["x", None, 0, False]}, {"src": [None] * 4}])
def test_an_answer_that_makes_no_sense_counts_nothing(made: Made, odd: dict[str, Any]) -> None:
    rows, _, reads, _ = made
    reads.shares = odd
    assert only_row(rows).records_per_second == 0.0


def test_unassigned_is_abnormal_after_a_minute_though_nothing_else_happens(made: Made) -> None:
    rows, states, _, clock = made
    states.become(TaskState(0, "UNASSIGNED", "h:8083"))
    assert not only_row(rows).abnormal
    clock.ms += 61_000
    assert only_row(rows).why == "task 0 UNASSIGNED for 61 s"


def test_a_worker_that_left_is_missed_after_half_a_minute(made: Made) -> None:
    rows, states, _, clock = made
    states.become(TaskState(0, "RUNNING", "gone:1"))
    assert not only_row(rows).abnormal
    clock.ms += 31_000
    only_row(rows)
    assert "worker gone:1 has left the group" in only_row(rows).why


def test_a_lag_that_grows_is_abnormal(made: Made) -> None:
    rows, _, reads, _ = made
    reads.shares = {"src": [1.5, 70, 0, True]}
    assert only_row(rows).why == "its lag has grown for ten minutes, to 70 records"


def changes(rows: GroupRows, since_ms: int) -> dict[str, Any] | None:
    body = rows.changes(since_ms).body
    return None if body is None else dict(json.loads(body))


def test_a_stream_is_sent_what_changed_since_its_page_and_the_same_bytes_as_the_next(made: Made) -> None:
    rows, states, _, _ = made
    page = rows.page(OverviewQuery())
    assert changes(rows, page.at_ms) is None
    states.become(TaskState(0, "FAILED", "h:8083", trace="ValueError: no"))
    rows.page(OverviewQuery())
    first, second = rows.changes(page.at_ms), rows.changes(page.at_ms)
    assert first.body is second.body
    found = json.loads(first.body or b"")
    assert [row["why"] for row in found["changed"]] == ["task 0 FAILED: ValueError: no"]
    assert (found["counts"], found["removed"], found["at_ms"]) == ({"FAILED": 1, "abnormal": 1}, [], first.at_ms)
    assert changes(rows, first.at_ms) is None
    del states.infos["src"]
    states.version += 1
    rows.page(OverviewQuery())
    gone = changes(rows, first.at_ms) or {}
    assert (gone["removed"], gone["changed"], gone["counts"]) == (["src"], [], {"abnormal": 0})


def test_changes_without_a_known_state_start_from_now(made: Made) -> None:
    rows, _, _, _ = made
    at_ms = rows.page(OverviewQuery()).at_ms
    assert rows.changes(0).at_ms == at_ms
    assert rows.changes(0).body is None
    assert (changes(rows, 1) or {})["changed"]  # older than anything: all of it


def test_one_thread_polls_while_a_reader_follows_and_ends_without_readers(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_connect_rt.operations.overview import group_overview as group_rows

    monkeypatch.setattr(group_rows, "LOOK_EACH_S", 0.01)
    rows, _, reads, clock = made
    for _ in range(10):
        rows.changes(0)
    await_fact(lambda: reads.asked == 1)
    assert [thread.name for thread in threading.enumerate()].count("overview-stream") == 1
    clock.ms += 3_000
    await_fact(lambda: reads.asked == 2)
    clock.ms += 60_000
    await_fact(lambda: "overview-stream" not in [thread.name for thread in threading.enumerate()])


def await_fact(fact: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if fact():
            return
        threading.Event().wait(0.01)
    raise AssertionError("not within 10 s")


def test_a_row_is_written_as_the_rest_api_writes_it() -> None:
    row = ConnectorRow(
        "a", "sink", "C", "FAILED", "FAILED", "w", {"FAILED": 1}, 1.5, 7, 2, "e", 5, None, "s", True, "why"
    )
    for restart in (None, RestartNote(2, 5), RestartNote(0, None, "enough")):
        connector_row = replace(row, restart=restart)
        assert row_json(connector_row) == as_json(connector_row)
        assert list(row_json(connector_row)) == list(as_json(connector_row))


def test_a_task_that_failed_again_has_its_newest_error_and_a_note_makes_no_new_state(made: Made) -> None:
    rows, states, _, clock = made
    written: dict[int | None, int] = {}
    states.times = written
    for number in (1, 2):
        written[0] = clock.ms + number
        states.become(TaskState(0, "FAILED", "h:8083", trace=f"ValueError: {number}"))
        row = only_row(rows)
        assert (row.last_error, row.last_error_at_ms) == (f"task 0: ValueError: {number}", written[0])
    written[0] = clock.ms
    states.become(TaskState(0, "UNASSIGNED", "h:8083"))
    only_row(rows)
    clock.ms += 61_000
    written[0] = clock.ms
    states.become(TaskState(0, "UNASSIGNED", "h:8083", version="2"))
    row = only_row(rows)
    assert row.why == "task 0 UNASSIGNED for 61 s"
    assert row.last_error == "task 0: ValueError: 2"
