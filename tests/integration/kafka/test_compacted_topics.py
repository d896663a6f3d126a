"""``store check`` on topics that the broker's log cleaner has really gone over; how we create what it shall clean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.internal_topics import SHORT_HEAD
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_records import SessionKey
from spark_connect_rt.topics.store_check import Change, StoreFinding, live_records
from tests.contract.compacted_log_contract import fresh_name, until
from tests.support.worker_process import worker_properties

EAGER = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "0",
}
NOT_YET = {"min.compaction.lag.ms": "3600000"}
FILLER = records.restart_key("none")  # the last segment is never compacted: this fills it


def configure(name: str, version: int) -> list[Change]:
    return [(records.connector_key(name), records.encode_properties({"name": name, "v": str(version)}))]


def tasks(name: str, version: int, *numbers: int) -> list[Change]:
    return [
        (records.task_key(ConnectorTaskId(name, number)), records.encode_properties({"v": str(version)}))
        for number in numbers
    ]


def commit(name: str, count: int) -> list[Change]:
    return [(records.commit_key(name), records.encode_commit(count))]


def task_set(name: str, version: int, count: int) -> list[Change]:
    return [*configure(name, version), *tasks(name, version, *range(count)), *commit(name, count)]


def deletion(name: str) -> list[Change]:
    return [(records.connector_key(name), None), (records.target_state_key(name), None)]


HISTORIES: dict[str, list[Change]] = {
    "steady": [change for version in range(20) for change in task_set("steady", version, 2)],
    "shrunk": [*task_set("shrunk", 1, 3), *task_set("shrunk", 2, 1)],
    "again": [*task_set("again", 1, 2), *deletion("again"), *task_set("again", 2, 2)],
    "deleted": [*task_set("deleted", 1, 2), *deletion("deleted")],
    "taken up": [*task_set("taken up", 1, 2), *tasks("taken up", 2, 0), *task_set("taken up", 3, 2)],
    "died": [*task_set("died", 1, 2), *tasks("died", 2, 0, 1)],
    "died early": [*task_set("died early", 1, 2), *tasks("died early", 2, 0)],
    "overtaken": [*task_set("overtaken", 1, 2), *configure("overtaken", 2)],  # as Java: equal tasks are not written
    "died first": [*task_set("died first", 1, 2), *configure("died first", 2), *tasks("died first", 2, 0)],
}
BESIDE: list[Change] = [
    (records.session_key_key(), records.encode_session_key(SessionKey(b"k", "HmacSHA256", 1))),
    (records.logger_key("root"), records.encode_logger_level("DEBUG")),
    (records.task_count_key("steady"), records.encode_task_count(2)),
]


class Cleaned:
    """A group's config topic on a broker whose cleaner is in a hurry."""

    def __init__(self, servers: str) -> None:
        self.servers, self.group = servers, fresh_name("cleaned")
        self.settings = worker_properties(servers, self.group, 8083)
        admin = KafkaAdmin({"bootstrap.servers": servers})
        for kind, partitions in (("configs", 1), ("offsets", 2), ("statuses", 2)):
            admin.create_topic(TopicSpec(f"{self.group}-{kind}", partitions, 1, {**EAGER, **NOT_YET}))
        admin.close()

    def write(self, *changes: Change) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for key, value in changes:
            producer.produce(f"{self.group}-configs", value, key)
        assert producer.flush(30) == 0

    def await_compaction(self) -> None:
        """Wait until the cleaner has left one record of each key, and no tombstone, before the last segment."""
        self._let_the_cleaner_in()

        def is_compacted() -> bool:
            self.write((FILLER, records.encode_restart_request(include_tasks=False, only_failed=False)))
            with InternalTopics(self.settings) as topics:
                found = [record for record in topics.read("configs") if record[2] != FILLER]
            return found == live_records(found)

        until(is_compacted, limit_s=120)

    def _let_the_cleaner_in(self) -> None:
        client = AdminClient({"bootstrap.servers": self.servers})
        (setting,) = NOT_YET
        entry = ConfigEntry(setting, "0", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, f"{self.group}-configs", incremental_configs=[entry])
        client.incremental_alter_configs([resource])[resource].result(30)

    def findings(self) -> set[tuple[str, str]]:
        return {(finding.subject, finding.code) for finding in self._found()}

    def repair(self) -> None:
        self.write(*(change for finding in self._found() for change in finding.repair))

    def _found(self) -> list[StoreFinding]:
        with InternalTopics(self.settings) as topics:
            return [finding for finding in topics.findings() if finding.topic == f"{self.group}-configs"]


@pytest.fixture
def cleaned(broker: EmbeddedKafka) -> Iterator[Cleaned]:
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (broker_id,) = client.list_topics(timeout=30).brokers

    def set_backoff(operation: AlterConfigOpType, value: str) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=[entry])
        client.incremental_alter_configs([resource])[resource].result(30)

    set_backoff(AlterConfigOpType.SET, "100")
    yield Cleaned(broker.bootstrap_servers)
    set_backoff(AlterConfigOpType.DELETE, "")


def test_records_lost_to_compaction_are_found_and_nothing_else(cleaned: Cleaned) -> None:
    for history in HISTORIES.values():
        cleaned.write(*history)
    cleaned.write(*BESIDE)
    waiting = {(name, "uncommitted-tasks") for name in ("died", "died early", "died first")}
    left = {("deleted", "dead-tasks")}
    assert cleaned.findings() == {*waiting, ("overtaken", "overtaken-commit"), *left}  # all of it can still be read
    cleaned.await_compaction()
    lost = {(name, "tasks-without-commit") for name in ("died", "died early")}
    dropped = {(name, "commit-before-connector") for name in ("overtaken", "died first")}
    assert cleaned.findings() == {*lost, *dropped, *left}
    cleaned.repair()
    assert cleaned.findings() == {*dropped, *left}
    cleaned.await_compaction()
    assert cleaned.findings() == {*dropped, *left}


def test_an_offset_topic_that_a_worker_creates_has_a_short_head(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = fresh_name("created")
    given = {"offset.storage.min.cleanable.dirty.ratio": "0.3", "config.storage.retention.ms": "1000"}
    settings = worker_properties(broker.bootstrap_servers, group, 8083) | given
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    found: dict[str, dict[str, str]] = {}
    with InternalTopics(settings) as topics:
        for kind, spec in topics.specs.items():
            admin.ensure_compacted(spec, 1 if kind == "configs" else None)
            until(lambda name=spec.name: admin.partition_count(name) is not None)  # type: ignore[misc]
            found[kind] = admin.topic_settings(spec.name) or {}
    admin.close()
    assert {config["cleanup.policy"] for config in found.values()} == {"compact"}
    wanted = {**SHORT_HEAD, "min.cleanable.dirty.ratio": "0.3"}
    assert {name: found["offsets"][name] for name in wanted} == wanted
    assert found["configs"]["retention.ms"] == "1000"
    assert found["statuses"]["segment.bytes"] != SHORT_HEAD["segment.bytes"]
