"""The runner that comes later: calls wait in order, launches carry what executors lack."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from spark_connect_rt.app.deferred_runner import DeferredRunner, with_stores
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.security.tls import tls_settings
from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.engine.task_runner import Pause, Start, TaskCommand, TaskKind, TaskLaunch, TaskRunner


class Recorder:
    def __init__(self) -> None:
        self.commands: list[TaskCommand] = []

    def do(self, command: TaskCommand) -> None:
        self.commands.append(command)


def test_launches_wait_and_bring_the_stores_that_their_clients_name(tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    trust.write_text("-----BEGIN CERTIFICATE-----", encoding="ascii")
    task = ConnectorTaskId("a", 0)
    named = {"ssl.truststore.location": str(trust)}
    launch = TaskLaunch(task, 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {}, client_config=named)
    recorder = Recorder()
    runner = DeferredRunner(lambda: recorder, prepare=with_stores)  # type: ignore[arg-type,return-value]
    runner.do(Start(launch))
    runner.do(Pause(task))
    trust.unlink()  # an executor's machine has no such file
    runner.build()
    assert runner.real(10) is recorder
    start, pause = recorder.commands
    assert pause == Pause(task)
    assert isinstance(start, Start)
    assert tls_settings(start.launch.client_config) == {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----"}


@pytest.mark.parametrize("failure", [None, OSError("no broker")])
def test_building_waits_for_what_is_to_come_first_whether_that_succeeds_or_not(failure: Exception | None) -> None:
    first: Future[None] = Future()
    built: list[bool] = []

    def build() -> Recorder:
        built.append(first.done())
        return Recorder()

    runner = DeferredRunner(build)  # type: ignore[arg-type]
    runner.build(after=first)
    with pytest.raises(TimeoutError):
        runner.real(0.05)
    first.set_exception(failure) if failure else first.set_result(None)
    runner.real(10)
    assert built == [True]


def test_a_runner_that_cannot_be_built_is_reported_and_stops_nothing() -> None:
    heard: list[tuple[SupervisedPart, str]] = []

    def build() -> TaskRunner:
        raise ImportError("no pyspark")

    runner = DeferredRunner(build, report=lambda part, why: heard.append((part, str(why))))
    runner.do(Pause(ConnectorTaskId("a", 0)))
    runner.build()
    with pytest.raises(ImportError):
        runner.real(10)
    runner.close(0)
    runner.do(Pause(ConnectorTaskId("a", 0)))  # nobody is left to be told; the worker ends
    assert heard == [(SupervisedPart.SPARK, "no pyspark")]
