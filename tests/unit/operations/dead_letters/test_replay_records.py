"""Marks and records of replays: what a prefix of the topic, or a damaged one, is read as."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.operations.dead_letters.replay_ledger import (
    CHUNK,
    DONE,
    FAILED,
    FAILURES_KEPT,
    REMEMBERED,
    NewReplayedOffsets,
    ReplayedOffsets,
    ReplayMark,
    ReplayProgress,
    ReplayRecords,
    ReplayRequest,
    ReplayStatus,
    definition_record,
    forgetting,
    joined,
    mark_key,
    may_take,
    progress_record,
    wish_record,
)

REPLAY = ReplayRequest(
    "a", "orders", "dead", "topic", {"stage": "X"}, ((0, 1),), {"patch": []}, 2.5, False, "ann", "w:1", 7
)


def fed(*records: tuple[bytes, bytes | None]) -> ReplayRecords:
    made = ReplayRecords()
    for key, value in records:
        made.take(key, value)
    return made


def now(records: ReplayRecords, replay_id: str) -> ReplayStatus:
    found = records.standing(replay_id)
    assert found is not None
    return found


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(CHUNK - 30, CHUNK + 30)), unique=True), st.integers(1, 50))
def test_exactly_what_was_delivered_is_marked_however_it_was_cut_into_transactions(
    places: list[tuple[int, int]], size: int
) -> None:
    """A worker that dies between two transactions goes on with what is on the topic."""
    places = sorted(places)
    marks = ReplayedOffsets()
    for start in range(0, len(places), size):
        new = NewReplayedOffsets("id", "r", marks)  # the next worker knows only the topic
        for half in (places[start : start + size // 2], places[start + size // 2 : start + size]):
            for key, value in new.records(half, 5):
                marks.take(json.loads(key), value)
            new.keep(half)
    marked = {
        (p, o) for p in (0, 1) for o in range(CHUNK - 40, CHUNK + 40) if marks.of("id", p, o) == ReplayMark("r", 5)
    }
    assert marked == set(places)
    assert marks.of("other", *places[0]) is None if places else True


def test_marks_of_two_replays_do_not_touch_each_other() -> None:
    marks = ReplayedOffsets()
    for replay, offsets, at_ms in (("a", [1, 2], 10), ("b", [2, 3], 20)):
        for key, value in NewReplayedOffsets("id", replay, marks).records([(0, offset) for offset in offsets], at_ms):
            marks.take(json.loads(key), value)
    assert [marks.of("id", 0, offset) for offset in range(5)] == [
        None,
        ReplayMark("a", 10),
        ReplayMark("b", 20),
        ReplayMark("b", 20),
        None,
    ]
    assert len(list(marks.before("id", {0: CHUNK}))) == 2
    assert list(marks.before("id", {0: CHUNK - 1})) == []
    marks.take(json.loads(mark_key(next(iter(marks._found)), "b")), None)
    assert marks.of("id", 0, 3) is None
    assert joined([(3, 4), (0, 2), (2, 3)]) == [(0, 4)]


def test_a_replay_comes_back_as_it_was_written() -> None:
    progress = ReplayProgress("w:2", topic_id="t", positions={0: 5}, ends={0: 9}, matched=3, done=2, at_ms=8)
    progress = progress.failing(0, 4, "no JSON")
    found = fed(definition_record(REPLAY), progress_record("a", progress)).standing("a")
    assert found is not None
    assert (found.replay, found.progress, found.state, found.worker) == (REPLAY, progress, "running", "w:2")
    for number in range(30):
        progress = progress.failing(0, number, "x" * 5_000)
    assert (progress.failed, len(progress.failures), len(progress.failures[-1][2])) == (31, FAILURES_KEPT, 2_000)


def test_states_and_whose_turn_it_is() -> None:
    second = replace(REPLAY, id="b", created_ms=8)
    other = replace(REPLAY, id="c", topic="else", created_ms=9)
    records = fed(*map(definition_record, (other, second, REPLAY)))
    assert [entry.replay.id for entry in records.due()] == ["a", "c"]
    records.take(*wish_record(now(records, "a"), stopped=True))
    assert [entry.replay.id for entry in records.due()] == ["b", "c"]
    records.take(*wish_record(now(records, "a"), stopped=False))
    records.take(*progress_record("a", ReplayProgress(state=FAILED, error="away", at_ms=5)))
    assert [entry.replay.id for entry in records.due()] == ["b", "c"]
    records.take(*progress_record("b", ReplayProgress(state=DONE)))
    records.take(*wish_record(now(records, "b"), stopped=True))
    assert [entry.state for entry in records.all()] == ["failed", "done", "running"]
    records.take(*wish_record(now(records, "a"), stopped=False))
    assert [entry.state for entry in records.all()] == ["running", "done", "running"]
    records.take(*progress_record("a", ReplayProgress(state=FAILED, error="away again", at_ms=6)))
    assert now(records, "a").state == "failed"


def test_a_silent_worker_is_relieved_and_a_lively_one_is_not() -> None:
    found = fed(definition_record(REPLAY)).standing("a")
    assert found is not None
    assert may_take(found, "w:1", 0.0, 10.0)
    assert not may_take(found, "w:2", 9.9, 10.0)
    assert may_take(found, "w:2", 10.0, 10.0)
    let_go = fed(definition_record(REPLAY), progress_record("a", ReplayProgress(at_ms=1))).standing("a")
    assert let_go is not None
    assert may_take(let_go, "w:2", 0.0, 10.0)


def test_ended_replays_are_forgotten_the_oldest_first() -> None:
    records = ReplayRecords()
    for number in range(REMEMBERED + 3):
        records.take(*definition_record(replace(REPLAY, id=str(number), created_ms=number)))
        records.take(*progress_record(str(number), ReplayProgress(state=DONE if number else "running")))
    assert records.forgettable() == ["1", "2"]
    for key, value in forgetting(["1"]):
        records.take(key, value)
    assert records.standing("1") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b""),
        (b"[]", b"{}"),
        (b'["replay","x"]', b"{"),
        (b'["replay","x"]', b"[]"),
        (b'["replay","x"]', b'{"id":"x"}'),
        (b'["progress","x"]', b"{}"),
        (b'["marks"]', b"{}"),
        (b'["marks","t",0,0,"r"]', b'{"ranges":[[1]]}'),
        (b'["other","x"]', b"{}"),
        (b"[" * 50_000, b"{}"),
        (b"\xff", b"\xff"),
    ],
)
def test_a_record_of_another_program_is_left_out(key: bytes | None, value: bytes) -> None:
    records = fed(definition_record(REPLAY), (key or b"", value) if key is not None else (b"", value))
    assert (records.refused, [entry.replay.id for entry in records.all()]) == (1, ["a"])
