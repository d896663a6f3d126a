"""A worker group that exists in its topics only: what a stopped one leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.cli import main
from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.contract.compacted_log_contract import fresh_name
from tests.support.worker_process import worker_properties

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
KEYS = [f'["{name}",{{"filename":"{name}-{n}.txt"}}]' for name in ("files", "gone") for n in range(5)]


class Group:
    """A worker group that exists in its topics only."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.group, self.servers, self.folder = fresh_name("stored"), servers, folder
        self.properties = folder / "worker.properties"
        settings = worker_properties(self.servers, self.group, 8083)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def run(self, *words: str) -> int:
        group, verb, *rest = words
        with pytest.raises(SystemExit) as ended:
            main([group, verb, str(self.properties), *rest])
        return int(ended.value.code or 0)

    def write(self, kind: str, *records: tuple[str, Any]) -> None:
        producer = Producer(
            {"bootstrap.servers": self.servers, "partitioner": "murmur2_random", "enable.idempotence": True}
        )
        for key, value in records:
            data = value if isinstance(value, bytes | None) else json.dumps(value, separators=(",", ":")).encode()
            producer.produce(f"{self.group}-{kind}", data, key.encode())
        assert producer.flush(20) == 0

    def create_topics(self) -> None:
        admin = KafkaAdmin({"bootstrap.servers": self.servers})
        for kind, partitions in (("configs", 1), ("offsets", 25), ("statuses", 5)):
            admin.create_topic(TopicSpec(f"{self.group}-{kind}", partitions, 1, {"cleanup.policy": "compact"}))
        admin.close()

    def fill(self) -> None:
        """Write what a worker leaves: one connector with two tasks, offsets, of a deleted connector too."""
        config = {"connector.class": FILE_SOURCE, "name": "files", "file": str(self.folder / "in.txt"), "topic": "t"}
        self.create_topics()
        self.write("configs", ("connector-files", {"properties": config}))
        self.write(
            "configs",
            (
                "task-files-0",
                {"properties": {**config, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}},
            ),
        )
        self.write("configs", ("commit-files", {"tasks": 1}), ("target-state-files", {"state": "PAUSED"}))
        for position in range(3):
            self.write("offsets", *((key, {"position": position}) for key in KEYS))
        status = {"state": "RUNNING", "trace": None, "worker_id": "w:1", "generation": 1}
        self.write("statuses", ("status-connector-files", status), ("status-connector-gone", status))

    def records(self, kind: str) -> list[RawRecord]:
        with InternalTopics(worker_properties(self.servers, self.group, 8083)) as topics:
            return list(topics.read(kind))
