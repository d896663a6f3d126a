"""Previews on a real worker: a source with a chain, here and in Java, a sink, one that hangs; nothing stays."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.e2e.commands import until
from tests.e2e.java_stories import ON_JAVA
from tests.support.worker_process import SparkWorkerProcess
from tests.topics import count_records

CHAIN = {
    "transforms": "wrap",
    "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.wrap.field": "line",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
HANGING = '''
"""A source whose poll never returns after its first record."""
import os
import time
from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef


class HangingSource(SourceConnector):
    """Hangs."""

    def config_def(self):
        return ConfigDef()

    def task_class(self):
        return HangingTask

    def task_configs(self, max_tasks):
        return [dict(self.config)]


class HangingTask(SourceTask):
    """Hangs in its second poll."""

    def start(self, config):
        self.polls = 0
        with open(config["pids"], "a") as file:
            file.write(f"{os.getpid()}\\n")

    def poll(self):
        self.polls += 1
        while self.polls > 1:
            time.sleep(3600)
        return [SourceRecord({}, {}, "hung", "one")]

    def stop(self):
        pass
'''


def hanging_plugin(folder: Path) -> Path:
    """Make the folder of a plug-in that hangs."""
    plugin = folder / "hanging" / "hanging-1.0"
    plugin.mkdir(parents=True)
    (plugin / "hanging_source.py").write_text(HANGING)
    (plugin / "entry_points.txt").write_text(
        "[spark_connect_rt.source_connectors]\nHanging = hanging_source:HangingSource\n"
    )
    return plugin.parent


class Previews:
    """Asks one worker for previews."""

    def __init__(self, worker: SparkWorkerProcess, bootstrap_servers: str) -> None:
        self.worker, self.servers = worker, bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def ask(self, **body: Any) -> Any:
        answer = self.worker.rest.request("POST", "/admin/preview", body)
        assert answer.status == 200, answer.body
        return answer.json()

    def world(self) -> Mapping[str, Any]:
        """Return everything that a preview might leave behind."""
        internal = "e2e-worker-configs", "e2e-worker-offsets", "e2e-worker-status"
        topics = sorted(name for name in self._admin.list_topics(timeout=10).topics if name != "__consumer_offsets")
        groups = self._admin.list_consumer_groups(request_timeout=10).result()
        return {
            "topics": topics,
            "groups": sorted(group.group_id for group in groups.valid),
            "records": {name: count_records(self.servers, name) for name in topics if name.endswith(internal)},
            "connectors": self.worker.rest.request("GET", "/connectors?expand=status").json(),
        }


def values(answer: Any, stage: int) -> list[Any]:
    return [record["stages"][stage]["record"]["value"] for record in answer["records"]]


def a_source_is_previewed(previews: Previews, folder: Path) -> dict[str, float]:
    """Have Python's file source and Java's previewed, each with a transformation; return the seconds of each."""
    took = {}
    (folder / "in.txt").write_text("one\ntwo\nthree\n")
    config = {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": "previewed", **CHAIN}

    def warm() -> bool:  # Spark is up: a worker that was just started may take a minute for it
        try:
            answer = previews.worker.rest.request("POST", "/admin/preview", {"config": config, "records": 1})
        except httpx.TimeoutException:
            return False
        return answer.status == 200 and answer.json()["error"] is None

    until(warm, 240, "a first preview")
    for kind, more in (("Python", {}), ("Java", ON_JAVA)):
        found = previews.ask(config={**config, **more}, records=2, seconds=60)
        assert (found["ended"], found["error"]) == ("records", None), found
        assert values(found, 0) == ["one", "two"]
        assert values(found, 1) == [{"line": "one"}, {"line": "two"}]
        converted = found["records"][1]["stages"][-1]
        assert converted["stage"] == "converted"
        assert json.loads(b64decode(converted["bytes"]["value"])) == {"line": "two"}
        took[kind] = found["seconds"]
    return took


def a_sink_is_previewed(previews: Previews, topic: str, expected: list[Any]) -> None:
    """What lies in a topic, as a file sink of that name would get it."""
    config = {"connector.class": "FileStreamSink", "file": "never-written", "topics": topic, **CHAIN}
    found = previews.ask(config=config, name="previewed-sink", records=100, seconds=30)
    assert (found["ended"], found["error"]) == ("nothing more", None), found
    assert [stage["stage"] for stage in found["records"][0]["stages"]] == ["read", "transforms.wrap"]
    assert values(found, 1) == [{"line": line} for line in expected]
    assert not Path("never-written").exists()


def one_that_hangs_is_ended(previews: Previews, folder: Path) -> float:
    """At its limit, with what it had shown, its process gone; so is that of one whose client goes away."""
    pids = folder / "pids"
    config = {"connector.class": "hanging_source.HangingSource", "pids": str(pids)}
    begun = time.monotonic()
    found = previews.ask(config=config, records=5, seconds=5)
    took = time.monotonic() - begun
    assert (found["ended"], values(found, 0)) == ("time", ["one"]), found
    assert "polling" in found["error"]
    until(lambda: not psutil.pid_exists(int(pids.read_text())), 10, "the hung process is gone")

    body = {"config": config, "records": 5, "seconds": 60}
    with httpx.Client(timeout=httpx.Timeout(30, read=8), trust_env=False) as client, pytest.raises(httpx.ReadTimeout):
        client.post(f"{previews.worker.rest.url}/admin/preview", json=body)
    second = pids.read_text().split()[-1]
    until(lambda: not psutil.pid_exists(int(second)), 15, "so is the one of a client that left")
    return took
