"""A plug-in call that kills its process fails only its own task; neighbours of the process are hosted again.

``./test.sh stress`` tries every call on executors and prints a table. Calls of connectors are made in the worker's own
process: one that kills it ends the worker, as in Java, and its tasks move to other workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import Assign, Start, TaskFailed, TaskKind, TaskLaunch, TaskRunning
from tests.contract.task_runner_contract import Worker
from tests.integration.spark.test_spark_task_runner import new_worker, pids
from tests.support.killing_plugins import (
    CALLS_OF_CONVERTER,
    CALLS_OF_SINK,
    CALLS_OF_SOURCE,
    CALLS_OF_TRANSFORMATION,
)
from tests.support.outcome_table import STRESS, OutcomeTable

PLUGINS = "tests.support.killing_plugins"
TABLE = OutcomeTable("plug-in calls that kill their process: what became of the task, while its neighbour ran on")
FAILED, ALONE, RUNS = "task FAILED, alone", "restarts again and again, alone", "RUNNING"
AFTER_PROGRESS = ("commit", "commit_record", "idle_wait_ms")  # each time some records were delivered before
AT_THE_END = ("task.stop", "close", "transform.close")
CALLS = [
    *(("source", call) for call in (*CALLS_OF_SOURCE, *CALLS_OF_CONVERTER, *CALLS_OF_TRANSFORMATION)),
    *(("sink", call) for call in CALLS_OF_SINK),
]
CASES = CALLS if STRESS else [("source", "poll"), ("sink", "put")]


@pytest.fixture(scope="module")
def session(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    session = build_session({"spark.master": "local[*]"})
    yield session
    session.stop()
    TABLE.print(pytestconfig)


@pytest.fixture
def worker(session: SparkSession, tmp_path: Path) -> Iterator[Worker]:
    losses = LossLimits(backoff_ms=50, guilty_after_ms=500, guilty_losses=2)
    worker = new_worker(session, tmp_path, EngineSettings(housekeeping_ms=100, losses=losses))
    worker.fused = True
    yield worker
    worker.runner.close(5_000)


def killing(worker: Worker, kind: str, call: str) -> TaskLaunch:
    """Return the launch of a task that kills its process in this call."""
    launch = worker.launch("k", "", TaskKind.SINK if kind == "sink" else TaskKind.SOURCE)
    more = {}
    if call in CALLS_OF_CONVERTER:
        more = {"value.converter": f"{PLUGINS}:KillingConverter", "value.converter.kill": call}
    elif call in CALLS_OF_TRANSFORMATION:
        more = {"transforms": "t", "transforms.t.type": f"{PLUGINS}:KillingTransformation", "transforms.t.kill": call}
    return replace(
        launch,
        task_class=f"{PLUGINS}:Killing{kind.title()}Task",
        config={"kill": call},
        connector_config=StoredConfig({**launch.connector_config.written(), **more}),
    )


@pytest.mark.parametrize(("kind", "call"), CASES)
def test_plugin_call_that_kills_its_process_fails_only_its_task(
    worker: Worker, caplog: pytest.LogCaptureFixture, kind: str, call: str
) -> None:
    neighbour = worker.start("quiet", count="0")
    worker.until(lambda: pids(worker, "quiet"))
    launch = killing(worker, kind, call)
    worker.runner.do(Start(launch))
    if kind == "sink":
        partition = TopicPartition("in", 0)
        worker.topics.append([{"topic": "in", "partition": 0, "key": None, "value": b"1"}])
        worker.runner.do(Assign(launch.task, {partition: 0}))
    if call in AT_THE_END:
        worker.until(lambda: worker.of(launch, TaskRunning))
        worker.end(launch)
        outcome = RUNS
    elif call in AFTER_PROGRESS:
        worker.until(lambda: "task=k-0 gets its own process" in caplog.text)
        worker.end(launch)
        outcome = ALONE
    else:
        worker.until(lambda: worker.of(launch, TaskFailed))
        assert "task k-0 ends its process" in worker.of(launch, TaskFailed)[0].trace
        outcome = FAILED
    assert not worker.of(neighbour, TaskFailed)
    assert worker.end(neighbour).drained
    TABLE.note(f"{call} of {kind}", "kills its process", outcome)
