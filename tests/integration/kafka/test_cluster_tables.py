"""The tables of a worker group, read from its topics on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.offline.tables import TABLES, read_table
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.datasource.table_columns import TABLE_COLUMNS
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.topic_records import TopicPart, read_with_headers
from tests.integration.kafka.stored_group import FILE_SOURCE, Group
from tests.support.worker_process import worker_properties


@pytest.fixture
def group(broker: EmbeddedKafka, tmp_path: Path) -> Group:
    return Group(broker.bootstrap_servers, tmp_path)


def rows(group: Group, table: str) -> list[tuple[Any, ...]]:
    return list(read_table(table, worker_properties(group.servers, group.group, 8083)))


@pytest.mark.parametrize("table", TABLES)
def test_a_group_that_never_was_has_empty_tables(group: Group, table: str) -> None:
    assert rows(group, table) == []


def test_tables_show_the_state_that_a_stopped_group_left(group: Group) -> None:
    group.fill()
    config = {"connector.class": FILE_SOURCE, "name": "files", "file": str(group.folder / "in.txt"), "topic": "t"}
    running = ("RUNNING", "w:1", 1, None, None)
    assert rows(group, "connectors") == [("files", FILE_SOURCE, config, "PAUSED", 1, *running)]
    task = config | {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    assert rows(group, "tasks") == [("files", 0, task, None, None, None, None, None)]
    assert rows(group, "statuses") == [("files", None, *running), ("gone", None, *running)]
    assert ("files", None, "topic", "t") in rows(group, "configs")
    assert len(rows(group, "configs")) == len(config) + len(task)
    offsets = rows(group, "offsets")
    assert offsets[0][:3] == ("files", '{"filename":"files-0.txt"}', '{"position":2}')
    assert [(row[0], row[4]) for row in offsets] == [("files", True)] * 5 + [("gone", False)] * 5
    assert offsets[0][3].tzinfo is not None
    assert rows(group, "workers") == []
    assert all(
        len(row) == TABLE_COLUMNS[name].replace("map<string,string>", "").count(",") + 1
        for name in TABLES
        for row in rows(group, name)
    )


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(BadConfigError, match=r"group\.id"):
        list(read_table("connectors", {"bootstrap.servers": "127.0.0.1:1"}))


def test_a_dead_letter_queue_is_a_table(group: Group) -> None:
    group.create_topics()
    config = {
        "connector.class": FILE_SOURCE,
        "name": "files",
        "errors.deadletterqueue.topic.name": f"{group.group}-dead",
    }
    group.write(
        "configs", ("connector-files", {"properties": config}), ("connector-plain", {"properties": {"name": "plain"}})
    )
    assert rows(group, "dlq:files") == []
    producer = Producer({"bootstrap.servers": group.servers, "enable.idempotence": True})
    headers = [
        ("own", b"1"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.message", None),
    ]
    producer.produce(f"{group.group}-dead", b"bad", b"k", timestamp=1_500, headers=headers)
    assert producer.flush(20) == 0
    (row,) = rows(group, "dlq:files")
    assert row[1:3] == (0, 0)
    assert row[3].timestamp() == 1.5
    errors = {"stage": "VALUE_CONVERTER", "exception.message": None}
    assert row[4:] == (b"k", b"bad", [("own", b"1")], errors)
    with pytest.raises(NotFoundError, match="plain has no dead letter queue"):
        rows(group, "dlq:plain")
    with pytest.raises(NotFoundError, match="nobody not found"):
        rows(group, "dlq:nobody")


def test_conditions_bound_what_is_read_of_a_topic(group: Group) -> None:
    topic, admin = f"{group.group}-part", KafkaAdmin({"bootstrap.servers": group.servers})
    admin.create_topic(TopicSpec(topic, 2, 1, {}))
    producer = Producer({"bootstrap.servers": group.servers, "enable.idempotence": True})
    for number in range(10):
        for partition in (0, 1):
            producer.produce(topic, b"", partition=partition, timestamp=(number + 1) * 1_000)
    assert producer.flush(20) == 0

    def offsets(*bounds: int | None) -> list[tuple[int, int]]:
        found = read_with_headers({"bootstrap.servers": group.servers}, topic, TopicPart([1], *bounds))
        return [letter.record[:2] for letter in found]

    assert offsets(2, 4) == [(1, 2), (1, 3), (1, 4)]
    assert offsets(None, 5, 4_500) == [(1, 4), (1, 5)]
    assert offsets(None, None, 60_000) == []
    admin.close()
