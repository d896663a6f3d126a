"""Every request is answered, whatever the code that serves it raises; a bounded number of threads serves them."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import MACHINE_THREADS, ElasticPool, answer_by, answered, copy_outcome
from spark_connect_rt.errors import ConnectError, NotFoundError, as_error
from spark_connect_rt.runtime.herder.request_queue import QueuedRequest, RequestQueue
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource
from tests.unit.rest.test_over_herders import Workers
from tests.unit.runtime.cluster_stories import source

LIMIT_S = 20.0
NO_ERRORS = (
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    CancelledError(),
    asyncio.CancelledError(),
    TimeoutError("late"),
)


class Time:
    """A clock."""

    ms = 0

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


def test_a_flood_of_requests_waits_for_its_turn_and_all_are_served() -> None:
    threads, gate = ElasticPool(MACHINE_THREADS, at_most=3), threading.Event()
    names: set[int] = set()

    def request(number: int) -> int:
        gate.wait(LIMIT_S)
        names.add(threading.get_ident())
        return number

    answers = [threads.answer("request", lambda number=number: request(number)) for number in range(50)]  # type: ignore[misc]
    gate.set()
    assert [answer.result(LIMIT_S) for answer in answers] == list(range(50))
    assert len(names) <= 3


@pytest.mark.parametrize("raised", [*NO_ERRORS, ValueError("x")], ids=repr)
def test_error_of_a_call_is_its_answer_and_its_thread_serves_the_next_call(raised: BaseException) -> None:
    threads = ElasticPool(MACHINE_THREADS, at_most=2)

    def fail() -> None:
        raise raised

    for _ in range(5):
        error = threads.answer("request", fail).exception(LIMIT_S)
        assert isinstance(error, Exception)
        assert type(raised).__name__ in repr(error)
    for _ in range(5):
        threads.start("unguarded", fail)
    assert threads.answer("request", lambda: 7).result(LIMIT_S) == 7


def test_errors_stay_themselves_and_what_ends_a_thread_becomes_one() -> None:
    known = NotFoundError("no such connector")
    assert as_error(known) is known
    for raised in NO_ERRORS:
        error = as_error(raised)
        assert isinstance(error, ConnectError)
        assert type(raised).__name__ in str(error)
    assert str(as_error(SystemExit("no license"))) == "plug-in code raised SystemExit: no license"


def test_an_answer_that_was_cancelled_gets_no_result() -> None:
    cancelled: Future[int] = Future()
    assert cancelled.cancel()
    answer_by(cancelled, lambda: 1 // 0)
    copy_outcome(answered(lambda: 1), cancelled)
    copy_outcome(cancelled, waits := Future[int]())
    assert isinstance(waits.exception(0), ConnectError)
    later: Future[int] = Future()
    answer_by(answer := Future[int](), lambda: later)
    assert not answer.cancel()  # it runs
    later.set_result(3)
    assert answer.result(0) == 3


def test_a_request_waits_for_the_group_only_if_it_needs_it() -> None:
    clock = Time()
    queue = RequestQueue(clock, lambda: None, limit_ms=1_000)
    first = queue.add("first", lambda: 1)
    queue.add("second", lambda: 2, needs_group=False)
    queue.add("later", lambda: 3, needs_group=False, delay_ms=500)
    assert (len(queue), queue.waiting(), queue.next_due_ms()) == (3, ["first", "second", "later"], 0)
    assert _what(queue.take_due(0, group_is_stable=False, only="first")) is None
    assert _what(queue.take_due(0, group_is_stable=False)) == "second"
    assert _what(queue.take_due(0, group_is_stable=False)) is None
    assert _what(queue.take_due(500, group_is_stable=True, only="later")) is None
    queue.expire(999, lambda: "")
    queue.expire(1_000, lambda: "why")
    assert str(first.exception(0)) == "Request timed out. why"
    assert _what(queue.take_due(1_000, group_is_stable=True)) == "later"
    queue.expire(10_000, lambda: "")
    assert (len(queue), queue.next_due_ms()) == (0, None)


def _what(request: QueuedRequest[Any] | None) -> str | None:
    return None if request is None else request.what


def test_a_queue_is_emptied_in_order_and_at_a_cost_that_grows_with_its_length() -> None:
    def cpu_s(count: int) -> float:
        queue, served = RequestQueue(Time(), lambda: None), list[int]()
        for number in range(count):
            queue.add("request", lambda number=number: served.append(number), needs_group=number % 2 == 0)  # type: ignore[misc]
        begun_s = time.thread_time()
        while (request := queue.take_due(0, group_is_stable=True)) is not None:
            queue.expire(1, lambda: "")
            request.run(queue.put)
        assert served == list(range(count))
        return time.thread_time() - begun_s

    cpu_s(100)
    assert cpu_s(8_000) < 40 * max(cpu_s(1_000), 0.002)  # 8 times as many: quadratic would be 64 times


def test_a_plug_in_that_ends_the_process_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object) -> Any:
        raise SystemExit("no license")

    with InProcessCluster() as cluster:
        workers = Workers(cluster, "w1")
        for call in ("validate", "config_def"):
            with monkeypatch.context() as patched:
                patched.setattr(MemorySource, call, leave)
                path = "/connector-plugins/MemorySource/config/validate"
                for method, where in [("PUT", path), ("PUT", "/connectors/a/config")] * 35:
                    answer = workers.ask("w1", method, where, source())
                    assert (answer.status_code, "no license" in answer.text) == (500, True), call
        assert workers.ask("w1", "PUT", "/connectors/a/config", source()).status_code == 201
