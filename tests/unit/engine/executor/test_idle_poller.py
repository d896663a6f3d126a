"""Idle tasks sleep while one thread looks for all of them; none of them can keep the others from being woken."""

from __future__ import annotations

import threading
import time

import pytest

from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.engine.executor import idle_poller
from spark_connect_rt.engine.executor.hosting import Switches
from spark_connect_rt.engine.executor.idle_poller import HANGS_S, OFTEN_S, RARELY_S, IdlePoller
from spark_connect_rt.testing.memory_executor_clients import wait_until


class Sleeper:
    """A task's thread in ``wait``."""

    def __init__(self, looks: IdlePoller, wait_s: float = OFTEN_S, look: IdleLook | None = None) -> None:
        self.switches = Switches(paused=False)
        self.news = threading.Event()
        self.looked = 0
        self._thread = threading.Thread(target=looks.wait, args=(self.switches, look or self.look, wait_s), daemon=True)
        self._thread.start()

    def look(self) -> bool:
        self.looked += 1
        return self.news.is_set()

    @property
    def sleeps(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture(autouse=True)
def no_own_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_poller, "OWN_POLL_S", {OFTEN_S: 3600.0, RARELY_S: 3600.0})


@pytest.mark.parametrize("wait_s", [OFTEN_S, RARELY_S])
def test_sleeper_with_news_is_woken_alone(wait_s: float) -> None:
    looks = IdlePoller()
    sleepers = [Sleeper(looks, wait_s) for _ in range(3)]
    wait_until(lambda: all(sleeper.looked for sleeper in sleepers))
    sleepers[1].news.set()
    wait_until(lambda: not sleepers[1].sleeps)
    looked = sleepers[2].looked
    wait_until(lambda: sleepers[2].looked > looked)
    assert sleepers[0].sleeps
    assert sleepers[2].sleeps


def test_one_thread_looks_for_all() -> None:
    looks = IdlePoller()
    before = threading.active_count()
    sleepers = [Sleeper(looks) for _ in range(20)]
    wait_until(lambda: all(sleeper.looked > 1 for sleeper in sleepers))
    assert threading.active_count() == before + 20 + 1


def test_an_eager_task_is_checked_among_patient_ones() -> None:
    looks = IdlePoller()
    patient = Sleeper(looks, RARELY_S)
    wait_until(lambda: patient.looked > 0)
    eager = Sleeper(looks, OFTEN_S)
    wait_until(lambda: eager.looked > 8)
    assert patient.looked < eager.looked


def test_a_switch_wakes_a_sleeper_and_it_is_not_checked_any_more() -> None:
    looks = IdlePoller()
    sleeper, other = Sleeper(looks), Sleeper(looks)
    wait_until(lambda: sleeper.looked > 0)
    sleeper.switches.set(stopping=True)
    wait_until(lambda: not sleeper.sleeps)
    looked, others = sleeper.looked, other.looked
    wait_until(lambda: other.looked > others + 2)
    assert sleeper.looked <= looked + 1


def test_a_check_that_raises_wakes_its_task_and_the_others_are_checked() -> None:
    looks = IdlePoller()
    broken = Sleeper(looks, look=lambda: bool(1 / 0))
    wait_until(lambda: not broken.sleeps)
    fine = Sleeper(looks)
    wait_until(lambda: fine.looked > 2)


def test_a_check_that_hangs_delays_its_neighbours_only_by_seconds() -> None:
    looks, begun, released = IdlePoller(), threading.Event(), threading.Event()

    def hang() -> bool:
        begun.set()
        return released.wait(60)

    hanging = Sleeper(looks, look=hang)
    assert begun.wait(10)
    other = Sleeper(looks)
    looks.check(time.monotonic())
    assert hanging.sleeps
    assert not other.looked
    looks.check(time.monotonic() + HANGS_S)
    wait_until(lambda: other.looked > 1 and not hanging.sleeps)
    released.set()
    assert other.sleeps


def test_without_a_thread_each_task_polls_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    looks, switches = IdlePoller(), Switches(paused=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    looks.wait(switches, lambda: False, 0.01)  # comes back by itself
