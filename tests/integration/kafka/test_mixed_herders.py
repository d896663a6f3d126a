"""A Java worker and our herder in one group: work is shared, configurations cross signed, each leads in turn.

What they ask of each other goes over https, with certificates on both sides.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.app.wiring import ClusterId, herder_dependencies
from spark_connect_rt.config.worker_config import advertised, parse_listeners
from spark_connect_rt.config.worker_settings import parse_distributed
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.operations.overview.wiring import OverviewParts
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.rest.tls import server_tls
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.integration.kafka.https_workers import Stores
from tests.support.connect_rest import ConnectRest
from tests.support.java_connect import JavaConnect
from tests.support.worker_process import worker_properties

TIMES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
}
SETTINGS = {**TIMES, "topic.tracking.enable": "false"}


class OurWorker:
    """A real herder with its REST API; what its tasks produce stays in memory."""

    def __init__(
        self, bootstrap_servers: str, group: str, settings: Mapping[str, str] = SETTINGS, stores: Stores | None = None
    ) -> None:
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}/"
        tls = {} if stores is None else stores.settings(port, free_ports(1)[0])
        config = parse_distributed({**worker_properties(bootstrap_servers, group, port), **settings, **tls})
        listeners = parse_listeners(config.rest.listeners)
        address = advertised(config.rest, "127.0.0.1")
        self.topics = MemoryTopics()
        runner = MemoryTaskRunner(MemoryExecutorClients(self.topics, bundled_plugins().class_of))
        deps = herder_dependencies(config, address, admin_of(config), runner, ClusterId())
        self.herder = DistributedHerder(deps)
        self.reads = HttpGroupReads(self.herder.views, deps.peers, deps.settings.signature_algorithm)
        overview = OverviewParts(self.herder.views, self.reads, deps.clock, deps.peers, dict)
        app = create_app(
            self.herder, deps.peers, management=Management(group_reads=self.reads, overview=overview.overview)
        )
        self.rest_servers = [
            RestServer(app, "127.0.0.1", listener.port, server_tls(config.raw) if listener.scheme == "https" else None)
            for listener in listeners
        ]
        for server in self.rest_servers:
            server.start()
        self.herder.start()
        self.herder.started.result(30)

    def tasks(self) -> set[str]:
        return {str(task.task) for task in self.herder.views.progress().tasks if task.state == "RUNNING"}

    def stop(self) -> None:
        self.reads.stop()
        assert self.herder.stop(40)
        for server in self.rest_servers:
            server.stop()


@pytest.fixture
def group() -> str:
    return f"mixed-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


@pytest.fixture
def java_worker(broker: EmbeddedKafka, java: Java, tmp_path: Path, group: str, stores: Stores) -> Iterator[JavaConnect]:
    http, https = free_ports(2)
    settings = {**SETTINGS, **stores.settings(http, https)}
    servers = broker.bootstrap_servers
    with JavaConnect(tmp_path / "java", servers, group, properties=settings, rest_port=http, java=java) as worker:
        yield worker


def until(fact: Callable[[], bool], ours: OurWorker, limit_s: float = 120.0) -> None:
    end_s = time.monotonic() + limit_s
    while not fact():
        if time.monotonic() > end_s:
            lines = [f"{line.step}: {line.reason}" for line in ours.herder.views.events()[-25:]]
            raise AssertionError("\n".join([str(ours.herder.views.progress()), *lines]))
        time.sleep(0.05)


def source(path: Path) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": "lines", "file": str(path)}


def a_level_for_the_cluster_is_heard(asked: ConnectRest, other: ConnectRest, level: str) -> None:
    path = "/admin/loggers/org.example.mixed"
    answer = asked.request("PUT", f"{path}?scope=cluster", {"level": level})
    assert (answer.status, answer.body) == (204, b"")
    for rest in (asked, other):
        rest.until(lambda rest=rest: rest.request("GET", path).json().get("level"), level, 60, path)


def the_group_is_shown(rest: ConnectRest, java_worker: JavaConnect, ours: OurWorker, java_leads: bool) -> None:
    """Ours with what it knows of itself, Java's with what its version and the statuses say; nothing fails by it."""
    mine = ours.herder.views.standing().worker_id
    workers = {worker["worker_id"]: worker for worker in rest.request("GET", "/admin/group").json()["workers"]}
    (java,) = (worker for name, worker in workers.items() if name != mine)
    kinds = (workers[mine]["runtime"], java["runtime"], java["reachable"], java["leader"])
    assert kinds == ("spark-connect-rt", "java", True, java_leads), workers
    assert java["version"] == java_worker.rest.request("GET", "/").json()["version"]
    assert len(java["tasks"]) == len(workers[mine]["tasks"]) == 2
    page = rest.request("GET", "/admin/overview").json()
    assert [worker["worker_id"] for worker in page["unanswered"]] == [java["worker_id"]]
    assert (page["total"], page["counts"]) == (4, {"RUNNING": 4, "abnormal": 0})
    known = [row["records_per_second"] is not None for row in page["connectors"]]
    assert known.count(True) == 2  # what runs on the Java worker is not known, and not 0


