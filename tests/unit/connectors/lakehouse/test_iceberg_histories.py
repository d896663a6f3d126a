"""Random upserts and deletes in an Iceberg table: after each commit, two readers see exactly the rows of a dict.

Rows move between partitions of the table. The sink restarts, another writer compacts, deletes and overwrites, another
sink upserts the same keys, and the table is rolled back. The sink compacts and expires snapshots itself. Hashes of keys
are cut, so that different keys collide.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import ancestors_of

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.changes import DELETE, OP, TRUNCATE, UPSERT
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import compact, expire_snapshots
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.table_writer import TableCommitter, WriterParts
from tests.support.lakehouse_readers import duckdb_rows

NAME, PLACE = "shop.orders", TopicPartition("orders", 0)
SCHEMA = pa.schema(
    [pa.field("id", pa.string(), False), pa.field("region", pa.string()), pa.field("amount", pa.int64())]
)
CHANGES = pa.schema([pa.field(OP, pa.string()), *(field.with_nullable(True) for field in SCHEMA)])
COMMITS, BATCH, KEYS = 16, 120, 150
KINDS = (
    *("restart", "compact", "expire", "foreign delete", "foreign overwrite", "nothing"),
    *("other sink", "other sink", "rollback", "rollback"),
)


class History:
    """A table, its sink, and the dict that it has to equal."""

    def __init__(self, folder: Path, seed: int, partition_by: list[str]) -> None:
        self.random = random.Random(seed)
        self.catalog = RememberingSqlCatalog(
            "lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=(folder / "warehouse").as_uri()
        )
        self.store = IcebergTableStore(lambda: self.catalog, NAME, "sink", partition_by=partition_by)
        self.store.create(SCHEMA, ["id"])
        self.rows: dict[str, dict[str, Any]] = {}
        self.past: list[tuple[int, dict[str, dict[str, Any]]]] = []
        self.offset = 0
        self.truncates = 0
        self.start()
        other_store = IcebergTableStore(lambda: self.catalog, NAME, "other sink", partition_by=partition_by)
        self.other = TableCommitter(other_store, self.parts(), KeyedRows(NAME, ["id"], hash_bits=6))
        self.other_offset = self.other.resume({PLACE: 0}, {})[PLACE].start

    def start(self) -> None:
        self.index = KeyedRows(NAME, ["id"], hash_bits=6)
        self.writer = TableCommitter(self.store, self.parts(), self.index)
        decision = self.writer.resume({PLACE: 0}, {})[PLACE]
        assert decision.start == self.offset

    def parts(self) -> WriterParts:
        return WriterParts(
            lambda: 0, lambda: 0, lambda wait_ms: None, lambda: 0.0, lambda: f"{self.random.getrandbits(64):x}"
        )

    def upsert_as_other(self) -> None:
        keys = {f"k{self.random.randrange(KEYS)}" for _ in range(BATCH // 4)}
        batch = [{"id": key, "region": None, "amount": self.random.randrange(1000)} for key in sorted(keys)]
        self.rows |= {str(row["id"]): row for row in batch}
        offsets = np.arange(self.other_offset, self.other_offset + len(batch), dtype=np.int64)
        self.other_offset += len(batch)
        rows = pa.Table.from_pylist([{OP: UPSERT, **row} for row in batch], schema=CHANGES)
        self.other.add(PLACE, rows, offsets, self.other_offset)
        assert self.other.commit(1000).landed

    def change(self) -> None:
        batch = []
        for _ in range(BATCH):
            key = f"k{self.random.randrange(KEYS)}"
            if self.random.random() < 0.002:
                batch.append({OP: TRUNCATE})
                self.rows.clear()
                self.truncates += 1
            elif self.random.random() < 0.25:
                batch.append({OP: DELETE, "id": key})
                self.rows.pop(key, None)
            else:
                region = self.random.choice(["eu", "us", None])
                row: dict[str, Any] = {"id": key, "region": region, "amount": self.random.randrange(1000)}
                batch.append({OP: UPSERT, **row})
                self.rows[key] = row
        offsets = np.arange(self.offset, self.offset + BATCH, dtype=np.int64)
        self.offset += BATCH
        self.writer.add(PLACE, pa.Table.from_pylist(batch, schema=CHANGES), offsets, self.offset)
        assert self.writer.commit(1000).landed

    def disturb(self) -> str:
        """Do what another writer, an operator or a crash does."""
        kind = self.random.choice(KINDS)
        table = self.catalog.load_table(NAME)
        match kind:
            case "restart":
                self.writer.close()
                self.start()
            case "compact":
                compact(self.store, 1)
            case "expire":
                expire_snapshots(self.store, 2)
            case "foreign delete":  # pyiceberg rewrites the files
                table.delete("amount < 100")
                self.rows = {key: row for key, row in self.rows.items() if row["amount"] >= 100}
            case "foreign overwrite":
                table.overwrite(table.scan().to_arrow().cast(SCHEMA))
            case "other sink":
                self.upsert_as_other()
            case "rollback" if len(self.past) > 1:
                snapshot, rows = self.past[-2]
                table.manage_snapshots().rollback_to_snapshot(snapshot).commit()
                self.rows = dict(rows)
        return kind

    def check(self, after: str) -> None:
        table = self.catalog.load_table(NAME)
        head = table.metadata.current_snapshot_id
        assert head is not None
        history = {entry.snapshot_id for entry in ancestors_of(table.current_snapshot(), table.metadata)}
        self.past = [(at, rows) for at, rows in self.past if at in history and at != head] + [(head, dict(self.rows))]
        found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(row["id"]))
        assert found == sorted(self.rows.values(), key=lambda row: str(row["id"])), after
        assert duckdb_rows(table.metadata_location, "id") == found, after


@pytest.mark.parametrize(
    ("seed", "partition_by"), [(1, []), (2, ["region"]), (3, ["bucket(3, id)"]), (4, ["region", "truncate(2, id)"])]
)
def test_table_equals_a_dict_after_each_commit(tmp_path: Path, seed: int, partition_by: list[str]) -> None:
    history = History(tmp_path, seed, partition_by)
    kinds = set()
    for _ in range(COMMITS):
        history.change()
        history.check("a commit")
        kinds.add(kind := history.disturb())
        history.check(kind)
    assert len(kinds) >= 5, kinds
    assert history.truncates >= 1
    stored = history.store.load()
    assert stored is not None
    assert stored.offsets[PLACE].end == COMMITS * BATCH
