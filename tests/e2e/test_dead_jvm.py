"""kill -9 of the driver's JVM: the worker notices, says so, leaves the group and ends with its exit code."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.exit_codes import EXIT_SPARK_FAILED
from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.testing.worker_process import SparkWorkerProcess
from tests.e2e.commands import until

LIMIT_S = 15.0  # 8 s at most where nothing else runs


def jvm_of(worker: SparkWorkerProcess) -> psutil.Process:
    return next(one for one in worker.processes() if one.name() == "java")


def test_a_worker_whose_jvm_is_killed_leaves_and_ends(broker: EmbeddedKafka, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a\n")
    worker = SparkWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, "e2e-dead-jvm")
    with worker:
        assert worker.rest.request("GET", "/health/live").status == 200
        assert worker.rest.request("GET", "/health/ready").status == 200
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "dead-jvm"}
        worker.rest.create("in", config)
        worker.rest.await_states("in", "RUNNING", ["RUNNING"])
        process, others = psutil.Process(worker.pid), worker.processes()[1:]
        jvm_of(worker).kill()
        killed_s = time.monotonic()
        assert process.wait(LIMIT_S) == EXIT_SPARK_FAILED
        assert time.monotonic() - killed_s < LIMIT_S
        until(lambda: not any(one.is_running() for one in others), LIMIT_S, "no process of the worker is left")
        last = worker.log_file.read_text(encoding="utf-8").splitlines()[-1]
        assert last.startswith("connectrt: the worker ended. Spark: its JVM ended. Look for the cause")
        assert members(broker) == 0  # it left: its session would have lasted for ten seconds


def members(broker: EmbeddedKafka) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_consumer_groups().result(10).valid
    return sum(1 for one in found if one.group_id == "e2e-dead-jvm" and one.state.name not in ("EMPTY", "DEAD"))
