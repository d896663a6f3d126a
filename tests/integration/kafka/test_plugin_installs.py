"""Plug-ins are installed into a group of two real workers while a connector runs: used at once, refused, removed."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.support.connect_rest import RestAnswer
from tests.support.java_connect import COORDINATES
from tests.support.orders_wheel import orders_wheel
from tests.topics import count_records

GROUP = "plugin-installs"
ON_JAVA = {"connectrt.runtime": "java", "connectrt.java.heap": "64m"}


@pytest.fixture(scope="module")
def workers(
    broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ThreadsWorkerProcess, ThreadsWorkerProcess]]:
    folder = tmp_path_factory.mktemp("workers")
    (folder / "dropped").mkdir()

    def worker(name: str) -> ThreadsWorkerProcess:
        own = {
            "connectrt.plugins.directory": str(folder / f"plugins-{name}"),
            "connectrt.plugins.install": "allow",
            "plugin.path": str(folder / "dropped"),
            "connectrt.plugins.watch.interval.ms": "200",
        }
        return ThreadsWorkerProcess(folder / name, broker.bootstrap_servers, GROUP, properties=own)

    with worker("a") as a, worker("b") as b:
        yield a, b


def install(worker: ThreadsWorkerProcess, source: Path | str, **more: str) -> RestAnswer:
    return worker.rest.request("POST", "/admin/plugins", {"source": str(source), **more})


def installed(worker: ThreadsWorkerProcess) -> dict[str, dict[str, str]]:
    """Return folder -> worker -> state, as one worker knows it."""
    found = worker.rest.request("GET", "/admin/plugins").json()["installed"]
    return {
        f"{plugin['name']}-{plugin['version']}": {name: state["state"] for name, state in plugin["workers"].items()}
        for plugin in found
    }


def listed(worker: ThreadsWorkerProcess, name: str) -> list[str]:
    return [
        plugin["version"]
        for plugin in worker.rest.request("GET", "/connector-plugins").json()
        if plugin["class"] == name
    ]


@pytest.mark.timeout(300)
def test_installed_into_a_group_while_a_connector_runs(
    broker: EmbeddedKafka, tmp_path: Path, workers: tuple[ThreadsWorkerProcess, ThreadsWorkerProcess]
) -> None:
    a, b = workers
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")
    a.rest.create("lines", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "plugin-lines"})
    a.rest.await_states("lines", "RUNNING", ["RUNNING"])
    assert install(a, "no source at all").status == 400
    unknown = a.rest.request("POST", "/connectors", {"name": "x", "config": {"connector.class": "com.example.Orders"}})
    assert unknown.status == 400

    first = orders_wheel(tmp_path, "1.0")
    wrong = install(a, first, sha512="0" * 128)
    assert (wrong.status, wrong.json()["code"]) == (400, "CRT-1161")
    assert installed(a) == {}
    done = install(a, first, sha512=hashlib.sha512(first.read_bytes()).hexdigest())
    assert (done.status, done.json()["name"], done.json()["version"]) == (201, "new-orders", "1.0")
    both = {f"127.0.0.1:{worker.rest_port}": "installed" for worker in workers}
    for worker in workers:
        worker.rest.until(lambda bound=worker: installed(bound), {"new-orders-1.0": both}, 30.0, "both have it")
        assert listed(worker, "com.example.Orders") == ["1.0"]

    # Used at once, by the tasks of whichever worker gets it; nothing was restarted.
    a.rest.create("orders", {"connector.class": "com.example.Orders", "topic": "orders-1"})
    a.rest.until(lambda: count_records(broker.bootstrap_servers, "orders-1"), 1, 60.0, "a record of the new plug-in")
    with lines.open("a") as more:
        more.write("two\n")
    a.rest.until(lambda: count_records(broker.bootstrap_servers, "plugin-lines"), 2, 60.0, "the other one goes on")

    assert install(b, first).status == 409
    assert install(b, orders_wheel(tmp_path, "2.0")).status == 201
    a.rest.until(lambda: listed(a, "com.example.Orders"), ["1.0", "2.0"], 30.0, "both versions")
    config = {"connector.class": "com.example.Orders", "connector.plugin.version": "2.0", "topic": "orders-2"}
    b.rest.create("orders-2", config)
    b.rest.until(lambda: count_records(broker.bootstrap_servers, "orders-2"), 1, 60.0, "a record of version 2.0")
    assert {key["name"] for key in a.rest.request("GET", "/connector-plugins/com.example.Orders/config").json()} >= {
        "topic"
    }

    refused = b.rest.request("DELETE", "/admin/plugins/new-orders/2.0")
    assert (refused.status, refused.json()["code"]) == (409, "CRT-1162")
    assert "orders-2" in refused.json()["message"]
    for name in ("orders", "orders-2"):
        a.rest.delete(name)
    assert a.rest.request("DELETE", "/admin/plugins/new-orders/1.0").status == 204
    assert a.rest.request("DELETE", "/admin/plugins/new-orders/1.0").status == 404
    for worker in workers:
        worker.rest.until(
            lambda bound=worker: listed(bound, "com.example.Orders"), ["2.0"], 30.0, "the removed one is gone"
        )
    a.rest.await_states("lines", "RUNNING", ["RUNNING"])


@pytest.mark.timeout(300)
def test_either_worker_shows_the_whole_group_and_a_change_reaches_who_follows(
    tmp_path: Path, workers: tuple[ThreadsWorkerProcess, ThreadsWorkerProcess]
) -> None:
    (tmp_path / "in.txt").write_text("one\n" * 500)
    reading = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "shown-lines"}
    secret = {"some.password": "correct-horse", "some.token": "${file:/x:y}"}
    workers[0].rest.create("shown-in", {**reading, **secret})
    writing = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": "shown-lines"}
    workers[0].rest.create("shown-out", {**writing, "tasks.max": "2"})
    for member in workers:
        member.rest.await_states("shown-out", "RUNNING", ["RUNNING", "RUNNING"])
        counted = lambda bound=member: [shown(bound, name) for name in ("shown-in", "shown-out")]  # noqa: E731
        member.rest.until(
            counted, [("source", None, 500, True), ("sink", 0, 500, True)], 60.0, "lag and records of both"
        )
        group = member.rest.request("GET", "/admin/group").json()
        assert [worker["reachable"] for worker in group["workers"]] == [True, True], group
        assert sum(worker["leader"] for worker in group["workers"]) == 1
        names = [task for worker in group["workers"] for task in worker["tasks"]]
        assert {"shown-in-0", "shown-out-0", "shown-out-1"} <= set(names)
        detail = member.rest.request("GET", "/admin/connectors/shown-in").json()
        assert detail["config"]["some.password"] == "[hidden]"
        assert detail["config"]["some.token"] == "${file:/x:y}"

    a, b = workers
    at_ms = b.rest.request("GET", "/admin/overview").json()["at_ms"]
    headers = {"Accept": "text/event-stream"}
    with (
        httpx.Client(timeout=15.0, trust_env=False) as client,
        client.stream("GET", f"{b.rest.url}/admin/overview/stream?since_ms={at_ms}", headers=headers) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        a.rest.request("PUT", "/connectors/shown-in/pause")
        for line in stream.iter_lines():
            changed = json.loads(line[6:])["changed"] if line.startswith("data: ") else []
            if ("shown-in", "PAUSED") in [(row["name"], row["state"]) for row in changed]:
                break
    for name in ("shown-in", "shown-out"):
        a.rest.delete(name)


def shown(worker: ThreadsWorkerProcess, name: str) -> tuple[str, int | None, int, bool]:
    """Return type, lag and records of a connector as a worker shows them, and whether it says where its tasks are."""
    detail = worker.rest.request("GET", f"/admin/connectors/{name}").json()
    records = sum(task["records"] or 0 for task in detail["tasks"])
    return detail["type"], detail["lag"], records, all(task["executor"] for task in detail["tasks"])


@pytest.mark.timeout(300)
def test_a_jar_that_is_dropped_into_plugin_path_is_used_by_both_at_once(
    broker: EmbeddedKafka, tmp_path: Path, workers: tuple[ThreadsWorkerProcess, ThreadsWorkerProcess]
) -> None:
    a = workers[0]
    place = Path(a.properties["plugin.path"]) / "files"
    (tmp_path / "dropped.txt").write_text("from a dropped jar\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "dropped.txt"), **ON_JAVA}
    create = {"name": "dropped", "config": {**config, "topic": "plugin-dropped"}}
    assert a.rest.request("POST", "/connectors", create).status == 400
    (jar,) = (path for path in resolve_jars(COORDINATES) if path.name.startswith("connect-file-"))
    place.mkdir()
    shutil.copy(jar, place)
    created = a.rest.request("POST", "/connectors", create)  # nobody waits for the next look
    assert created.status == 201, created.body
    a.rest.until(lambda: count_records(broker.bootstrap_servers, "plugin-dropped"), 1, 120.0, "a line, read in Java")
    java = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    for worker in workers:
        worker.rest.until(lambda bound=worker: KAFKA_VERSION in listed(bound, java), True, 60.0, "it is listed")
    a.rest.delete("dropped")
    shutil.rmtree(place)
    for worker in workers:
        worker.rest.until(lambda bound=worker: KAFKA_VERSION in listed(bound, java), False, 60.0, "it is gone")


@pytest.mark.timeout(300)
def test_a_jar_of_kafkas_and_what_one_worker_cannot_have(
    broker: EmbeddedKafka, tmp_path: Path, workers: tuple[ThreadsWorkerProcess, ThreadsWorkerProcess]
) -> None:
    a, b = workers
    (jar,) = (path for path in resolve_jars(COORDINATES) if path.name.startswith("connect-file-"))
    with zipfile.ZipFile(tmp_path / "kafka-files-4.1.zip", "w") as archive:
        archive.write(jar, f"kafka-files-4.1/lib/{jar.name}")
    answer = install(a, tmp_path / "kafka-files-4.1.zip")
    assert answer.status == 201, answer.body
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in answer.json()["plugins"]
    both = {f"127.0.0.1:{worker.rest_port}": "installed" for worker in workers}
    # On a new machine each worker's first JVM is made first: Connect's jars, the host compiled.
    b.rest.until(lambda: installed(b).get("kafka-files-4.1"), both, 120.0, "both have it")
    (tmp_path / "java.txt").write_text("from Java\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "java.txt"), "topic": "plugin-java"}
    b.rest.create("java-lines", {**config, **ON_JAVA})
    b.rest.await_states("java-lines", "RUNNING", ["RUNNING"])  # says what it saw last: FAILED, or no task
    b.rest.until(lambda: count_records(broker.bootstrap_servers, "plugin-java"), 1, 60.0, "a line, read in Java")
    refused = a.rest.request("DELETE", "/admin/plugins/kafka-files/4.1")
    assert refused.status == 409, refused.body
    a.rest.delete("java-lines")

    shutil.rmtree(Path(b.properties["connectrt.plugins.directory"]))
    Path(b.properties["connectrt.plugins.directory"]).write_text("no folder")  # from now on b cannot install
    with zipfile.ZipFile(tmp_path / "other-1.zip", "w") as archive:
        archive.write(jar, jar.name)
    answer = install(a, tmp_path / "other-1.zip")
    assert answer.status == 201, answer.body
    worker_b = f"127.0.0.1:{b.rest_port}"
    a.rest.until(lambda: installed(a)["other-1"].get(worker_b), "failed", 30.0, "b says that it cannot")
    (other,) = a.rest.request("GET", "/admin/plugins/other").json()
    assert "cannot be installed in" in other["workers"][worker_b]["reason"]
    for worker in workers:
        health = worker.rest.request("GET", "/health")
        assert health.status == 200, health.body
