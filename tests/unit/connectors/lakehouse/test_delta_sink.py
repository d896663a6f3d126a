"""The Delta sink in the harness: rows appended and merged, offsets that follow the table, settings that are refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkConnector, checked_settings, make_store
from spark_connect_rt.errors import DataError
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.unit.connectors.lakehouse.settling import settle

TOPIC = "orders"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLACE = TopicPartition(TOPIC, 0)


class Lake:
    """Sinks of one table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, **changed: str) -> dict[str, str]:
        return {
            "name": "lake-sink",
            "topics": TOPIC,
            "iceberg.tables": "shop.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.commit.interval-ms": "1",
            "delta.root": str(self.folder),
            **changed,
        }

    def sink(self, **changed: str) -> SinkHarness:
        return SinkHarness(DeltaSinkConnector, self.config(**changed))

    def upserts(self, **changed: str) -> SinkHarness:
        return self.sink(**{"iceberg.tables.upsert-mode-enabled": "true", **changed})

    def rows(self) -> list[dict[str, Any]]:
        table = DeltaTable(str(self.folder / "shop" / "orders")).to_pyarrow_table()
        rows: list[dict[str, Any]] = table.sort_by("id").to_pylist()
        return rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_records_become_rows_and_columns_are_added(lake: Lake) -> None:
    with lake.sink() as sink:
        for number in range(3):
            sink.send(TOPIC, {"id": number, "name": f"n{number}"})
        settle(sink)
        sink.send(TOPIC, {"id": 3, "name": "n3", "note": "x"})
        settle(sink)
        assert sink.commit() == {PLACE: 4}
    assert lake.rows() == [
        {"id": number, "name": f"n{number}", "note": "x" if number == 3 else None} for number in range(4)
    ]


def test_changes_by_key_are_merged(lake: Lake) -> None:
    with lake.upserts() as sink:
        for number in range(4):
            sink.send(TOPIC, {"id": number, "n": 0}, key={"id": number})
        settle(sink)
        sink.send(TOPIC, {"id": 1, "n": 1}, key={"id": 1})
        sink.send(TOPIC, {"id": 1, "n": 2}, key={"id": 1})
        sink.send(TOPIC, None, key={"id": 2})
        sink.send(TOPIC, {"id": 9, "n": 9}, key={"id": 9})
        settle(sink)
        assert sink.commit() == {PLACE: 8}
    assert [(row["id"], row["n"]) for row in lake.rows()] == [(0, 0), (1, 2), (3, 0), (9, 9)]


def test_truncate_of_the_source_removes_the_earlier_rows(lake: Lake) -> None:
    with lake.upserts() as sink:
        for number in (1, 2):
            sink.send(TOPIC, {"op": "c", "before": None, "after": {"id": number}}, key={"id": number})
        settle(sink)
        sink.send(TOPIC, {"op": "t", "before": None, "after": None})
        sink.send(TOPIC, {"op": "c", "before": None, "after": {"id": 3}}, key={"id": 3})
        settle(sink)
        assert [row["id"] for row in lake.rows()] == [3]
        sink.send(TOPIC, {"op": "t", "before": None, "after": None})
        settle(sink)
        assert sink.commit() == {PLACE: 5}
    assert lake.rows() == []


