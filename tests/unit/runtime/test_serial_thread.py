"""Calls run in order; a thread without calls ends and another one takes the next call."""

from __future__ import annotations

import threading
import time
from functools import partial

from spark_connect_rt.base.concurrency import MACHINE_THREADS, SerialExecutor


def test_calls_run_one_after_another_also_on_the_threads_that_follow() -> None:
    seen: list[int] = []
    thread = SerialExecutor("serial", MACHINE_THREADS, linger_s=0.01)
    for number in range(40):
        thread.submit(partial(seen.append, number))
        if number % 10 == 9:
            time.sleep(0.05)
    thread.close()
    assert thread.join(5)
    assert seen == list(range(40))


def test_a_thread_without_calls_ends() -> None:
    names = {"serial-a", "serial-b"}
    a = SerialExecutor("serial-a", MACHINE_THREADS, linger_s=0.01)
    b = SerialExecutor("serial-b", MACHINE_THREADS)
    for serial_thread in (a, b):
        serial_thread.submit(lambda: None)
    limit_s = time.monotonic() + 5
    while (left := {thread.name for thread in threading.enumerate()} & names) != {
        "serial-b"
    } and time.monotonic() < limit_s:
        time.sleep(0.01)
    assert left == {"serial-b"}
    b.close()
    assert b.join(5)


def test_a_closed_one_without_a_thread_runs_nothing_more() -> None:
    thread, ran = SerialExecutor("serial", MACHINE_THREADS, linger_s=0.01), list[int]()
    thread.submit(lambda: ran.append(1))
    time.sleep(0.1)
    thread.close()
    thread.submit(lambda: ran.append(2))
    time.sleep(0.05)
    assert ran == [1]
