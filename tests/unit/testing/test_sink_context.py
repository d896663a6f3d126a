"""What a sink task asks of its worker by its context, SinkHarness does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.testing.sink_harness import SinkHarness

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
Step = Callable[["Asking", Sequence[SinkRecord]], None]


class Asking(SinkTask):
    """Notes its puts; before each it does what a test says."""

    puts: ClassVar[list[list[Any]]] = []
    steps: ClassVar[list[Step | None]] = []
    opened: ClassVar[list[Callable[[Asking], None]]] = []
    holds: ClassVar[bool] = False

    def start(self, config: Mapping[str, str]) -> None:
        """Begin."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        for callback in self.opened:
            callback(self)

    def put(self, records: Sequence[SinkRecord]) -> None:
        step = self.steps.pop(0) if self.steps else None
        if step is not None:
            step(self, records)
        self.puts.append([record.value for record in records])

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {} if self.holds else offsets

    def stop(self) -> None:
        """End."""


class AskingSink(SinkConnector):
    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def task_class(self) -> type[Any]:
        return Asking

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Asking.puts, Asking.steps, Asking.opened, Asking.holds = [], [], [], False


def sink(*values: Any, partition: int = 0) -> SinkHarness:
    made = SinkHarness(AskingSink, {"topics": "t"})
    for value in values:
        made.send("t", value, partition=partition)
    return made


def test_a_task_begins_where_its_target_says() -> None:
    Asking.opened = [lambda task: task.context.offset({ZERO: 2})]
    with sink("a", "b", "c") as harness:
        assert harness.deliver()
        assert Asking.puts == [["c"]]
        assert harness.commit() == {ZERO: 3}


def test_a_task_that_goes_back_gets_the_records_again_in_the_same_deliver() -> None:
    Asking.steps = [lambda task, _: task.context.offset({ZERO: 1})]
    with sink("a", "b", "c") as harness:
        assert harness.deliver()
        assert Asking.puts == [["a", "b", "c"], ["b", "c"]]


def test_a_task_that_always_goes_back_is_an_error_of_the_test() -> None:
    Asking.steps = [lambda task, _: task.context.offset({ZERO: 0})] * 1_001
    with sink("a") as harness, pytest.raises(AssertionError, match="gone back"):
        harness.deliver()


def test_nothing_comes_of_a_paused_partition_until_it_is_resumed() -> None:
    Asking.steps = [lambda task, _: task.context.pause(ZERO)]
    with sink("a") as harness:
        harness.send("t", "x", partition=1)
        assert harness.deliver()
        assert harness.paused == {ZERO}
        harness.send("t", "b")
        harness.send("t", "y", partition=1)
        assert harness.deliver()
        assert Asking.puts == [["a", "x"], ["y"]]
        Asking.steps = [lambda task, _: task.context.resume(ZERO)]
        assert harness.deliver(), "an empty put"
        assert harness.deliver()
        assert (Asking.puts[2:], harness.paused) == ([[], ["b"]], frozenset())
        assert harness.commit() == {ZERO: 2, ONE: 2}


def test_only_partitions_of_the_task_can_be_paused() -> None:
    Asking.steps = [lambda task, _: task.context.pause(TopicPartition("other", 0))]
    with sink("a") as harness, pytest.raises(ConnectError, match="not currently assigned"):
        harness.deliver()


def test_a_wait_that_the_task_asks_for_is_the_workers() -> None:
    def refuse(task: Asking, _: Sequence[SinkRecord]) -> None:
        task.context.timeout(7_000)
        raise RetriableError("later")

    Asking.steps = [refuse, None, lambda task, _: task.context.timeout(300)]
    with sink("a") as harness:
        assert not harness.deliver()
        assert harness.asked_wait_s == pytest.approx(7, abs=1)
        assert harness.commit() == {}
        assert harness.deliver()
        assert harness.asked_wait_s is None
        harness.send("t", "b")
        assert harness.deliver()
        assert harness.asked_wait_s == pytest.approx(0.3, abs=0.3)


def test_a_retriable_error_without_a_wait_has_the_workers() -> None:
    def refuse(task: Asking, _: Sequence[SinkRecord]) -> None:
        raise RetriableError("later")

    Asking.steps = [refuse, refuse]
    with sink("a") as harness:
        waits = []
        while not harness.deliver():
            waits.append(harness.asked_wait_s)
        assert waits == [0.1, 0.2]


def test_a_commit_that_the_task_asks_for_happens_behind_its_call() -> None:
    Asking.steps = [None, lambda task, _: task.context.request_commit()]
    with sink("a") as harness:
        assert harness.deliver()
        assert harness.committed == {}
        harness.send("t", "b")
        assert harness.deliver()
        assert harness.committed == {ZERO: 2}


def test_offsets_held_back_by_a_task_are_not_committed() -> None:
    Asking.holds = True
    with sink("a") as harness:
        assert harness.deliver()
        assert harness.commit() == {}
        Asking.holds = False
        assert harness.commit() == {ZERO: 1}


def test_configuration_and_assignment() -> None:
    with sink("a") as harness:
        assert harness.task.context.configs()["topics"] == "t"
        assert harness.task.context.assignment() == frozenset()
        assert harness.deliver()
        assert harness.task.context.assignment() == {ZERO}
        assert harness.task.context.previewed is False
