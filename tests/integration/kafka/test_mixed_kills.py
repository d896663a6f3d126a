"""kill -9 in a group of a Java worker and ours, each as leader and as follower; every task runs once afterwards.

Who runs what is taken from three sides: the statuses topic, each worker's own REST, and the data: a line appended to
a connector's file arrives once, so exactly one worker reads that file.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.java_connect import JavaConnect
from tests.support.numbered_lines import create_topics, read_all, runs_at_once
from tests.support.worker_process import WorkerProcess

NAMES = ("a", "b", "c", "d")
TIMES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": "500",
}
LIMIT_S = 120.0


def worker_id(worker: WorkerProcess) -> str:
    return f"127.0.0.1:{worker.rest_port}"


class MixedGroup:
    """Four file sources and whoever runs them."""

    def __init__(self, folder: Path, broker: EmbeddedKafka, java: Java) -> None:
        self.folder, self.broker, self._java = folder, broker, java
        self.group = f"mixed-{uuid.uuid4().hex[:8]}"
        self.alive: list[WorkerProcess] = []
        self._dead: list[str] = []
        self._deployed = False
        self._lines = 0
        create_topics(broker.bootstrap_servers, [self.topic(name) for name in NAMES])
        for name in NAMES:
            (folder / name).touch()

    def topic(self, name: str) -> str:
        return f"{self.group}-{name}"

    def join_java(self, **more: str) -> JavaConnect:
        servers, properties = self.broker.bootstrap_servers, TIMES | {k.replace("_", "."): v for k, v in more.items()}
        folder = self.folder / f"java-{uuid.uuid4().hex[:4]}"
        worker = JavaConnect(folder, servers, self.group, properties=properties, java=self._java)
        self.alive.append(worker)
        worker.start()
        return worker

    def join_ours(self) -> OurWorkerProcess:
        folder = self.folder / f"ours-{uuid.uuid4().hex[:4]}"
        worker = OurWorkerProcess(folder, self.broker.bootstrap_servers, self.group, properties=TIMES)
        self.alive.append(worker)
        worker.start()
        return worker

    def led_by(self, kind: str) -> WorkerProcess:
        """Return the only worker of the group, which runs all. Workers of earlier tests are used or stopped."""
        join: dict[str, Callable[[], WorkerProcess]] = {"java": self.join_java, "ours": self.join_ours}
        while len(self.alive) > 1:
            self.stop(self.alive[-1])
        if not self.alive or isinstance(self.alive[0], JavaConnect) != (kind == "java"):
            join[kind]()
            if len(self.alive) > 1:
                self.await_owned_once(2, 2)
                self.stop(self.alive[0])
        (worker,) = self.alive
        if not self._deployed:
            self._deploy(worker)
        self.await_owned_once(4)
        return worker

    def kill(self, worker: WorkerProcess) -> None:
        """SIGKILL."""
        self.alive.remove(worker)
        self.killed_ms = time.time() * 1000
        self._dead.append(worker_id(worker))
        worker.kill()
        worker.rest.close()

    def stop(self, worker: WorkerProcess) -> None:
        self.alive.remove(worker)
        self._dead.append(worker_id(worker))
        worker.stop()
        worker.rest.close()

    def taken_over_s(self) -> float:
        """Return how long after the kill the last status was written, s."""
        records = read_all(self.broker.bootstrap_servers, f"{self.group}-statuses")
        return (max(record.at_ms for record in records) - self.killed_ms) / 1000

    def _deploy(self, worker: WorkerProcess) -> None:
        self._deployed = True
        for name in NAMES:
            config = {"connector.class": "FileStreamSource", "tasks.max": "1"}
            worker.rest.create(name, config | {"topic": self.topic(name), "file": str(self.folder / name)})

    def owners(self) -> dict[str, tuple[str, str]]:
        """Return ``connector`` and ``connector-task`` -> (state, worker id), the last word of the statuses topic."""
        found = {}
        for record in read_all(self.broker.bootstrap_servers, f"{self.group}-statuses"):
            kind, _, name = record.key.decode().removeprefix("status-").partition("-")
            if kind in ("connector", "task") and record.value is not None:
                status = orjson.loads(record.value)
                found[name] = (status["state"], status["worker_id"])
        return found

    def await_owned_once(self, *counts: int) -> None:
        """Wait until the living workers run ``counts`` connectors and as many tasks, in the order they joined."""
        wanted = Counter(
            {(worker_id(worker), what): n for worker, n in zip(self.alive, counts, strict=True) for what in "ct" if n}
        )
        until(lambda: self._spread(), wanted)
        owners = self.owners()
        for worker in self.alive:
            until(lambda bound=worker: self._as_told_by(bound), owners)
            if isinstance(worker, OurWorkerProcess):
                mine = {name for name, (_, owner) in owners.items() if owner == worker_id(worker)}
                until(lambda bound=worker: own_view(bound), mine)

    def _spread(self) -> Counter[tuple[str, str]]:
        return Counter(
            (owner, "c" if name in NAMES else "t")
            for name, (state, owner) in self.owners().items()
            if state == "RUNNING"
        )

    def _as_told_by(self, worker: WorkerProcess) -> dict[str, tuple[str, str]]:
        told = {}
        for name in NAMES:
            status = worker.rest.request("GET", f"/connectors/{name}/status").json()
            parts = [(name, status["connector"]), *((f"{name}-{task['id']}", task) for task in status["tasks"])]
            told |= {part: (now["state"], now["worker_id"]) for part, now in parts}
        return told

    def await_lines_once(self) -> None:
        """Append a line to each file, three times; each must come, and come once."""
        for _ in range(3):
            self._lines += 1
            line = f"line {self._lines}"
            for name in NAMES:
                with (self.folder / name).open("a", encoding="utf-8") as file:
                    file.write(f"{line}\n")
            until(lambda told=line: {name: self._count(name, told) > 0 for name in NAMES}, dict.fromkeys(NAMES, True))
        for number in (self._lines - 2, self._lines - 1, self._lines):
            assert {name: self._count(name, f"line {number}") for name in NAMES} == dict.fromkeys(NAMES, 1)

    def _count(self, name: str, line: str) -> int:
        records = read_all(self.broker.bootstrap_servers, self.topic(name))
        return sum(record.value == line.encode() for record in records)

    def assert_no_task_ran_twice(self) -> None:
        records = read_all(self.broker.bootstrap_servers, f"{self.group}-statuses")
        assert runs_at_once(records, self.killed_ms, dead=self._dead) == []

    def close(self) -> None:
        for worker in list(self.alive):
            self.stop(worker)


def progress(worker: WorkerProcess) -> dict[str, Any]:
    return dict(worker.rest.request("GET", "/admin/progress").json())


def own_view(worker: WorkerProcess) -> set[str]:
    """Return what our worker itself says it runs."""
    told = progress(worker)
    tasks = {f"{task['task']['connector']}-{task['task']['task']}" for task in told["tasks"]}
    return tasks | {name for name, state in told["connectors"].items() if state == "RUNNING"}


def until(read: Callable[[], object], wanted: object) -> None:
    end = time.monotonic() + LIMIT_S
    while (seen := read()) != wanted:
        assert time.monotonic() < end, f"{seen}\nis not\n{wanted}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka, java: Java) -> Iterator[MixedGroup]:
    group = MixedGroup(tmp_path_factory.mktemp("mixed"), broker, java)
    yield group
    group.close()


@pytest.mark.parametrize(("connect_protocol", "name"), [("compatible", "compatible"), ("eager", "default")])
def test_a_java_worker_with_an_older_protocol_takes_the_group_down_to_it(
    mixed: MixedGroup, connect_protocol: str, name: str
) -> None:
    ours = mixed.led_by("ours")
    java = mixed.join_java(connect_protocol=connect_protocol)
    mixed.await_owned_once(2, 2)
    assert progress(ours)["protocol"] == name
    mixed.await_lines_once()
    mixed.stop(java)
    mixed.await_owned_once(4)
    until(lambda: progress(ours)["protocol"], "sessioned")
    mixed.await_lines_once()


# In this order, the heir of one kill leads the group in the next.
@pytest.mark.parametrize(
    ("leading", "killed"), [("ours", "follower"), ("ours", "leader"), ("java", "follower"), ("java", "leader")]
)
def test_a_killed_worker_leaves_every_task_running_once_on_the_other(
    mixed: MixedGroup, leading: str, killed: str
) -> None:
    leader = mixed.led_by(leading)
    follower = mixed.join_java() if leading == "ours" else mixed.join_ours()
    mixed.await_owned_once(2, 2)
    mixed.await_lines_once()
    victim, heir = (leader, follower) if killed == "leader" else (follower, leader)
    ours = leader if leading == "ours" else follower
    assert progress(ours)["is_leader"] == (leading == "ours")
    mixed.kill(victim)
    mixed.await_owned_once(4)
    print(f"kill -9 of the {killed}, {leading} leading: all runs on the other {mixed.taken_over_s():.1f} s later")
    mixed.assert_no_task_ran_twice()
    mixed.await_lines_once()
    if heir is ours:
        assert progress(ours)["is_leader"]
