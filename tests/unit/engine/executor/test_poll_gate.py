"""Tasks that look at the same instants work one after the other; nobody is kept from working for long."""

from __future__ import annotations

import threading

import pytest

from spark_connect_rt.engine.executor.poll_gate import APART_S, LITTLE_S, PLACES, GatedPolls, PollGate


def waiting(gate: PollGate) -> GatedPolls:
    task = GatedPolls(gate)
    task.waits(0.5)
    return task


def test_tasks_at_shared_instants_work_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.executor.poll_gate.PATIENCE_S", 20.0)  # however slow the machine is
    gate, inside, most = PollGate(), [0], [0]
    begin = threading.Barrier(8)

    def work() -> bool:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.001)  # lets go of the interpreter, as files and Arrow do
        inside[0] -= 1
        return True

    def run() -> None:
        task = waiting(gate)
        begin.wait()
        assert task.run(work)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_task_that_hangs_in_its_turn_blocks_no_other() -> None:
    gate, hangs, done = PollGate(), threading.Event(), threading.Event()

    def hang() -> bool:
        hangs.set()
        return done.wait(30)

    hanging = threading.Thread(target=lambda: waiting(gate).run(hang))
    hanging.start()
    hangs.wait()
    neighbour = waiting(gate)
    assert [neighbour.run(lambda: False), neighbour.run(lambda: True)] == [False, True]
    assert hanging.is_alive()
    done.set()
    hanging.join()
    assert not gate.taken.locked()


@pytest.mark.parametrize(("waits_s", "took_s"), [(0.02, 0.0), (0.5, 2 * LITTLE_S)])
def test_flowing_or_busy_task_takes_no_turn(waits_s: float, took_s: float) -> None:
    gate, now_s, seen = PollGate(), [0.0], list[bool]()
    task = GatedPolls(gate, lambda: now_s[0])
    task.waits(waits_s)

    def work() -> bool:
        now_s[0] += took_s
        seen.append(gate.taken.locked())
        return False

    task.run(work)
    task.run(work)
    assert not seen[1]


def test_error_in_a_turn_is_raised_and_ends_the_turn() -> None:
    gate = PollGate()

    def fail() -> bool:
        raise ValueError("poll")

    with pytest.raises(ValueError, match="poll"):
        waiting(gate).run(fail)
    assert not gate.taken.locked()


def test_tasks_wake_a_little_apart_around_instants_they_share_and_nowhere_else() -> None:
    gate = PollGate()
    tasks = [GatedPolls(gate) for _ in range(PLACES + 1)]
    waits = [task.waits(0.5) for task in tasks]
    assert len(set(waits)) == PLACES
    assert min(waits) == waits[0] == waits[-1] == 0.5
    assert max(waits) < 0.5 + PLACES * APART_S
    assert {task.waits(0.02) for task in tasks} == {0.02}
