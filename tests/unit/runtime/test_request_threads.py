"""However many requests come, a bounded number of threads serves them, each in its turn."""

from __future__ import annotations

import threading

from spark_connect_rt.ports.threads import MACHINE_THREADS
from spark_connect_rt.runtime.herder.requests.request_threads import RequestThreads


def test_a_flood_of_requests_waits_for_its_turn_and_all_are_served() -> None:
    requests, gate, over = RequestThreads(MACHINE_THREADS, most=3), threading.Event(), threading.Semaphore(0)
    served: list[int] = []

    def request(number: int) -> None:
        gate.wait(10)
        served.append(number)
        over.release()

    before = threading.active_count()
    for number in range(50):
        requests.run(lambda number=number: request(number))  # type: ignore[misc]
    assert threading.active_count() - before <= 3
    gate.set()
    assert all(over.acquire(timeout=10) for _ in range(50))
    assert sorted(served) == list(range(50))


def test_one_that_raises_and_one_that_cannot_be_started_leave_their_place_to_others() -> None:
    requests, done = RequestThreads(MACHINE_THREADS, most=1), threading.Event()
    requests.run(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    requests.run(done.set)
    assert done.wait(10)
    again = threading.Event()
    requests.run(again.set)
    assert again.wait(10)