@pytest.mark.parametrize("upsert", ["true", "false"])
def test_table_wins_over_a_group_that_lags(lake: Lake, upsert: str) -> None:
    with lake.sink(**{"iceberg.tables.upsert-mode-enabled": upsert}) as sink:
        for number in range(5):
            sink.send(TOPIC, {"id": number}, key={"id": number})
        settle(sink)
        sink.committed.clear()  # the group's commit is lost
        sink.restart()
        sink.send(TOPIC, {"id": 5}, key={"id": 5})
        settle(sink)
        assert sink.commit() == {PLACE: 6}
    assert [row["id"] for row in lake.rows()] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("iceberg.tables.default-commit-branch", "audit", "no branches"),
        ("iceberg.tables.default-partition-by", "day(at)", "by columns only"),
        ("connectrt.table.compact.files", "50", "run OPTIMIZE"),
        ("connectrt.table.snapshots.keep", "100", "run OPTIMIZE"),
        ("connectrt.table.rollback", "refill", "Use keep"),
    ],
)
def test_settings_that_delta_has_no_form_for_are_refused(lake: Lake, name: str, value: str, reason: str) -> None:
    problems = DeltaSinkConnector().validate(lake.config(**{name: value}))
    assert list(problems) == [name]
    assert reason in problems[name][0]
    assert DeltaSinkConnector().validate(lake.config()) == {}


def test_table_of_unity_catalog_is_named_as_delta_rs_names_it(lake: Lake) -> None:
    named = {"delta.root": "uc://main", "iceberg.tables.auto-create-enabled": "false"}
    assert DeltaSinkConnector().validate(lake.config(**named)) == {}
    config = lake.config(**named, **{"delta.storage.databricks_token": "t0ken-of-the-sink"})
    assert make_store(config, checked_settings(config), "shop.orders").uri == "uc://main.shop.orders"
    assert hidden_values.without_secrets("t0ken-of-the-sink") == hidden_values.HIDDEN
    problems = DeltaSinkConnector().validate(
        lake.config(**{"delta.root": "uc://", "iceberg.tables": "main.shop.orders"})
    )
    assert set(problems) == {"delta.root", "iceberg.tables", "iceberg.tables.auto-create-enabled"}


def test_properties_of_a_created_table_are_honoured(lake: Lake) -> None:
    with lake.sink(**{"iceberg.tables.auto-create-props.delta.appendOnly": "true"}) as sink:
        sink.send(TOPIC, {"id": 1})
        settle(sink)
    table = DeltaTable(str(lake.folder / "shop" / "orders"))
    assert table.metadata().configuration == {"delta.appendOnly": "true"}


def test_altered_offsets_are_stored_in_the_table(lake: Lake) -> None:
    with lake.sink() as sink:
        for number in range(3):
            sink.send(TOPIC, {"id": number})
        settle(sink)
        sink.commit()
        sink.stop()
        assert DeltaSinkConnector().alter_offsets(lake.config(), {PLACE: 1})
        sink.committed[PLACE] = 1
        sink.start()
        settle(sink)
    assert [row["id"] for row in lake.rows()] == [0, 1, 1, 2, 2]


def test_record_that_does_not_fit_fails_a_strict_task(lake: Lake) -> None:
    with lake.sink() as sink:
        sink.send(TOPIC, {"id": 1, "n": 1})
        settle(sink)
        sink.send(TOPIC, {"id": 2, "n": "text"})
        with pytest.raises(DataError, match="cannot hold values of string"):
            sink.deliver()
    assert [row["id"] for row in lake.rows()] == [1]


def test_times_of_day_and_moments_have_types_of_delta(lake: Lake) -> None:
    schema = struct_of(
        {
            "id": s.INT64,
            "clock": Schema(s.Type.INT64, name="io.debezium.time.MicroTime"),
            "at": Schema(s.Type.INT64, name="io.debezium.time.MicroTimestamp"),
            "zoned": Schema(s.Type.STRING, name="io.debezium.time.ZonedTimestamp"),
        }
    )
    value = Struct(schema, {"id": 1, "clock": 5, "at": 7, "zoned": "2026-11-27T18:39:53Z"})
    with_schemas = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
    with lake.sink(**with_schemas) as sink:
        sink.send(TOPIC, value, schema=schema)
        settle(sink)
    (row,) = lake.rows()
    assert row == {
        "id": 1,
        "clock": 5,
        "at": dt.datetime(1970, 1, 1, 0, 0, 0, 7),
        "zoned": dt.datetime(2026, 11, 27, 18, 39, 53, tzinfo=dt.UTC),
    }
