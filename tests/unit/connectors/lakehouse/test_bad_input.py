"""Bad input of both table sinks: what `connectrt check` says before the first record, and how a running task ends.

Each case says what to do, and nothing is lost: the records are read again once the fault is corrected.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.outside_checks import Finding
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkConnector
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector
from spark_connect_rt.errors import ConnectError, DataError, ExternalError
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.support.refusing_store import refusing_store
from tests.unit.connectors.lakehouse.settling import settle

TOPIC, NAME = "orders", "shop.orders"
PLACE = TopicPartition(TOPIC, 0)
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
UPSERT = {"iceberg.tables.upsert-mode-enabled": "true"}
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
SECRET = "s3cret-of-the-sink"
AWAY = "http://127.0.0.1:1"


class Lake(ABC):
    """Sinks and tables of one format below a folder."""

    connector: type[SinkConnector]
    settings: Mapping[str, str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, **changed: str) -> dict[str, str]:
        return {
            "name": "lake-sink",
            "topics": TOPIC,
            "iceberg.tables": NAME,
            "iceberg.control.commit.interval-ms": "1",
            "connectrt.table.retry.timeout.ms": "1",
            **self.settings,
            **changed,
        }

    def sink(self, **changed: str) -> SinkHarness:
        return SinkHarness(self.connector, self.config(**changed))

    def problems(self, **changed: str) -> dict[str, str]:
        """Return what the validation says: setting -> reasons."""
        found = self.connector().validate(self.config(**changed))
        return {name: " ".join(why) for name, why in found.items()}

    def findings(self, **changed: str) -> list[Finding]:
        """Return what `connectrt check` says."""
        config = self.config(**changed)
        return [finding for check in self.connector().outside_checks(config) for finding in check()]

    def check(self, **changed: str) -> list[tuple[str, str]]:
        return [(finding.level.value, finding.what) for finding in self.findings(**changed)]

    @abstractmethod
    def create(self, rows: pa.Table) -> None:
        """Make the table as another writer."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""

    @abstractmethod
    def on_s3(self, endpoint: str) -> dict[str, str]:
        """Return settings of tables in a bucket."""


class IcebergLake(Lake):
    connector = IcebergSinkConnector

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settings = {
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{folder / 'catalog.db'}",
            "iceberg.catalog.warehouse": (folder / "warehouse").as_uri(),
        }

    def catalog(self) -> RememberingSqlCatalog:
        named = {name.rpartition(".")[2]: value for name, value in self.settings.items()}
        return RememberingSqlCatalog("iceberg", uri=named["uri"], warehouse=named["warehouse"])

    def create(self, rows: pa.Table) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("shop")
        catalog.create_table(NAME, rows.schema).append(rows)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.catalog().load_table(NAME).scan().to_arrow().sort_by("id").to_pylist()
        return found

    def on_s3(self, endpoint: str) -> dict[str, str]:
        return {
            "iceberg.catalog.warehouse": "s3://lake/tables",
            "iceberg.catalog.s3.endpoint": endpoint,
            "iceberg.catalog.s3.region": "eu-west-1",
            "iceberg.catalog.s3.access-key-id": "sink",
            "iceberg.catalog.s3.secret-access-key": SECRET,
            "iceberg.catalog.s3.connect-timeout": "1",
        }


