"""The ground truth of the many-workers stories can tell right from wrong."""

from __future__ import annotations

import orjson

from tests.support.numbered_lines import (
    Arrivals,
    Entry,
    duplicates,
    missing,
    newest_generation,
    offsets_that_went_back,
    outage,
    replays,
    runs_at_once,
    spread,
)


def test_a_takeover_is_one_replay_and_its_repeated_lines_are_counted() -> None:
    numbers = [0, 1, 2, 3, 2, 3, 4, 5]
    assert replays(numbers) == 1
    assert duplicates(numbers) == 2
    assert missing(numbers, 6) == []


def test_two_instances_at_once_replay_nearly_every_line() -> None:
    assert replays([0, 1, 1, 2, 2, 3, 3, 4, 4]) == 4
    assert replays([5, 3, 6, 4, 7, 5, 8]) == 3


def test_a_lost_line_is_missing() -> None:
    assert missing([0, 1, 3], 5) == [2, 4]


def test_the_longest_silence_after_the_event() -> None:
    arrivals = Arrivals([0, 1, 2, 3], [0, 5_000, 5_100, 7_100])
    assert outage(arrivals, 5_050) == (2_000, 2_050)
    assert outage(arrivals, 4_000) == (2_000, 3_100), "silence before the event does not count"
    assert outage(Arrivals([0], [0]), 10)[0] == 3_600_000, "never again"


def offset(key: str, position: int) -> Entry:
    return Entry(key.encode(), orjson.dumps({"position": position}), 0)


def test_a_zombies_commit_goes_back() -> None:
    assert offsets_that_went_back([offset("a", 1), offset("b", 9), offset("a", 1), offset("a", 2)]) == []
    assert offsets_that_went_back([offset("a", 1), offset("a", 5), offset("a", 3)]) == ["a: 5 -> 3"]


def status(task: str, state: str, worker: str, at_ms: int = 0, generation: int = 1) -> Entry:
    value = {"state": state, "worker_id": worker, "generation": generation}
    return Entry(f"status-task-{task}".encode(), orjson.dumps(value), at_ms)


def test_a_task_moves_in_order_when_the_first_said_that_it_stopped() -> None:
    history = [status("a-0", "RUNNING", "w1"), status("a-0", "UNASSIGNED", "w1"), status("a-0", "RUNNING", "w2")]
    assert runs_at_once(history) == []
    assert runs_at_once([history[0], history[2]]) == ["status-task-a-0: w2 runs it, w1 had not stopped it"]
    assert runs_at_once([history[0], history[2]], dead=["w1"]) == []


def test_changes_before_a_scenario_are_not_its_fault() -> None:
    history = [status("a-0", "RUNNING", "w1", 1), status("a-0", "RUNNING", "w2", 2), status("a-0", "RUNNING", "w1", 3)]
    assert len(runs_at_once(history)) == 2
    assert runs_at_once(history, since_ms=3) == ["status-task-a-0: w1 runs it, w2 had not stopped it"]


def test_a_late_word_of_the_old_owner_does_not_end_the_new_one() -> None:
    history = [status("a-0", "RUNNING", "w1"), status("a-0", "UNASSIGNED", "w1"), status("a-0", "RUNNING", "w2")]
    history += [status("a-0", "UNASSIGNED", "w1"), status("a-0", "RUNNING", "w3")]
    assert runs_at_once(history) == ["status-task-a-0: w3 runs it, w2 had not stopped it"]


def test_the_newest_generation_and_shares() -> None:
    assert newest_generation([status("a-0", "RUNNING", "w1", generation=7), status("a-1", "FAILED", "w1")]) == 7
    assert spread(["w1", "w2", "w1"], ["w1", "w2", "w3"]) == (0, 1, 2)
