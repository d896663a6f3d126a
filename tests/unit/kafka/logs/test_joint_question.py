"""One question for everybody who asks it at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from spark_connect_rt.kafka.logs.compacted_log import SingleFlight

LIMIT_S = 10.0


class Broker:
    """Answers how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_asked = threading.Semaphore(0)
        self.may_answer = threading.Semaphore(0)
        self.fails = 0

    def put(self, left_s: float) -> int:
        assert 0 < left_s <= LIMIT_S
        self.asked += 1
        now = self.asked
        self.is_asked.release()
        assert self.may_answer.acquire(timeout=LIMIT_S)
        if now <= self.fails:
            raise OSError("away")
        return now


def test_later_callers_share_the_next_answer() -> None:
    broker, question = Broker(), SingleFlight[int]()
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(question.ask, broker.put, LIMIT_S)
        assert broker.is_asked.acquire(timeout=LIMIT_S)
        others = [threads.submit(question.ask, broker.put, LIMIT_S) for _ in range(10)]
        assert not any(future.done() for future in others)
        broker.may_answer.release()
        assert first.result(LIMIT_S) == 1
        broker.may_answer.release(20)
        found = [future.result(LIMIT_S) for future in others]
    assert min(found) > 1, "an answer to a question that was put before they came"
    assert question.ask(broker.put, LIMIT_S) == broker.asked == max(found) + 1


def test_a_failure_is_only_its_askers() -> None:
    broker, question = Broker(), SingleFlight[int]()
    broker.fails = 1
    broker.may_answer.release(10)
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(question.ask, broker.put, LIMIT_S) for _ in range(2)]
        wait(asked, LIMIT_S)
        failed = [future.exception() for future in asked]
    assert {type(error) for error in failed} == {OSError, type(None)}


def test_waiting_too_long_for_others_times_out() -> None:
    broker, question = Broker(), SingleFlight[int]()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(question.ask, broker.put, LIMIT_S)
        assert broker.is_asked.acquire(timeout=LIMIT_S)
        with pytest.raises(TimeoutError):
            question.ask(broker.put, 0.01)
        broker.may_answer.release()
        assert first.result(LIMIT_S) == 1