class DeltaLake(Lake):
    connector = DeltaSinkConnector

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settings = {"delta.root": str(folder)}
        self.path = str(folder / "shop" / "orders")

    def create(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(self.path).to_pyarrow_table().sort_by("id").to_pylist()
        return found

    def on_s3(self, endpoint: str) -> dict[str, str]:
        return {
            "delta.root": "s3://lake/tables",
            "delta.storage.AWS_ENDPOINT_URL": endpoint,
            "delta.storage.AWS_ALLOW_HTTP": "true",
            "delta.storage.AWS_REGION": "eu-west-1",
            "delta.storage.AWS_ACCESS_KEY_ID": "sink",
            "delta.storage.AWS_SECRET_ACCESS_KEY": SECRET,
            "delta.storage.max_retries": "0",
            "delta.storage.connect_timeout": "1s",
        }


@pytest.fixture(params=[IcebergLake, DeltaLake], ids=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


@pytest.fixture
def iceberg(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path)


def rows_of(*ids: int | None, **columns: Any) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{number}" for number in ids]}, schema=SCHEMA)


def fails(sink: SinkHarness) -> ConnectError:
    """Deliver until the task fails, and return the error."""
    for _ in range(1000):
        try:
            sink.deliver()
        except ConnectError as error:
            return error
    raise AssertionError("the task does not fail")


@pytest.mark.parametrize("name", ["orders", "shop.or ders", "shop..orders", "../shop.orders", "shop.", 'shop."orders"'])
def test_invalid_table_name_is_not_valid(lake: Lake, name: str) -> None:
    assert "must be namespace.table" in lake.problems(**{"iceberg.tables": name})["iceberg.tables"]


@pytest.mark.parametrize("name", ["orders", "a b.c", "../../elsewhere.table", "shop/orders", 7])
def test_invalid_table_name_in_a_field_refuses_its_record_alone(lake: Lake, name: Any, tmp_path: Path) -> None:
    config = {
        "iceberg.tables": "",
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "to",
        "iceberg.tables.auto-create-enabled": "true",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with lake.sink(**config) as sink:
        sink.send(TOPIC, {"id": 1, "to": NAME})
        sink.send(TOPIC, {"id": 2, "to": name})
        settle(sink)
        assert sink.commit() == {PLACE: 2}
        (letter,) = sink.dead_letters()
    assert "is not the name of a table" in str(letter)
    assert [row["id"] for row in lake.rows()] == [1]
    assert not list(tmp_path.parent.glob("**/elsewhere*"))


def test_missing_table_is_named_before_and_after_the_start(lake: Lake) -> None:
    assert lake.check() == [("problem", f"table {NAME} does not exist")]
    assert "auto-create-enabled" in lake.findings()[0].change
    with lake.sink() as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        assert "does not exist" in str(fails(sink))
        assert sink.commit() in ({}, {PLACE: 0})
        lake.create(rows_of(9))
        sink.restart()
        sink.send(TOPIC, {"id": 2, "name": "n2"})
        settle(sink)
    assert [row["id"] for row in lake.rows()] == [1, 2, 9]


def test_store_that_is_away_fails_the_task_with_what_to_do(lake: Lake) -> None:
    away = {**lake.on_s3(AWAY), "iceberg.tables.auto-create-enabled": "true"}
    if isinstance(lake, IcebergLake):  # its catalog is on the disk, so the table itself has to be in the bucket
        away = {"iceberg.catalog.uri": "postgresql+psycopg://sink@127.0.0.1:1/lake", **away} | {
            "iceberg.catalog.uri": f"postgresql+psycopg://sink:{SECRET}@127.0.0.1:1/lake"
        }
    ((level, what),) = lake.check(**away)
    assert level == "problem"
    assert SECRET not in hidden_values.without_secrets(what)
    with lake.sink(**away) as sink:
        sink.send(TOPIC, {"id": 1})
        error = fails(sink)
        assert isinstance(error, ExternalError)
        assert "Nothing is lost: restart the task when the catalog is back" in str(error)
        assert sink.commit() in ({}, {PLACE: 0})


def test_wrong_credentials_fail_the_task_at_once_without_showing_the_secret(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with refusing_store() as endpoint:
        refused = {
            **lake.on_s3(endpoint),
            "iceberg.tables.auto-create-enabled": "true",
            "connectrt.table.retry.timeout.ms": "3600000",
        }
        with lake.sink(**refused) as sink:
            sink.send(TOPIC, {"id": 1})
            error = fails(sink)
    assert isinstance(error, ExternalError)
    assert "refuses" in str(error)
    assert "Check the credentials and permissions" in str(error)
    formatter = hidden_values.MaskingFormatter()
    assert not any(SECRET in formatter.format(record) for record in caplog.records)
    assert SECRET not in hidden_values.without_secrets(str(error))


def test_table_of_another_schema_is_noticed_by_its_key_and_by_each_record(lake: Lake) -> None:
    lake.create(rows_of(9))
    keyed = {**UPSERT, "iceberg.tables.default-id-columns": "number"}
    ((level, what),) = lake.check(**keyed)
    assert level == "problem"
    assert "has no column number" in what
    with lake.sink(**UPSERT, **{"iceberg.tables.default-id-columns": "number"}) as sink:
        sink.send(TOPIC, {"number": 1, "name": "n1"})
        error = fails(sink)
    assert "number" in str(error)
    with lake.sink() as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        sink.send(TOPIC, {"id": "one", "name": "n2"})
        error = fails(sink)
        assert isinstance(error, DataError)
        assert "field id" in str(error)
        assert sink.commit() in ({}, {PLACE: 0}, {PLACE: 1})
    assert [row["id"] for row in lake.rows() if row["id"] != 1] == [9]


def test_two_connectors_of_a_topic_and_a_table_are_noticed_by_the_second(lake: Lake) -> None:
    lake.create(rows_of(9))
    assert lake.check() == [("ok", f"table {NAME} can be loaded")]
    with lake.sink() as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        settle(sink)
    assert lake.check() == [("ok", f"table {NAME} can be loaded")]
    ((level, what),) = lake.check(name="other")
    assert level == "warning"
    assert "by connector lake-sink" in what
    assert lake.check(name="other", topics="elsewhere") == [("ok", f"table {NAME} can be loaded")]


def test_keys_that_are_missing_are_noticed_before_the_first_record(lake: Lake) -> None:
    created = {"iceberg.tables.auto-create-enabled": "true"}
    assert lake.check(**UPSERT, **created, **{"key.converter": STRINGS})[1] == (
        "problem",
        f"rows of table {NAME} have no key: keys of the StringConverter have no fields",
    )
    assert lake.check(**UPSERT, **created)[1][0] == "warning"
    assert [level for level, _ in lake.check(**UPSERT, **created, **{"iceberg.tables.default-id-columns": "id"})] == [
        "ok"
    ]
    with lake.sink(**UPSERT, **created) as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        error = fails(sink)
    assert isinstance(error, DataError)
    assert "key" in str(error)


def test_null_key_refuses_its_record_alone(lake: Lake) -> None:
    config = {
        **UPSERT,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.default-id-columns": "id",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
    }
    with lake.sink(**config) as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        sink.send(TOPIC, {"id": None, "name": "n2"})
        sink.send(TOPIC, {"name": "n3"})
        settle(sink)
        assert sink.commit() == {PLACE: 3}
        assert len(sink.dead_letters()) == 2
    assert [row["id"] for row in lake.rows()] == [1]


def test_row_of_another_writer_without_a_key_is_named(iceberg: IcebergLake) -> None:
    iceberg.create(rows_of(9, None))
    with iceberg.sink(**UPSERT, **{"iceberg.tables.default-id-columns": "id"}) as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        error = fails(sink)
    assert f"table {NAME}" in str(error)
    assert "id" in str(error)
    assert "null" in str(error)


def test_catalog_that_may_only_be_read_fails_the_task_and_changes_nothing(iceberg: IcebergLake) -> None:
    iceberg.create(rows_of(9))
    read_only = f"sqlite:///file:{iceberg.folder / 'catalog.db'}?mode=ro&uri=true"
    with iceberg.sink(**{"iceberg.catalog.uri": read_only}) as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        error = fails(sink)
        assert isinstance(error, ExternalError)
        assert "readonly database" in str(error)
        assert "Nothing is lost" in str(error)
    assert [row["id"] for row in iceberg.rows()] == [9]
    with iceberg.sink() as sink:
        sink.send(TOPIC, {"id": 1, "name": "n1"})
        settle(sink)
    assert [row["id"] for row in iceberg.rows()] == [1, 9]


def test_branch_that_is_missing_is_named_before_and_after_the_start(iceberg: IcebergLake) -> None:
    iceberg.create(rows_of(9))
    config = {"iceberg.tables.default-commit-branch": "audit"}
    ((level, what),) = iceberg.check(**config)
    assert (level, "branch audit does not exist" in what) == ("problem", True)
    with iceberg.sink(**config) as sink:
        sink.send(TOPIC, {"id": 1})
        assert "branch audit does not exist" in str(fails(sink))


@pytest.mark.parametrize("version", ["3", "4", "two"])
def test_format_without_a_writer_is_not_valid(iceberg: IcebergLake, version: str) -> None:
    name = "iceberg.tables.auto-create-props.format-version"
    assert "cannot write tables of version 3" in iceberg.problems(**{name: version})[name]
    assert iceberg.problems(**{name: "2"}) == {}
    assert name in iceberg.problems(**{name: "1"}, **UPSERT)


def test_table_of_format_3_is_refused_by_name(iceberg: IcebergLake) -> None:
    iceberg.create(rows_of(9))
    location = Path(iceberg.catalog().load_table(NAME).metadata_location.removeprefix("file://"))
    metadata = json.loads(location.read_text())
    for snapshot in metadata["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 1}
    location.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 1}))
    ((level, what),) = iceberg.check()
    assert (level, "format version 3 cannot be written" in what) == ("problem", True)
    with iceberg.sink() as sink:
        sink.send(TOPIC, {"id": 1})
        assert "Use a table of format version 2" in str(fails(sink))
