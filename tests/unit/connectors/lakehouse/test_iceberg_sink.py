"""The Iceberg sink in the harness: records to rows, offsets that follow the table, and resets by the owner."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import sink_task
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector, IcebergSinkTask
from spark_connect_rt.errors import ConnectError, DataError, ExternalError
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.support.lakehouse_readers import duckdb_rows
from tests.unit.connectors.lakehouse.settling import settle

NAME, TOPIC = "shop.orders", "orders"
PLACE = TopicPartition(TOPIC, 0)
WITHOUT_SCHEMAS = {
    f"{part}.converter{name}": value
    for part in ("key", "value")
    for name, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


class Lake:
    """A catalog in a folder, and sinks that write to it."""

    def __init__(self, folder: Path) -> None:
        self.settings = {
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{folder / 'catalog.db'}",
            "iceberg.catalog.warehouse": (folder / "warehouse").as_uri(),
        }

    def config(self, **changed: str) -> dict[str, str]:
        return {
            "name": "lake-sink",
            "topics": TOPIC,
            "iceberg.tables": NAME,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.commit.interval-ms": "1",
            **self.settings,
            **changed,
        }

    def upserts(self, **changed: str) -> dict[str, str]:
        return self.config(**{"iceberg.tables.upsert-mode-enabled": "true", **changed})

    def sink(self, config: Mapping[str, str]) -> SinkHarness:
        return SinkHarness(IcebergSinkConnector, config)

    def catalog(self) -> RememberingSqlCatalog:
        names = {name.rpartition(".")[2]: value for name, value in self.settings.items()}
        return RememberingSqlCatalog("iceberg", uri=names["uri"], warehouse=names["warehouse"])

    def rows(self, table: str = NAME, order_by: str = "id") -> list[dict[str, Any]]:
        """Return the rows that pyiceberg and DuckDB read."""
        loaded = self.catalog().load_table(table)
        found: list[dict[str, Any]] = loaded.scan().to_arrow().sort_by(order_by).to_pylist()
        assert duckdb_rows(loaded.metadata_location, order_by) == found
        return found

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def deliver_more(sink: SinkHarness) -> None:
    """Send and deliver one record after the other, for as long as the task takes them."""
    for _ in range(10_000):
        sink.send(TOPIC, {"id": 3})
        sink.deliver()


def test_records_become_rows_and_their_offsets_are_committed(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        for number in range(5):
            sink.send(TOPIC, {"id": number, "name": f"n{number}", "tags": ["a", "b"]})
        settle(sink)
        assert sink.commit() == {PLACE: 5}
    assert lake.rows() == [{"id": number, "name": f"n{number}", "tags": ["a", "b"]} for number in range(5)]


def test_task_that_shares_commits_asks_to_be_called_for_its_turn(lake: Lake) -> None:
    with lake.sink(lake.config(**{"tasks.max": "5", "iceberg.control.commit.interval-ms": "200"})) as sink:
        task: Any = sink.task
        for number in range(5):
            sink.send(TOPIC, {"id": number})
        deadline_s = time.monotonic() + 60
        sink.deliver()
        while task._tables[NAME].writer.waiting_rows:
            assert sink.asked_wait_s is not None
            assert sink.asked_wait_s <= 0.2
            assert time.monotonic() < deadline_s
            sink.deliver()
        assert sink.commit() == {PLACE: 5}
    assert lake.ids() == [0, 1, 2, 3, 4]


def envelopes(count: int) -> list[tuple[int, dict[str, Any] | None]]:
    """Return keys and values of a topic of Debezium: every third row is deleted, with a tombstone behind."""
    found: list[tuple[int, dict[str, Any] | None]] = []
    for number in range(count):
        row = {"id": number, "note": f"n{number}"}
        source = {"lsn": number, "xmin": None}
        found.append((number, {"before": None, "after": row, "source": source, "op": "c"}))
        if number % 3 == 0:
            found += [(number, {"before": row, "after": None, "source": source, "op": "d"}), (number, None)]
    return found


@pytest.mark.parametrize("by_columns", [True, False])
def test_envelopes_with_tombstones_become_changes_at_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, by_columns: bool
) -> None:
    calls: list[str] = []
    for name in ("changes_of_batch", "changes_of_records"):
        real = getattr(sink_task, name)
        monkeypatch.setattr(sink_task, name, lambda *given, real=real, name=name: calls.append(name) or real(*given))
    if not by_columns:
        monkeypatch.setattr(IcebergSinkTask, "put_batch", SinkTask.put_batch)
    with lake.sink(lake.upserts() | WITHOUT_SCHEMAS) as sink:
        for key, value in envelopes(30):
            sink.send(TOPIC, value, key={"id": key})
        settle(sink)
    assert calls == ["changes_of_batch" if by_columns else "changes_of_records"]
    assert lake.ids() == [number for number in range(30) if number % 3]


def test_offsets_wait_for_the_commit_of_the_table(lake: Lake) -> None:
    with lake.sink(lake.config(**{"iceberg.control.commit.interval-ms": "3600000"})) as sink:
        sink.send(TOPIC, {"id": 1})
        sink.deliver()
        sink.deliver()
        assert sink.commit() in ({}, {PLACE: 0})
        with pytest.raises(NoSuchTableError):
            lake.catalog().load_table("shop.other")
        assert lake.ids() == []
    assert lake.ids() == [1]  # an orderly stop commits


def test_table_wins_over_a_group_that_lags(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        for number in range(5):
            sink.send(TOPIC, {"id": number})
        settle(sink)
        sink.committed.clear()  # the group's commit is lost
        sink.restart()
        sink.send(TOPIC, {"id": 5})
        settle(sink)
        assert sink.commit() == {PLACE: 6}
    assert lake.ids() == [0, 1, 2, 3, 4, 5]


def test_group_that_was_reset_by_its_owner_is_obeyed(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with lake.sink(lake.config(**{"connectrt.table.group.lag.ms": "0"})) as sink:
        for number in range(40):
            sink.send(TOPIC, {"id": number})
            settle(sink)
            sink.commit()
        sink.stop()
        sink.committed[PLACE] = 3
        sink.start()
        with caplog.at_level(logging.WARNING):
            settle(sink)
    assert lake.ids() == sorted([*range(40), *range(3, 40)])
    assert "reset to an earlier offset" in caplog.text


def test_group_that_was_moved_ahead_is_obeyed_without_a_warning(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 0})
        settle(sink)
        sink.stop()
        for number in range(1, 6):
            sink.send(TOPIC, {"id": number})
        sink.committed[PLACE] = 4
        sink.start()
        settle(sink)
        sink.commit()
        sink.restart()
        settle(sink)
    assert lake.ids() == [0, 4, 5]
    said = [record for record in caplog.records if "the consumer group is ahead" in record.getMessage()]
    assert {record.levelno for record in said} == {logging.INFO}


def test_altered_offsets_win_over_the_table(lake: Lake) -> None:
    config = lake.config()
    with lake.sink(config) as sink:
        for number in range(5):
            sink.send(TOPIC, {"id": number})
        settle(sink)
        sink.commit()
        sink.stop()
        assert IcebergSinkConnector().alter_offsets(config, {PLACE: 2})
        sink.committed[PLACE] = 2
        sink.start()
        settle(sink)
        assert lake.ids() == [0, 1, 2, 2, 3, 3, 4, 4]
        sink.stop()
        assert IcebergSinkConnector().alter_offsets(config, {PLACE: None})
        sink.committed.clear()
        sink.start()
        settle(sink)
    assert lake.ids() == sorted([0, 1, 2, 2, 3, 3, 4, 4, *range(5)])


def test_topic_that_was_created_again_is_read_from_its_start(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with lake.sink(lake.config()) as sink:
        sink.topics.topic_ids[TOPIC] = "first"
        for number in range(5):
            sink.send(TOPIC, {"id": number})
        settle(sink)
        sink.stop()
        sink.topics.partitions.clear()
        sink.topics.topic_ids[TOPIC] = "second"
        sink.committed.clear()
        for number in range(100, 108):
            sink.send(TOPIC, {"id": number})
        sink.start()
        settle(sink)
        assert sink.commit() == {PLACE: 8}
    assert lake.ids() == [0, 1, 2, 3, 4, *range(100, 108)]
    assert "deleted and created again" in caplog.text


def test_shorter_log_is_noticed_without_topic_ids(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        for number in range(5):
            sink.send(TOPIC, {"id": number})
        settle(sink)
        sink.stop()
        sink.topics.partitions.clear()
        sink.committed.clear()
        sink.send(TOPIC, {"id": 100})
        sink.send(TOPIC, {"id": 101})
        sink.start()
        task: Any = sink.task
        sink.deliver()
        # The harness finds nothing at the offset that was sought. A broker answers with the start of the log.
        assert task._sought == {PLACE: 5}
        runner: Any = sink._runners[0]
        runner.positions[PLACE] = 0
        settle(sink)
    assert lake.ids() == [0, 1, 2, 3, 4, 100, 101]


def test_upserts_and_deletes_by_key(lake: Lake) -> None:
    with lake.sink(lake.upserts()) as sink:
        for number in range(6):
            sink.send(TOPIC, {"id": number, "name": "old"}, key={"id": number})
        settle(sink)
        sink.send(TOPIC, {"id": 2, "name": "new"}, key={"id": 2})
        sink.send(TOPIC, {"id": 2, "name": "newer"}, key={"id": 2})
        sink.send(TOPIC, None, key={"id": 4})
        sink.send(TOPIC, None, key={"id": 77})
        settle(sink)
        assert sink.commit() == {PLACE: 10}
        names = {row["id"]: row["name"] for row in lake.rows()}
        assert names == {0: "old", 1: "old", 2: "newer", 3: "old", 5: "old"}
        sink.restart()  # the index is built again
        sink.send(TOPIC, {"id": 3, "name": "late"}, key={"id": 3})
        sink.send(TOPIC, None, key={"id": 0})
        settle(sink)
    assert {row["id"]: row["name"] for row in lake.rows()} == {1: "old", 2: "newer", 3: "late", 5: "old"}


def test_envelopes_of_debezium_keep_the_current_rows(lake: Lake) -> None:
    def change(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"op": op, "before": before, "after": after, "source": {"table": "orders"}, "ts_ms": 1}

    with lake.sink(lake.upserts()) as sink:
        sink.send(TOPIC, change("r", None, {"id": 1, "name": "a"}), key={"id": 1})
        sink.send(TOPIC, change("c", None, {"id": 2, "name": "b"}), key={"id": 2})
        settle(sink)
        sink.send(TOPIC, change("u", {"id": 1, "name": "a"}, {"id": 1, "name": "A"}), key={"id": 1})
        sink.send(TOPIC, change("d", {"id": 2, "name": "b"}, None), key={"id": 2})
        sink.send(TOPIC, None, key={"id": 2})
        settle(sink)
    assert lake.rows() == [{"id": 1, "name": "A"}]


def envelope(op: str, number: int | None = None) -> dict[str, Any]:
    row = None if number is None else {"id": number}
    return {"op": op, "before": None, "after": row, "source": {"table": "orders"}}


def test_truncate_of_the_source_removes_the_earlier_rows(lake: Lake) -> None:
    with lake.sink(lake.upserts()) as sink:
        sink.send(TOPIC, envelope("t"))  # before there is a table
        for number in (1, 2):
            sink.send(TOPIC, envelope("c", number), key={"id": number})
        settle(sink)
        assert lake.ids() == [1, 2]
        sink.send(TOPIC, envelope("c", 3), key={"id": 3})
        sink.send(TOPIC, envelope("t"))
        sink.send(TOPIC, envelope("c", 2), key={"id": 2})
        settle(sink)
        assert lake.ids() == [2]
        sink.send(TOPIC, envelope("u", 2), key={"id": 2})
        sink.send(TOPIC, envelope("c", 4), key={"id": 4})
        settle(sink)
        assert lake.ids() == [2, 4]
        sink.restart()
        sink.send(TOPIC, envelope("t"))
        settle(sink)
        assert sink.commit() == {PLACE: 9}
        assert lake.catalog().load_table(NAME).scan().to_arrow().num_rows == 0
        sink.send(TOPIC, envelope("c", 5), key={"id": 5})
        settle(sink)
    assert lake.ids() == [5]


@pytest.mark.parametrize(
    ("partitions", "changed", "reason"),
    [
        (2, {}, "orders has 2 partitions"),
        (1, {"topics": "orders,others"}, "several topics"),
        (1, {"iceberg.tables.route-field": "after.kind", f"iceberg.table.{NAME}.route-regex": ".*"}, "route-field"),
    ],
)
def test_truncate_without_an_order_is_refused_by_name(
    lake: Lake, partitions: int, changed: dict[str, str], reason: str
) -> None:
    dead = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.context.headers.enable": "true"}  # fmt: skip
    with lake.sink(lake.upserts(**dead, **changed)) as sink:
        for number in range(partitions):
            row = {"op": "c", "before": None, "after": {"id": number, "kind": "k"}}
            sink.send(TOPIC, row, key={"id": number}, partition=number)
        settle(sink)
        sink.send(TOPIC, {"op": "t", "before": None, "after": None})
        sink.send(TOPIC, {"op": "c", "before": None, "after": {"id": 9, "kind": "k"}}, key={"id": 9})
        settle(sink)
        (letter,) = sink.dead_letters()
        message = next(header["value"] for header in letter["headers"] if header["key"].endswith("exception.message"))
        assert "the truncate is not applied to the table" in message.decode()
        assert reason in message.decode()
    assert lake.ids() == [*range(partitions), 9]


def test_columns_are_added_and_unsafe_changes_are_dead_letters(lake: Lake) -> None:
    config = lake.config(**{
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
    })  # fmt: skip
    with lake.sink(config) as sink:
        sink.send(TOPIC, {"id": 1, "name": "a"})
        settle(sink)
        sink.send(TOPIC, {"id": 2, "name": "b", "note": "x"})
        sink.send(TOPIC, {"id": "three", "name": "c"})
        sink.send(TOPIC, {"id": 4, "name": "d"})
        settle(sink)
        assert sink.commit() == {PLACE: 4}
        assert [letter["offset"] for letter in sink.dead_letters()] == [0]
    assert lake.rows() == [
        {"id": 1, "name": "a", "note": None},
        {"id": 2, "name": "b", "note": "x"},
        {"id": 4, "name": "d", "note": None},
    ]


def test_record_that_does_not_fit_fails_a_strict_task_and_loses_nothing(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 1})
        settle(sink)
        for value in (2, "three", 4):
            sink.send(TOPIC, {"id": value})
        with pytest.raises(DataError, match=r"orders-0@2: field id"):
            settle(sink)
        sink.stop()
        topics, committed = sink.topics, sink.committed
    assert lake.ids() == [1]  # no row behind the record that failed the task
    tolerant = lake.config(**{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"})
    with lake.sink(tolerant) as sink:
        sink.topics.partitions.update(topics.partitions)
        sink.committed.update(committed)
        settle(sink)
        assert sink.commit() == {PLACE: 4}
        assert len(sink.dead_letters()) == 1
    assert lake.ids() == [1, 2, 4]


def test_missing_table_is_named_with_what_to_do(lake: Lake) -> None:
    with lake.sink(lake.config(**{"iceberg.tables.auto-create-enabled": "false"})) as sink:
        sink.send(TOPIC, {"id": 1})
        with pytest.raises(ExternalError, match=r"shop\.orders does not exist\. Create it"):
            settle(sink)


def test_records_are_routed_by_a_field(lake: Lake) -> None:
    config = lake.config(**{
        "iceberg.tables": "shop.a,shop.b",
        "iceberg.tables.route-field": "kind",
        "iceberg.table.shop.a.route-regex": "a|both",
        "iceberg.table.shop.b.route-regex": "b|both",
    })  # fmt: skip
    with lake.sink(config) as sink:
        for number, kind in enumerate(["a", "b", "both", "none", "a"]):
            sink.send(TOPIC, {"id": number, "kind": kind})
        sink.send(TOPIC, {"id": 5})
        settle(sink)
        assert sink.commit() == {PLACE: 6}
        sink.committed.clear()
        sink.restart()
        sink.send(TOPIC, {"id": 6, "kind": "b"})
        settle(sink)
    assert [row["id"] for row in lake.rows("shop.a")] == [0, 2, 4]
    assert [row["id"] for row in lake.rows("shop.b")] == [1, 2, 6]


def test_tables_are_named_by_a_field(lake: Lake) -> None:
    config = lake.config(**{
        "iceberg.tables": "",
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "to",
    })  # fmt: skip
    with lake.sink(config) as sink:
        sink.send(TOPIC, {"id": 0, "to": "shop.A"})
        sink.send(TOPIC, {"id": 1, "to": "shop.b"})
        settle(sink)
        assert sink.commit() == {PLACE: 2}
        sink.committed.clear()
        sink.restart()
        sink.send(TOPIC, {"id": 2, "to": "shop.a"})
        settle(sink)
    assert [row["id"] for row in lake.rows("shop.a")] == [0, 2]
    assert [row["id"] for row in lake.rows("shop.b")] == [1]
    with pytest.raises(ConnectError, match="cannot be altered"):
        IcebergSinkConnector().alter_offsets(config, {PLACE: 0})


def test_created_table_is_partitioned_and_has_the_schema_of_the_records(lake: Lake) -> None:
    config = lake.upserts(**{
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.default-partition-by": "bucket(4, id), region",
        "iceberg.tables.auto-create-props.owner": "lake-team",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
    })  # fmt: skip
    fields = [("id", "INT64", False), ("region", "STRING", True), ("amount", "FLOAT64", False)]
    schema = _struct(fields)
    with lake.sink(config) as sink:
        for number in range(8):
            row = {"id": number, "region": "eu" if number % 2 else None, "amount": 0.5}
            sink.send(TOPIC, row, key={"id": number}, schema=schema)
        settle(sink)
    table = lake.catalog().load_table(NAME)
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]", "identity"]
    assert table.schema().identifier_field_ids == [table.schema().find_field("id").field_id]
    assert {field.name: field.required for field in table.schema().fields} == {
        "id": True,
        "region": False,
        "amount": True,
    }
    assert table.properties["owner"] == "lake-team"
    assert len(lake.rows()) == 8


def _struct(fields: list[tuple[str, str, bool]]) -> Schema:
    builder = SchemaBuilder.struct()
    for name, kind, optional in fields:
        field = SchemaBuilder(Type[kind])
        builder = builder.field(name, (field.optional() if optional else field).build())
    return builder.build()


@pytest.mark.parametrize(("rollback", "ids"), [("keep", [0, 1, 9]), ("refill", [0, 1, 2, 3, 9])])
def test_rolled_back_table_is_kept_or_refilled(
    lake: Lake, rollback: str, ids: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with lake.sink(lake.config(**{"connectrt.table.rollback": rollback})) as sink:
        for first in (0, 2):
            sink.send(TOPIC, {"id": first})
            sink.send(TOPIC, {"id": first + 1})
            settle(sink)
        sink.commit()
        sink.stop()
        table = lake.catalog().load_table(NAME)
        parent = table.current_snapshot()
        assert parent is not None
        assert parent.parent_snapshot_id is not None
        table.manage_snapshots().rollback_to_snapshot(parent.parent_snapshot_id).commit()
        assert lake.ids() == [0, 1]
        sink.start()
        sink.send(TOPIC, {"id": 9})
        settle(sink)
    assert lake.ids() == ids
    assert "rolled back" in caplog.text


def test_table_that_was_dropped_continues_with_what_was_not_committed(lake: Lake) -> None:
    with lake.sink(lake.upserts()) as sink:
        sink.send(TOPIC, {"id": 1}, key={"id": 1})
        settle(sink)
        sink.commit()
        schema = lake.catalog().load_table(NAME).schema()
        lake.catalog().drop_table(NAME)
        lake.catalog().create_table(NAME, schema)
        sink.send(TOPIC, {"id": 2}, key={"id": 2})
        settle(sink)
        assert sink.commit() == {PLACE: 2}
        sink.send(TOPIC, {"id": 1}, key={"id": 1})
        settle(sink)
    assert lake.ids() == [1, 2]


def test_missing_table_fails_a_running_task_with_what_to_do(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 1})
        settle(sink)
        lake.catalog().drop_table(NAME)
        sink.send(TOPIC, {"id": 2})
        with pytest.raises(ExternalError, match="does not exist any more"):
            settle(sink)


def test_catalog_that_is_away_is_tried_and_then_fails_the_task_without_loss(lake: Lake, tmp_path: Path) -> None:
    with lake.sink(lake.config(**{"connectrt.table.retry.timeout.ms": "50"})) as sink:
        sink.send(TOPIC, {"id": 1})
        settle(sink)
        sink.commit()
        away = tmp_path / "away.db"
        (tmp_path / "catalog.db").rename(away)
        (tmp_path / "catalog.db").mkdir()
        sink.send(TOPIC, {"id": 2})
        with pytest.raises(ExternalError, match="Nothing is lost: restart the task"):
            deliver_more(sink)
        (tmp_path / "catalog.db").rmdir()
        away.rename(tmp_path / "catalog.db")
        sent = len(sink.topics.partitions[PLACE])
        sink.restart()
        settle(sink)
        assert sink.commit() == {PLACE: sent}
    assert lake.ids() == [1, 2, *[3] * (sent - 2)]


def test_checks_name_missing_tables_and_rival_connectors(lake: Lake) -> None:
    config = lake.config(**{"iceberg.tables.auto-create-enabled": "false"})

    def findings(**changed: str) -> list[tuple[str, str]]:
        found = [check() for check in IcebergSinkConnector().outside_checks({**config, **changed})]
        return [(finding.level.value, finding.what) for line in found for finding in line]

    assert findings() == [("problem", f"table {NAME} does not exist")]
    assert findings(**{"iceberg.tables.auto-create-enabled": "true"}) == [("ok", f"table {NAME} will be created")]
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 1})
        settle(sink)
    assert findings() == [("ok", f"table {NAME} can be loaded")]
    assert findings(name="other")[0][0] == "warning"
    assert findings(name="other", topics="elsewhere")[0][0] == "ok"
    broken = findings(**{"iceberg.catalog.uri": "sqlite:////no/such/folder/c.db"})
    assert broken[0][0] == "problem"


def test_catalog_that_is_away_at_the_start_delays_the_task(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").mkdir()
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 1})
        assert not sink.deliver()
        assert not sink.deliver()
        assert sink.commit() == {}
        (tmp_path / "catalog.db").rmdir()
        settle(sink)
        assert sink.commit() == {PLACE: 1}
    assert lake.ids() == [1]


def test_group_that_lags_while_the_catalog_is_away_at_the_start_repeats_nothing(lake: Lake, tmp_path: Path) -> None:
    with lake.sink(lake.config()) as sink:
        for number in range(6):
            sink.send(TOPIC, {"id": number})
            settle(sink)
            if number == 1:
                assert sink.commit() == {PLACE: 2}
        sink.stop()
        sink.committed[PLACE] = 2  # the later commits of the group were lost
        away = tmp_path / "away.db"
        (tmp_path / "catalog.db").rename(away)
        (tmp_path / "catalog.db").mkdir()
        sink.start()
        assert not sink.deliver()  # the records from 2 wait for the table's answer
        (tmp_path / "catalog.db").rmdir()
        away.rename(tmp_path / "catalog.db")
        sink.send(TOPIC, {"id": 6})
        settle(sink)
    assert lake.ids() == [*range(7)]


def test_identifier_columns_of_the_table_are_the_key(lake: Lake) -> None:
    with lake.sink(lake.upserts(**{"iceberg.tables.default-id-columns": "id,region"})) as sink:
        sink.send(TOPIC, {"id": 1, "region": "eu", "amount": 1})
        settle(sink)
    with lake.sink(lake.upserts(name="other")) as sink:  # no id columns in the settings, and no keys
        sink.send(TOPIC, {"id": 1, "region": "eu", "amount": 2})
        sink.send(TOPIC, {"id": 1, "region": "us", "amount": 3})
        settle(sink)
    assert [(row["region"], row["amount"]) for row in lake.rows(order_by="amount")] == [("eu", 2), ("us", 3)]


def array_of(schema: Schema) -> Schema:
    return Schema(Type.ARRAY, value_schema=schema)


def map_of(schema: Schema) -> Schema:
    return Schema(Type.MAP, key_schema=s.STRING, value_schema=schema)


def test_nested_fields_are_added_and_widened(lake: Lake) -> None:
    address = struct_of({"city": s.STRING})
    line = struct_of({"n": s.INT32})
    first = struct_of({"id": s.INT64, "at": address, "lines": array_of(line), "by": map_of(line)})
    wider = struct_of({"n": s.INT64, "price": s.FLOAT64})
    further = struct_of({"city": s.STRING, "geo": struct_of({"lat": s.FLOAT64})})
    second = struct_of({"id": s.INT64, "at": further, "lines": array_of(wider), "by": map_of(wider)})
    config = lake.config(**{
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true",
    })  # fmt: skip
    old, new = Struct(line, {"n": 1}), Struct(wider, {"n": 1 << 40, "price": 0.5})
    with lake.sink(config) as sink:
        value = {"id": 1, "at": Struct(address, {"city": "Bern"}), "lines": [old], "by": {"a": old}}
        sink.send(TOPIC, Struct(first, value), schema=first)
        settle(sink)
        geo = Struct(struct_of({"lat": s.FLOAT64}), {"lat": 46.9})
        value = {"id": 2, "at": Struct(further, {"city": "Thun", "geo": geo}), "lines": [new], "by": {"a": new}}
        sink.send(TOPIC, Struct(second, value), schema=second)
        settle(sink)
    made = {"n": 1 << 40, "price": 0.5}
    table = lake.catalog().load_table(NAME)
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "at": {"city": "Bern", "geo": None}, "lines": [{"n": 1, "price": None}],
         "by": [("a", {"n": 1, "price": None})]},
        {"id": 2, "at": {"city": "Thun", "geo": {"lat": 46.9}}, "lines": [made], "by": [("a", made)]},
    ]  # fmt: skip
    columns = """id, "at".geo.lat, lines[1].n as n, lines[1].price as price, "by"['a'].n as of_map"""
    assert [tuple(row.values()) for row in duckdb_rows(table.metadata_location, "id", columns)] == [
        (1, None, 1, None, 1), (2, 46.9, 1 << 40, 0.5, 1 << 40),
    ]  # fmt: skip


def test_names_with_dots_are_columns(lake: Lake) -> None:
    with lake.sink(lake.config()) as sink:
        sink.send(TOPIC, {"id": 1, "a.b": "x"})
        settle(sink)
        sink.send(TOPIC, {"id": 2, "a.b": "y", "c.d": "z"})
        settle(sink)
    assert lake.rows() == [{"id": 1, "a.b": "x", "c.d": None}, {"id": 2, "a.b": "y", "c.d": "z"}]


def test_key_columns_match_whatever_their_case(lake: Lake) -> None:
    with lake.sink(lake.upserts(**{"iceberg.tables.default-id-columns": "Id"})) as sink:
        sink.send(TOPIC, {"Id": 1, "name": "old"})
        settle(sink)
    loose = {"iceberg.tables.default-id-columns": "ID", "iceberg.tables.schema-case-insensitive": "true"}
    with lake.sink(lake.upserts(name="other", **loose)) as sink:
        sink.send(TOPIC, {"ID": 1, "name": "new"})
        settle(sink)
    assert lake.rows(order_by="Id") == [{"Id": 1, "name": "new"}]


def test_rows_with_the_same_key_are_warned_about(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with lake.sink(lake.upserts()) as sink:
        for number in (1, 2):
            sink.send(TOPIC, {"id": number, "name": "old"}, key={"id": number})
        settle(sink)
        table = lake.catalog().load_table(NAME)
        table.append(table.scan().to_arrow())
        sink.send(TOPIC, {"id": 3, "name": "new"}, key={"id": 3})
        settle(sink)
        assert f"table {NAME}: 2 rows have a key that another row has, too" in caplog.text
        caplog.clear()
        sink.restart()
        sink.send(TOPIC, {"id": 1, "name": "new"}, key={"id": 1})
        settle(sink)
        assert f"table {NAME}: 2 rows have a key that another row has, too" in caplog.text
    names = [(row["id"], row["name"]) for row in lake.catalog().load_table(NAME).scan().to_arrow().to_pylist()]
    assert sorted(names) == [(1, "new"), (1, "old"), (2, "old"), (2, "old"), (3, "new")]


def test_upsert_without_any_key_is_refused_with_what_to_do(lake: Lake) -> None:
    with lake.sink(lake.upserts()) as sink:
        sink.send(TOPIC, {"id": 1})
        with pytest.raises(DataError, match="key"):
            settle(sink)


@pytest.mark.parametrize("fault", ["lost", "never", "late"])
@pytest.mark.parametrize("upsert", [False, True])
def test_commit_whose_answer_is_lost_is_found_or_made_once(
    lake: Lake, fault: str, upsert: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_table = RememberingSqlCatalog.commit_table
    faults = iter([fault])
    requests: list[tuple[Any, ...]] = []

    def unreliable(catalog: RememberingSqlCatalog, *request: Any) -> Any:
        kind = next(faults, None)
        if kind == "late":
            requests.append(request)
        elif kind != "never":
            answer = commit_table(catalog, *request)
            if kind is None:
                for late in requests:  # the first request arrives behind the second
                    with pytest.raises(CommitFailedException):
                        commit_table(catalog, *late)
                requests.clear()
                return answer
        raise ConnectionError("the connection was lost")

    with lake.sink(lake.upserts() if upsert else lake.config()) as sink:
        for number in (1, 2):
            sink.send(TOPIC, {"id": number, "name": "old"}, key={"id": number})
        settle(sink)
        monkeypatch.setattr(RememberingSqlCatalog, "commit_table", unreliable)
        sink.send(TOPIC, {"id": 3, "name": "new"}, key={"id": 3})
        if upsert:
            sink.send(TOPIC, {"id": 1, "name": "new"}, key={"id": 1})
        settle(sink)
        assert next(faults, None) is None
        sink.send(TOPIC, {"id": 4, "name": "newer"}, key={"id": 4})
        if upsert:
            sink.send(TOPIC, {"id": 1, "name": "newer"}, key={"id": 1})
        settle(sink)
        assert sink.commit() == {PLACE: 6 if upsert else 4}
    assert lake.ids() == [1, 2, 3, 4]
    assert next(row["name"] for row in lake.rows()) == ("newer" if upsert else "old")
