"""Random histories of a table sink: rows appended or upserted, columns and nested fields added, partitions changed.

The history knows which rows the table must have, so that any number of readers can be compared with it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkConnector
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import compact
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.support.lakehouse_readers import duckdb_session

TOPIC, KEYS = "changes", 80
Rows = list[str]


def normal(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Return rows as sorted JSON without nulls, because engines differ in how they show these."""
    return sorted(json.dumps(_without_nulls(row), sort_keys=True, ensure_ascii=False) for row in rows)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(part) for part in value]
    return value


class TableHistory:
    """A topic, a sink of it, and the rows that its table must have. A subclass knows the format."""

    def __init__(self, folder: Path, seed: int, *, upsert: bool, partition_by: str = "") -> None:
        """Take an empty folder. ``partition_by``: as in `iceberg.tables.default-partition-by`."""
        self.folder, self.random = folder, random.Random(seed)
        self.upsert, self.partition_by = upsert, partition_by
        self.rows: dict[str, dict[str, Any]] = {}
        self.number = 0
        self.step = 0
        self._sink: SinkHarness | None = None

    def config(self) -> dict[str, str]:
        """Return the configuration of the sink, without its format."""
        return {
            "name": "history",
            "topics": TOPIC,
            "iceberg.tables": "shop.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.default-partition-by": self.partition_by,
            "iceberg.tables.upsert-mode-enabled": str(self.upsert).lower(),
            "iceberg.control.commit.interval-ms": "1",
        }

    def harness(self) -> SinkHarness:
        """Return a harness of the sink."""
        raise NotImplementedError

    def disturb(self) -> None:
        """Do what another writer does between two steps."""

    def expected(self) -> Rows:
        """Return the rows that every reader must see."""
        return normal(self.rows.values())

    def run(self, steps: int, changes: int, check: Callable[[], None]) -> None:
        """Send ``steps`` batches of ``changes``, and call ``check`` after the commit of each. May be called again."""
        self._sink = self._sink or self.harness()
        with self._sink as sink:
            for _ in range(steps):
                for _ in range(changes):
                    self._change(sink)
                _settle(sink)
                check()
                self.disturb()
                if self.random.random() < 0.3:
                    sink.restart()
                self.step += 1

    def _change(self, sink: SinkHarness) -> None:
        self.number += 1
        key = f"k{self.random.randrange(KEYS)}" if self.upsert else f"k{self.number}"
        if self.upsert and self.random.random() < 0.2:
            sink.send(TOPIC, None, key={"id": key})
            self.rows.pop(key, None)
            return
        row: dict[str, Any] = {
            "id": key,
            "region": self.random.choice(["eu", "us", None]),
            "amount": self.random.randrange(1000),
            "address": {"city": self.random.choice(["Bern", "Köln"])},
        }
        if self.step >= 2:  # columns and nested fields come later
            row["note"] = self.random.choice(["x", None])
            row["address"]["zip"] = self.random.randrange(10_000)
        if self.step >= 3:
            # pyiceberg 0.12 reads a null list as an empty one once its elements have got a field. So no list is empty,
            # and empty lists of pyiceberg are taken for null.
            row["lines"] = [{"sku": "a", "n": number} for number in range(self.random.randrange(1, 3))]
        if self.step >= 4:
            for line in row["lines"]:
                line["price"] = 0.5
        sink.send(TOPIC, row, key={"id": key})
        self.rows[key] = row


def _settle(sink: SinkHarness) -> None:
    task: Any = sink.task
    for _ in range(10_000):
        assert sink.deliver()
        if not any(table.writer.waiting_rows for table in task._tables.values()):
            return
    raise AssertionError("rows wait for their commit")


class IcebergHistory(TableHistory):
    """A history of an Iceberg table in a SQLite catalog. Its partition spec changes, and it is compacted."""

    def harness(self) -> SinkHarness:
        """Return a harness of the Iceberg sink."""
        return SinkHarness(IcebergSinkConnector, {**self.config(), **self._catalog("iceberg.catalog.")})

    def _catalog(self, prefix: str = "") -> dict[str, str]:
        return {
            f"{prefix}type": "sql",
            f"{prefix}uri": f"sqlite:///{self.folder / 'catalog.db'}",
            f"{prefix}warehouse": (self.folder / "warehouse").as_uri(),
        }

    def catalog(self) -> RememberingSqlCatalog:
        """Return the catalog, as another writer opens it."""
        return RememberingSqlCatalog("iceberg", **self._catalog())

    def disturb(self) -> None:
        """Change the partition spec once, and compact now and then."""
        if self.step == 3 and self.partition_by:
            with self.catalog().load_table("shop.orders").update_spec() as update:
                update.add_field("amount", "truncate[500]", "amount_part")
        if self.random.random() < 0.3:
            compact(IcebergTableStore(self.catalog, "shop.orders", "history"), 3)

    @property
    def metadata(self) -> str:
        """The path of the newest metadata file, which engines can read without the catalog."""
        return self.catalog().load_table("shop.orders").metadata_location.removeprefix("file://")

    def by_pyiceberg(self) -> Rows:
        """Return the rows that pyiceberg reads."""
        rows = self.catalog().load_table("shop.orders").scan().to_arrow().to_pylist()
        return normal({name: None if value == [] else value for name, value in row.items()} for row in rows)

    def by_duckdb(self) -> Rows:
        """Return the rows that DuckDB reads."""
        session = duckdb_session("avro", "iceberg")
        return normal(session.sql(f"from iceberg_scan('{self.metadata}')").to_arrow_table().to_pylist())


class DeltaHistory(TableHistory):
    """A history of a Delta table in a folder, which is optimized now and then."""

    def harness(self) -> SinkHarness:
        """Return a harness of the Delta sink."""
        return SinkHarness(DeltaSinkConnector, {**self.config(), "delta.root": str(self.folder)})

    @property
    def path(self) -> str:
        """The folder of the table."""
        return str(self.folder / "shop" / "orders")

    def disturb(self) -> None:
        """Compact, and write a checkpoint, as another writer does."""
        if self.random.random() < 0.3:
            table = DeltaTable(self.path)
            table.optimize.compact()
            table.create_checkpoint()

    def by_delta_rs(self) -> Rows:
        """Return the rows that delta-rs reads."""
        found = QueryBuilder().register("t", DeltaTable(self.path)).execute("select * from t").read_all()
        return normal(pa.table(found).to_pylist())

    def by_duckdb(self) -> Rows:
        """Return the rows that DuckDB reads."""
        session = duckdb_session("delta")
        return normal(session.sql(f"from delta_scan('{self.path}')").to_arrow_table().to_pylist())
