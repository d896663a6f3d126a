"""FAILED connectors and tasks that are started again by themselves, until they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.config_providers import FileConfigProvider
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.runtime.herder.herder_requests import PutConfig, RestartTask, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

BACKOFF = {
    "errors.restart.policy": "backoff",
    "errors.restart.delay.ms": "20",
    "errors.restart.delay.max.ms": "40",
    "errors.restart.poison": "0",
}
A_0 = ConnectorTaskId("a", 0)


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    """A group of two, so that what one worker decides is read on the other."""
    faults.clear()
    with InProcessCluster() as running:
        running.add_worker()
        running.add_worker()
        yield running
        faults.clear()


def notes(cluster: InProcessCluster, of_task: bool = True) -> list[dict[str, Any]]:
    """Return what each worker's status says of the restarts of ``a`` or ``a-0``."""
    found = []
    for worker in cluster.workers.values():
        if "a" not in worker.herder.views.list_connectors():
            return [{}]
        status = worker.herder.views.connector_status("a")
        instance = status.tasks[0] if of_task and status.tasks else status.connector
        found.append(as_json(instance.restart) or {})
    return found


def told(cluster: InProcessCluster, sentence: str) -> bool:
    return any(sentence in line.reason for worker in cluster.workers.values() for line in worker.herder.views.events())


def test_a_task_that_fails_for_a_while_runs_again(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ConnectionError("away"))
    create(cluster, "a", source(5, **BACKOFF))
    cluster.until(lambda: faults.calls["a-0.start"] >= 4)
    faults.raises("a-0.poll", None)
    cluster.until(lambda: emitted(cluster) == expected("a-0", 5))
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
    cluster.until(lambda: told(cluster, "a-0 is restarted (attempt 2)"))
    cluster.until(lambda: notes(cluster) == [{}, {}])  # each worker reads the topic for itself


def test_the_default_leaves_it_failed_as_java_does(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ConnectionError("away"))
    create(cluster, "a", source(5))
    create(cluster, "b", source(5, **BACKOFF))
    faults.raises("b-0.poll", ConnectionError("away"))
    cluster.until(lambda: faults.calls["b-0.start"] >= 3)
    assert faults.calls["a-0.start"] == 1
    cluster.until(lambda: notes(cluster) == [{}, {}])  # each worker reads the topic for itself


def test_the_worker_may_say_it_for_all() -> None:
    faults.clear()
    with InProcessCluster(worker_config=BACKOFF) as running:
        running.add_worker()
        faults.raises("a-0.poll", ConnectionError("away"))
        create(running, "a", source(5))
        running.until(lambda: faults.calls["a-0.start"] >= 3)
        faults.clear()


def test_values_of_a_config_provider_set_the_restart_policy(tmp_path: Path) -> None:
    """The connector's settings and the worker's, and what is not there counts for nothing."""
    faults.clear()
    (tmp_path / "policy").write_text("is=backoff\nsoon=20\nlate=600000\n")
    place = f"${{file:{tmp_path}/policy"
    worker = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "errors.restart.policy": place + ":is}",
        "errors.restart.delay.ms": place + ":late}",
        "errors.restart.delay.max.ms": place + ":late}",
    }
    own = {"errors.restart.delay.ms": place + ":soon}", "errors.restart.poison": "0"}
    (tmp_path / "lost").write_text("soon=20\n")
    lost = {"errors.restart.delay.ms": f"${{file:{tmp_path}/lost:soon}}"}
    with InProcessCluster({"FileConfigProvider": FileConfigProvider}, worker) as running:
        running.add_worker()
        for name, settings in (("a", own), ("b", {}), ("c", lost)):
            create(running, name, source(5, **settings))
        running.until(lambda: all(faults.calls[f"{name}-0.start"] for name in "abc"))
        (tmp_path / "lost").unlink()
        for name in "abc":
            faults.raises(f"{name}-0.poll", ConnectionError("away"))
        running.until(lambda: faults.calls["a-0.start"] >= 3)
        running.until(lambda: running.states("b")["b-0"] == running.states("c")["c-0"] == "FAILED")
        assert (faults.calls["b-0.start"], faults.calls["c-0.start"]) == (1, 1)
        faults.clear()


