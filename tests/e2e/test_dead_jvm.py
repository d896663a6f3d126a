"""kill -9 of the driver's JVM: the worker notices, says so, leaves the group and ends; another one takes its task."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import psutil

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.exit_codes import EXIT_SPARK_FAILED
from tests.e2e.commands import until
from tests.support.worker_process import SparkWorkerProcess

GROUP = "e2e-dead-jvm"
LIMIT_S = 10.0  # 2 s where nothing else runs
TAKEN_LIMIT_S = 60.0


def jvm_of(worker: SparkWorkerProcess) -> psutil.Process:
    return next(process for process in worker.processes() if process.name() == "java")


class HealthWatch:
    """Asks for a worker's health, again and again, until it does not answer any more."""

    def __init__(self, worker: SparkWorkerProcess) -> None:
        self.said: list[tuple[int, str]] = []
        self._url = f"{worker.rest.url}/health"
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _ask(self) -> None:
        with httpx.Client(timeout=5.0, trust_env=False) as client:
            try:
                while True:
                    answer = client.get(self._url)
                    self.said.append((answer.status_code, answer.json()["message"]))
                    time.sleep(0.02)
            except httpx.HTTPError:
                return


def test_a_worker_whose_jvm_is_killed_leaves_and_ends_and_another_takes_its_task(
    broker: EmbeddedKafka, tmp_path: Path
) -> None:
    source, copied = tmp_path / "in.txt", "dead-jvm"
    source.write_text("a\n")
    worker, heir = (SparkWorkerProcess(tmp_path / name, broker.bootstrap_servers, GROUP) for name in ("first", "heir"))
    with worker, heir:
        assert worker.rest.request("GET", "/health/live").status == 200
        assert worker.rest.request("GET", "/health/ready").status == 200
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": copied}
        worker.rest.create("in", config)
        worker.rest.await_states("in", "RUNNING", ["RUNNING"])
        victim, survivor = (worker, heir) if runs_at(worker) else (heir, worker)
        process, others = psutil.Process(victim.pid), victim.processes()[1:]
        health = HealthWatch(victim)
        until(lambda: health.said != [], LIMIT_S, "its health is watched")
        jvm_of(victim).kill()
        killed_s = time.monotonic()
        assert process.wait(LIMIT_S) == EXIT_SPARK_FAILED
        print(f"ended {time.monotonic() - killed_s:.1f} s after its JVM")
        health.thread.join(LIMIT_S)
        assert health.said[0][0] == 200
        status, message = health.said[-1]
        assert status == 500
        assert "Spark: its JVM ended" in message
        until(lambda: not any(alive(other) for other in others), LIMIT_S, "no process of the worker is left")
        log = victim.log_file.read_text(encoding="utf-8")
        assert (
            "STABLE -> IDLE (coordinator unknown): the worker is stopping" in log
        )  # else its session goes on for 10 s
        assert "LeaveGroup was not answered" not in log
        assert log.splitlines()[-1].startswith("connectrt: the worker ended. Spark: its JVM ended. Look for the cause")
        until(lambda: runs_at(survivor), TAKEN_LIMIT_S, "the other one runs the task")
        with source.open("a") as file:
            file.write("b\n")
        at_end = source.stat().st_size
        until(lambda: position(survivor) == at_end, TAKEN_LIMIT_S, "the other one reads on")


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def runs_at(worker: SparkWorkerProcess) -> bool:
    status = worker.rest.request("GET", "/connectors/in/status").json()
    return [(task["state"], task["worker_id"]) for task in status["tasks"]] == [
        ("RUNNING", f"127.0.0.1:{worker.rest_port}")
    ]


def position(worker: SparkWorkerProcess) -> int:
    offsets = worker.rest.request("GET", "/connectors/in/offsets").json()["offsets"]
    return max((int(offset["offset"]["position"]) for offset in offsets), default=0)
