"""The machine's timers: none has a thread while it waits, and one that is cancelled is forgotten."""

from __future__ import annotations

import gc
import threading
import weakref

from spark_connect_rt.base.concurrency import MachineThreads

DAY_MS = 86_400_000


def test_timers_that_wait_have_one_thread_between_them() -> None:
    threads, before = MachineThreads(), threading.active_count()
    timers = [threads.later(DAY_MS, lambda: None) for _ in range(100)]
    assert threading.active_count() <= before + 1
    for timer in timers:
        timer.cancel()


def test_calls_come_in_the_order_they_are_due_also_behind_one_that_hangs() -> None:
    threads, called, hang = MachineThreads(), list[str](), threading.Event()
    done = threading.Event()
    threads.later(DAY_MS, lambda: called.append("tomorrow"))
    threads.later(150, lambda: (called.append("third"), done.set()))
    threads.later(10, lambda: (called.append("first"), hang.wait(10)))
    threads.later(80, lambda: called.append("second"))
    assert done.wait(5)
    hang.set()
    assert called == ["first", "second", "third"]


def test_a_cancelled_call_never_comes_and_nothing_of_it_is_kept() -> None:
    class Run:
        def called(self) -> None:
            raise AssertionError

    threads, run, done = MachineThreads(), Run(), threading.Event()
    timer = threads.later(20, run.called)
    kept = weakref.ref(run)
    timer.cancel()
    timer.cancel()
    del run
    gc.collect()
    assert kept() is None
    threads.later(60, done.set)
    assert done.wait(5)
    timer.cancel()  # long over


def test_a_call_that_raises_ends_no_other() -> None:
    threads, done = MachineThreads(), threading.Event()
    told: list[object] = []
    before, threading.excepthook = threading.excepthook, told.append
    try:
        threads.later(0, lambda: 1 // 0)
        threads.later(30, done.set)
        assert done.wait(5)
    finally:
        threading.excepthook = before
    assert len(told) == 1