def test_every_worker_says_when_the_next_attempt_is_and_the_record_is_javas(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ConnectionError("away"))
    late = {"errors.restart.delay.ms": "600000", "errors.restart.delay.max.ms": "600000"}
    create(cluster, "a", source(5, **BACKOFF | late))
    cluster.until(lambda: all(note.get("attempts") == 1 for note in notes(cluster)))
    assert cluster.states("a")["a-0"] == "FAILED"
    first, second = notes(cluster)
    assert first == second
    assert first["next_attempt_ms"] > 1_700_000_000_000
    written = [record.value for record in cluster.status_topic.records() if record.key == b"status-task-a-0"]
    fields = orjson.loads(written[-1] or b"")
    assert list(fields)[:4] == ["state", "trace", "worker_id", "generation"]
    assert fields["state"] == "FAILED"
    assert "ConnectionError: away" in fields["trace"]


def test_a_spent_budget_ends_it_and_a_manual_restart_resets_the_count(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ConnectionError("away"))
    create(cluster, "a", source(5, **BACKOFF | {"errors.restart.max": "2"}))
    cluster.until(lambda: all("2 restarts within" in note.get("stopped", "") for note in notes(cluster)))
    assert faults.calls["a-0.start"] == 3
    cluster.until(lambda: told(cluster, "a-0 stays FAILED, restart it by hand"))
    owner = next(worker.herder for worker in cluster.workers.values() if worker.herder.views.progress().tasks)
    owner.submit(RestartTask(A_0)).result(10)
    cluster.until(lambda: faults.calls["a-0.start"] == 6)
    cluster.until(lambda: all("2 restarts within" in note.get("stopped", "") for note in notes(cluster)))


def test_a_poison_record_ends_it(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ValueError("line 1 is bad"))
    create(cluster, "a", source(5, **BACKOFF | {"errors.restart.poison": "2"}))
    cluster.until(lambda: all("ValueError: line 1 is bad" in note.get("stopped", "") for note in notes(cluster)))
    assert faults.calls["a-0.start"] == 2


def test_a_new_configuration_resets_the_count(cluster: InProcessCluster) -> None:
    faults.raises("a-0.poll", ValueError("bad"))
    config = source(5, **BACKOFF | {"errors.restart.max": "1"})
    create(cluster, "a", config)
    cluster.until(lambda: all("1 restarts within" in note.get("stopped", "") for note in notes(cluster)))
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", {**config, "name": "a", "records": "6"})))
    cluster.until(lambda: faults.calls["a-0.start"] == 4)


def test_a_connector_is_started_again_too(cluster: InProcessCluster) -> None:
    faults.raises("a.start", ConnectError("not yet"))
    create(cluster, "a", source(5, **BACKOFF))
    cluster.until(lambda: faults.calls["a.start"] >= 3)
    faults.raises("a.start", None)
    cluster.until(lambda: emitted(cluster) == expected("a-0", 5))
    cluster.until(lambda: told(cluster, "a is restarted (attempt 1)"))


def test_a_task_that_is_paused_meanwhile_waits_for_its_resumption(cluster: InProcessCluster) -> None:
    slow = {"errors.restart.delay.ms": "1000", "errors.restart.delay.max.ms": "1000"}
    faults.raises("a-0.poll", ConnectionError("away"))
    create(cluster, "a", source(5, **BACKOFF | slow))
    cluster.until(lambda: all(note.get("attempts", 0) >= 1 for note in notes(cluster)))
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.PAUSED)))
    faults.raises("a-0.poll", None)
    cluster.until(lambda: cluster.states("a") == {"a": "PAUSED", "a-0": "PAUSED"})
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STARTED)))
    cluster.until(lambda: emitted(cluster) == expected("a-0", 5))
