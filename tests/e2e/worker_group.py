"""Three workers through spark-submit.sh, lines that never stop flowing through them, and what must hold afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_connect_rt.base.java_hash_order import java_string_hash
from tests.e2e.commands import get_json, spark_submit, until
from tests.e2e.line_flow import LineFlow
from tests.support.numbered_lines import (
    newest_generation,
    offsets_that_went_back,
    read_all,
    runs_at_once,
    spread,
)
from tests.support.worker_process import WorkerProcess

FILES = 6
SINK_TASKS = 3
OFFSETS_TOPIC = "__consumer_offsets"


def group_coordinated_by(bootstrap_servers: str, node: int) -> str:
    """Return a name of a group whose coordinator is that broker: its partition of the offsets topic is led there."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "first", "log_level": 0})
    try:

        def coordinated() -> bool:  # asking for a coordinator makes the topic, whose partitions then get leaders
            with contextlib.suppress(KafkaException):
                consumer.committed([TopicPartition("any", 0)], timeout=10)
                return True
            return False

        until(coordinated, 60, "groups have coordinators")
        partitions = consumer.list_topics(OFFSETS_TOPIC, timeout=20).topics[OFFSETS_TOPIC].partitions
    finally:
        consumer.close()

    def leader_of(name: str) -> int:
        unsigned = java_string_hash(name)
        signed = unsigned - 2**32 if unsigned >= 2**31 else unsigned
        return int(partitions[abs(signed) % len(partitions)].leader)

    return next(name for name in (f"several-{number}" for number in range(1_000)) if leader_of(name) == node)


class SubmittedWorker(WorkerProcess):
    """A worker as a user starts it: ``./spark-submit.sh FILE``."""

    def command(self, properties_file: Path) -> list[str]:
        """Return the README's command."""
        return spark_submit(str(properties_file))

    @property
    def worker_id(self) -> str:
        """Return what statuses call this worker."""
        return f"127.0.0.1:{self.rest_port}"


class WorkerGroup(LineFlow):
    """Workers of one group, six sources that follow growing files, one sink that writes them all to one file."""

    def __init__(self, folder: Path, bootstrap_servers: str, name: str, count: int = 3, replication: int = 1) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, bootstrap_servers, FILES, replication=replication)
        settings = {f"{kind}.storage.replication.factor": str(replication) for kind in ("config", "offset", "status")}
        self.workers = [
            SubmittedWorker(folder / f"worker-{number}", bootstrap_servers, name, properties=settings)
            for number in range(count)
        ]

    def alive(self) -> list[SubmittedWorker]:
        """Return the workers whose process runs."""
        return [worker for worker in self.workers if worker.pid]

    def deploy(self) -> None:
        """Create the connectors and begin to write."""
        self.deploy_to(self.workers[0].rest, SINK_TASKS)

    def owners(self, worker: WorkerProcess) -> dict[str, tuple[str, str]]:
        """Return state and worker of each task, as one worker's REST API says; empty when it does not answer."""
        listed = get_json(f"{worker.rest.url}/connectors?expand=status")
        if not isinstance(listed, dict):
            return {}
        return {
            f"{name}-{task['id']}": (task["state"], task["worker_id"])
            for name, entry in listed.items()
            for task in entry["status"]["tasks"]
        }

    def settled(self) -> bool:
        """Return whether every task is RUNNING, spread over the live workers as evenly as can be."""
        return self.settled_on(self.alive())

    def settled_on(self, workers: Sequence[SubmittedWorker]) -> bool:
        """Return whether every task is RUNNING on these workers, spread as evenly as can be."""
        owners = self.owners(workers[0])
        ids = [worker.worker_id for worker in workers]
        if len(owners) != FILES + SINK_TASKS or {state for state, _ in owners.values()} != {"RUNNING"}:
            return False
        if not {worker for _, worker in owners.values()} <= set(ids):
            return False
        shares = spread((worker for _, worker in owners.values()), ids)
        return shares[-1] - shares[0] <= 1

    def await_settled(self, limit_s: float, what: str) -> float:
        """Wait until ``settled``; return how long it took, seconds."""
        begun = time.monotonic()
        until(self.settled, limit_s, f"{what}: every task runs, evenly", lambda: (self._owners_now(), self.stories()))
        return time.monotonic() - begun

    def _owners_now(self) -> dict[str, tuple[str, str]]:
        return self.owners(self.alive()[0])

    def check(self, since_ms: float, dead: Sequence[SubmittedWorker] = ()) -> None:
        """What must hold after every story: no line lost, no task twice, no offset back.

        ``dead`` are the workers that could not say what became of their tasks.
        """
        assert self.gaps() == {}
        assert offsets_that_went_back(read_all(self.bootstrap_servers, f"{self.name}-offsets")) == []
        assert (
            runs_at_once(
                read_all(self.bootstrap_servers, f"{self.name}-statuses"),
                since_ms,
                [worker.worker_id for worker in dead],
            )
            == []
        )

    def generation(self) -> int:
        """Return the group's generation, from the newest statuses of all tasks."""
        return newest_generation(read_all(self.bootstrap_servers, f"{self.name}-statuses"))

    def stories(self) -> str:
        """Return the end of every live worker's story, for a message."""
        said = []
        for worker in self.alive():
            with contextlib.suppress(httpx.HTTPError):
                text = httpx.get(f"{worker.rest.url}/admin/story", timeout=5, trust_env=False).text
                said.append(f"{worker.worker_id}:\n{text[-1500:]}")
            said.append(worker.log_file.read_text(errors="replace")[-1500:])
        return "\n".join(said)

    def readers_of(self, pids: Sequence[psutil.Process]) -> list[int]:
        """Return which of the processes hold a source's file open: those that read it for a task."""
        sources = {str(path) for path in self.feeder.files}
        reading = []
        for process in pids:
            with contextlib.suppress(psutil.Error):
                if sources & {file.path for file in process.open_files()}:
                    reading.append(process.pid)
        return reading

    def close(self) -> None:
        """Stop everything."""
        with contextlib.suppress(RuntimeError):
            self.feeder.stop()
        for worker in self.alive():
            with contextlib.suppress(psutil.Error):
                psutil.Process(worker.pid).resume()
            worker.stop()
        for worker in self.workers:
            worker.rest.close()
        self.topics.close()


def timed(step: Callable[[], Any]) -> float:
    """Return how long a step took, seconds."""
    begun = time.monotonic()
    step()
    return time.monotonic() - begun
