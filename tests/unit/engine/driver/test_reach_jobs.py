"""A look from an executor as the driver sees it, Spark left out: answered, refused, or ended at its limit."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.engine.driver.connectivity_jobs import SparkReach
from spark_connect_rt.engine.executor.reach import Obstacles
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError

PLACES = [("127.0.0.1", 1), ("b", 2)]


class Spark:
    """A session of one Spark context; its job answers, fails, or waits for a core."""

    def __init__(self, answer: list[str] | Exception | None, ready: bool = True) -> None:
        self.answer, self._ready = answer, ready
        self.groups: list[str] = []
        self.cancelled: list[str] = []
        self._ended = threading.Event()

    def ready(self) -> bool:
        return self._ready

    def get(self) -> Any:
        return SimpleNamespace(sparkContext=self)

    def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802 - Spark's
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's
        self.cancelled.append(group)
        self._ended.set()

    def parallelize(self, rows: list[int], parts: int) -> Spark:
        return self

    def mapPartitions(self, part: Any) -> Spark:  # noqa: N802 - Spark's
        return self

    def collect(self) -> list[str]:
        if self.answer is None:
            self._ended.wait(10)
            raise RuntimeError("cancelled")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def look(spark: Any, limit_s: float = 5.0) -> Obstacles:
    return SparkReach(spark)(PLACES, limit_s)


def test_probe_result_of_an_executor_has_its_host() -> None:
    assert look(Spark(["exec-1", "", "unknown host"])) == Obstacles("exec-1", ["", "unknown host"])


def test_without_a_free_core_it_ends_at_its_limit_and_nothing_is_left() -> None:
    spark = Spark(None)
    with pytest.raises(TimedOutError, match="no executor had a free core"):
        look(spark, 0.2)
    assert spark.cancelled == spark.groups
    assert spark.groups


def test_spark_that_is_not_up_is_not_waited_for_and_a_job_that_fails_is_an_error() -> None:
    with pytest.raises(RetriableError, match="not ready"):
        look(Spark([], ready=False))
    with pytest.raises(ConnectError, match="ValueError"):
        look(Spark(ValueError("x")))
    with pytest.raises(ConnectError):
        look(Spark(["exec-1", ""]))
