"""How the loop that producers share is woken: once for all that comes at an instant, at once for who is alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.kafka.writing import shared_clients
from spark_connect_rt.kafka.writing.shared_clients import SharedLoop
from spark_connect_rt.testing.memory_executor_clients import wait_until


class Sender:
    """Takes rows, as a ColumnSender; here they are numbers."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, float]] = []

    def put(self, rows: int) -> None:
        self.taken.append((rows, time.monotonic()))

    def numbers(self) -> list[int]:
        return [rows for rows, _ in list(self.taken)]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(shared_clients, "GATHER_S", 0.3)
    monkeypatch.setattr(shared_clients, "CALM_S", 0.0)  # every batch comes behind a pause
    shared_loop = SharedLoop()
    yield shared_loop
    shared_loop.loop.call_soon_threadsafe(shared_loop.loop.stop)


def test_concurrent_producers_are_batched_from_the_second_instant_on(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Sender(), Sender()
    monkeypatch.setattr(shared_clients, "CALM_S", 60.0)
    loop.put(first, 1)
    loop.put(second, 1)
    wait_until(lambda: first.numbers() == second.numbers() == [1])
    monkeypatch.setattr(shared_clients, "CALM_S", 0.0)  # the next instant
    began_s = time.monotonic()
    for number in (2, 3):
        loop.put(first, number)
    loop.put(second, 2)
    wait_until(lambda: first.numbers() == [1, 2, 3] and second.numbers() == [1, 2])
    assert first.taken[1][1] - began_s > 0.25
    assert second.taken[-1][1] - first.taken[1][1] < 0.1


def test_rows_of_one_producer_wait_for_no_others(loop: Any) -> None:
    alone = Sender()
    for number in range(5):
        began_s = time.monotonic()
        loop.put(alone, number)
        wait_until(lambda so_far=number + 1: len(alone.taken) == so_far)  # type: ignore[misc]
        assert alone.taken[-1][1] - began_s < 0.25
    assert alone.numbers() == list(range(5))
