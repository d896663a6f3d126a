"""Which worker of a group records a change, and when."""

from __future__ import annotations

import pytest

from spark_connect_rt.operations.history.recorder import (
    LEADER_MS,
    OTHERS_MS,
    PASSED_ON_MS,
    ObservedChange,
    RequestedBy,
    UnrecordedChanges,
)
from spark_connect_rt.rest.change_history import CONFIG, STATE
from spark_connect_rt.runtime.herder.herder_requests import PutConfig, SetTargetState
from spark_connect_rt.topics.config_records import TargetState

SEEN = ObservedChange(CONFIG, "a", "update", {"x": "1"}, {"x": "2"}, 0, position=7)
PUT = PutConfig("a", {"x": "2"})


@pytest.mark.parametrize(("is_leader", "delay_ms"), [(True, LEADER_MS), (False, OTHERS_MS + 1_234)])
def test_unserved_change_waits_longest_where_another_worker_may_know_more(is_leader: bool, delay_ms: int) -> None:
    pending = UnrecordedChanges(others_extra_ms=1_234)
    pending.see(SEEN, 1_000, is_leader)
    assert pending.take_due(1_000 + delay_ms - 1) == []
    [entry] = pending.take_due(1_000 + delay_ms)
    assert (entry.seen, entry.asked) == (SEEN, None)


@pytest.mark.parametrize(("here", "delay_ms"), [(True, 0), (False, PASSED_ON_MS)])
@pytest.mark.parametrize("answer_first", [True, False])
def test_author_is_known_whether_answer_or_change_comes_first(here: bool, delay_ms: int, answer_first: bool) -> None:
    pending, asked = UnrecordedChanges(), RequestedBy("ada@h", "", here)
    if answer_first:
        pending.answered(PUT, asked, 1_000)
    pending.see(SEEN, 1_000, is_leader=False)
    if not answer_first:
        pending.answered(PUT, asked, 1_000)
    assert pending.next_due_ms() == 1_000 + delay_ms
    assert [entry.asked for entry in pending.take_due(1_000 + delay_ms)] == [asked]


def test_an_answer_of_another_or_an_old_request_names_no_user() -> None:
    pending, asked = UnrecordedChanges(), RequestedBy("ada@h", "", True)
    pending.answered(SetTargetState("a", TargetState.PAUSED), asked, 100_000)
    pending.answered(PUT, asked, 1_000)
    pending.see(SEEN, 100_000, is_leader=True)
    assert pending.take_due(200_000)[0].asked is None


def test_nothing_overtakes_what_could_not_be_recorded() -> None:
    pending, asked = UnrecordedChanges(), RequestedBy("ada@h", "", True)
    pending.see(SEEN, 1_000, is_leader=True)
    pending.answered(PUT, asked, 1_000)
    first = pending.take_due(1_000)
    pending.put_back(first, 3_000)
    pause = ObservedChange(STATE, "a", "pause", {"state": "RUNNING"}, {"state": "PAUSED"}, 0, position=8)
    pending.see(pause, 1_500, is_leader=True)
    pending.answered(SetTargetState("a", TargetState.PAUSED), asked, 1_500)
    assert (pending.take_due(2_999), pending.next_due_ms()) == ([], 3_000)
    assert [entry.seen for entry in pending.take_due(3_000)] == [SEEN, pause]
