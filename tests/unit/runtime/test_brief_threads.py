"""Threads for brief calls: the next call meets the thread of the last one, and none waits behind a call that hangs."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from spark_connect_rt.base.concurrency import AT_ONCE, MACHINE_THREADS, ElasticPool

LIMIT_S = 20.0


def test_calls_one_after_another_share_a_thread() -> None:
    brief, met = ElasticPool(MACHINE_THREADS, kept_s=LIMIT_S), list[tuple[int, str]]()
    for number in range(50):
        ran = brief.start(
            f"call-{number}", lambda: met.append((threading.get_ident(), threading.current_thread().name))
        )
        ran.join(LIMIT_S)
        assert not ran.is_alive()
        _until_idle(brief)
    assert len({thread for thread, _ in met}) == 1
    assert [name for _, name in met] == [f"call-{number}" for number in range(50)]


def test_a_call_that_hangs_or_raises_holds_up_no_other() -> None:
    brief, go_on, ran = ElasticPool(MACHINE_THREADS), threading.Event(), threading.Event()

    def hang() -> None:
        go_on.wait(LIMIT_S)

    def fail() -> None:
        raise ValueError("a call's own")

    hung = brief.start("hung", hang)
    brief.start("raises", fail).join(LIMIT_S)
    brief.start("other", ran.set)
    assert ran.wait(LIMIT_S)
    assert hung.is_alive()
    go_on.set()
    hung.join(LIMIT_S)
    assert not hung.is_alive()


def test_a_crowd_of_calls_all_run_at_once_and_few_threads_stay() -> None:
    brief, together = ElasticPool(MACHINE_THREADS, kept_s=LIMIT_S, most=2), threading.Barrier(20)

    def meet() -> None:
        together.wait(LIMIT_S)

    runs = [brief.start(f"one-{n}", meet) for n in range(20)]
    for run in runs:
        run.join(LIMIT_S)
    assert not together.broken
    assert brief._idle <= 2


def test_hundreds_of_calls_at_once_take_few_threads_also_with_hanging_ones() -> None:
    brief, ran, threads, over = (
        ElasticPool(MACHINE_THREADS, kept_s=LIMIT_S),
        list[int](),
        set[int](),
        threading.Event(),
    )

    def call(number: int) -> None:
        ran.append(number)
        threads.add(threading.get_ident())
        if len(ran) == 500:
            over.set()

    hung = threading.Event()
    for _ in range(AT_ONCE):  # as many as may be started without waiting: others have to be added
        brief.start("hung", lambda: _wait(hung))
    for number in range(500):
        brief.start(f"one-{number}", partial(call, number))
    assert over.wait(LIMIT_S)
    hung.set()
    assert sorted(ran) == list(range(500))
    assert len(threads) < 250


def test_calls_that_hang_do_not_use_up_a_limited_pool(caplog: pytest.LogCaptureFixture) -> None:
    pool, hung, ran = ElasticPool(MACHINE_THREADS, at_most=4, stuck_after_ms=50), threading.Event(), threading.Event()
    for number in range(12):
        pool.start(f"hung-{number}", lambda: _wait(hung))
    pool.start("other", ran.set)
    assert ran.wait(LIMIT_S)
    assert "hung-0, hung-1" in caplog.text
    hung.set()


def test_calls_that_return_never_exceed_the_limit_of_a_pool() -> None:
    pool, together, most = ElasticPool(MACHINE_THREADS, at_most=4, stuck_after_ms=30), [0], [0]
    lock, done = threading.Lock(), threading.Semaphore(0)

    def call() -> None:
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        threading.Event().wait(0.01)
        with lock:
            together[0] -= 1
        done.release()

    for number in range(100):
        pool.start(f"call-{number}", call)
    assert all(done.acquire(timeout=LIMIT_S) for _ in range(100))
    assert most[0] <= 4


def _wait(event: threading.Event) -> None:
    event.wait(LIMIT_S)


def _until_idle(brief: ElasticPool) -> None:
    waiting = threading.Event()
    for _ in range(20_000):
        if brief._idle:
            return
        waiting.wait(0.001)
    raise AssertionError("the thread did not come back")
