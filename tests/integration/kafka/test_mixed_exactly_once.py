"""A Java worker and ours share exactly-once tasks: each leads, each takes over what the other left open, in a kill.

On ours the first connector runs in Python, the second is Java's own, in a JVM.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import until
from tests.e2e.java_stories import ON_JAVA, java_plugin_path, task_jvms
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.java_connect import JavaConnect
from tests.support.numbered_lines import Feeder, create_topics
from tests.support.worker_process import WorkerProcess
from tests.topics import CommittedReader

LIMIT_S = 240.0
FILES = 2
ENABLED = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
}


class Mixed:
    """Two workers of one group; two connectors, each with a file that grows."""

    def __init__(self, folder: Path, servers: str, java: WorkerProcess, ours: WorkerProcess) -> None:
        self.java, self.ours, name = java, ours, uuid.uuid4().hex[:8]
        self.topics = [f"lines-{name}-{number}" for number in range(FILES)]
        create_topics(servers, self.topics)
        self.feeder = Feeder(folder, FILES)
        self.readers = [CommittedReader(servers, topic) for topic in self.topics]

    def configure(self, asked: WorkerProcess, batch_size: int) -> None:
        for number, (file, topic) in enumerate(zip(self.feeder.files, self.topics, strict=True)):
            file.touch()
            config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, "name": f"in-{number}"}
            body = {**config, "batch.size": str(batch_size), "exactly.once.support": "required"}
            body |= ON_JAVA if number else {}
            answer = asked.rest.settled("PUT", f"/connectors/in-{number}/config", body, LIMIT_S)
            assert answer.status in (200, 201), answer

    def workers_of_tasks(self, asked: WorkerProcess) -> set[str]:
        """Return which workers run the tasks, nothing while not all of them run."""
        found: list[str] = []
        for number in range(FILES):
            answer = asked.rest.request("GET", f"/connectors/in-{number}/status")
            tasks = answer.json()["tasks"] if answer.status == 200 else []
            found += [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]
        return set(found) if len(found) == FILES else set()

    def await_tasks_on(self, asked: WorkerProcess, *workers: WorkerProcess) -> None:
        wanted = {f"127.0.0.1:{worker.rest_port}" for worker in workers}
        until(lambda: self.workers_of_tasks(asked) == wanted, LIMIT_S, f"tasks run on {wanted}", self.logs)

    def await_flow(self) -> None:
        """Wait until lines that are written from now on are committed; then none is missing, none is twice."""
        line = self.feeder.written
        until(lambda: all(line in numbers for numbers in self.numbers()), LIMIT_S, f"line {line}", self.logs)
        for numbers in self.numbers():
            assert numbers == list(range(len(numbers)))

    def numbers(self) -> list[list[int]]:
        return [[int(value.split()[1]) for _, value in reader.more()] for reader in self.readers]

    def logs(self) -> str:
        return "\n".join(worker.log_file.read_text(errors="replace")[-2500:] for worker in (self.java, self.ours))

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.feeder.stop()
        for reader in self.readers:
            reader.close()


@pytest.fixture
def mixed(broker: EmbeddedKafka, java: Java, tmp_path: Path) -> Iterator[Mixed]:
    servers, group = broker.bootstrap_servers, uuid.uuid4().hex[:8]
    plugins = {"plugin.path": str(java_plugin_path(tmp_path / "plugins"))}
    ours = OurWorkerProcess(tmp_path / "ours", servers, group, properties={**ENABLED, **plugins})
    with JavaConnect(tmp_path / "java", servers, group, properties=ENABLED, java=java) as javas, ours:
        made = Mixed(tmp_path, servers, javas, ours)
        yield made
        made.close()


def test_tasks_go_back_and_forth_and_every_line_is_there_once(mixed: Mixed) -> None:
    mixed.configure(mixed.java, batch_size=2000)
    mixed.await_tasks_on(mixed.java, mixed.java, mixed.ours)
    mixed.feeder.start()
    mixed.await_flow()
    mixed.configure(mixed.ours, batch_size=1000)  # new tasks: both ask Java, which leads, for a fencing round
    mixed.await_flow()
    mixed.java.kill()
    mixed.await_tasks_on(mixed.ours, mixed.ours)  # we lead, and take over what Java left open
    mixed.await_flow()
    assert task_jvms(mixed.ours)
    mixed.java.start(LIMIT_S)
    mixed.await_tasks_on(mixed.ours, mixed.java, mixed.ours)  # Java asks us
    mixed.await_flow()
    mixed.ours.kill()
    mixed.await_tasks_on(mixed.java, mixed.java)
    mixed.await_flow()