def topics_are_not_tracked(rest: ConnectRest, name: str) -> list[tuple[int, str]]:
    calls = (("GET", f"/connectors/{name}/topics"), ("PUT", f"/connectors/{name}/topics/reset"))
    answers = [rest.request(method, path) for method, path in calls]
    return [(answer.status, answer.json()["message"]) for answer in answers]


def test_work_is_shared_with_a_java_worker_and_each_leads_in_turn(
    broker: EmbeddedKafka, java_worker: JavaConnect, tmp_path: Path, group: str, stores: Stores
) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        (tmp_path / name).write_text(f"{name}-1\n")
        assert java_worker.rest.create(name, source(tmp_path / name)).status == 201
        java_worker.rest.await_states(name, "RUNNING", ["RUNNING"])

    # We join under Java's lead and take our half over; Java's offsets are ours.
    ours = OurWorker(broker.bootstrap_servers, group, stores=stores)
    try:
        until(lambda: len(ours.tasks()) == 2 and len(ours.herder.views.progress().connectors) == 2, ours)
        assert not ours.herder.views.is_leader()
        assert ours.topics.values("lines") == []
        rest = ConnectRest(ours.url.rstrip("/"))
        the_group_is_shown(rest, java_worker, ours, java_leads=True)
        a_level_for_the_cluster_is_heard(java_worker.rest, rest, "ERROR")
        a_level_for_the_cluster_is_heard(rest, java_worker.rest, "DEBUG")
        theirs_and_ours = [topics_are_not_tracked(connect_rest, "a") for connect_rest in (java_worker.rest, rest)]
        assert theirs_and_ours[0] == theirs_and_ours[1] == [(403, "Topic tracking is disabled.")] * 2

        # A changed configuration of a connector of ours: we generate its tasks and hand them to Java, signed.
        mine = next(iter(ours.herder.views.progress().connectors))
        changed = {**source(tmp_path / mine), "batch.size": "50"}
        assert rest.settled("PUT", f"/connectors/{mine}/config", changed).status == 200
        until(lambda: [info.config.get("batch.size") for info in ours.herder.views.task_infos(mine)] == ["50"], ours)
        (info,) = ours.herder.views.task_infos(mine)
        assert info.config["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
        java_worker.rest.await_states(mine, "RUNNING", ["RUNNING"])

        # Java goes: we lead and run everything, from the offsets it left.
        java_worker.stop()
        until(lambda: ours.herder.views.is_leader() and len(ours.tasks()) == 4, ours)
        for name in names:
            with (tmp_path / name).open("a") as file:
                file.write(f"{name}-2\n")
        until(lambda: len(ours.topics.values("lines")) == 4, ours)
        assert sorted(value.decode() for value in ours.topics.values("lines")) == [f"{name}-2" for name in names]

        # Java comes back under our lead and hands its task configurations to us.
        java_worker.start()
        until(lambda: len(ours.tasks()) == 2, ours, 90)
        for name in names:
            java_worker.rest.await_states(name, "RUNNING", ["RUNNING"])
        the_group_is_shown(rest, java_worker, ours, java_leads=False)
        theirs = next(name for name in names if name not in ours.herder.views.progress().connectors)
        changed = {**source(tmp_path / theirs), "batch.size": "60"}
        assert java_worker.rest.settled("PUT", f"/connectors/{theirs}/config", changed).status == 200
        until(lambda: [i.config.get("batch.size") for i in ours.herder.views.task_infos(theirs)] == ["60"], ours)
        assert rest.settled("DELETE", f"/connectors/{theirs}").status == 204
        until(lambda: theirs not in ours.herder.views.list_connectors(), ours)
    finally:
        ours.stop()
