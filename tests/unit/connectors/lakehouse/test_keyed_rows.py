"""An index of keys reads what other writers added, and nothing else. It notices rows that live again."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.changes import OP, UPSERT
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.table_port import TableStore
from spark_connect_rt.connectors.lakehouse.table_writer import TableCommitter, WriterParts
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore

NAME = "shop.orders"
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string())])
CHANGES = pa.schema([pa.field(OP, pa.string()), *(column.with_nullable(True) for column in SCHEMA)])
KEYS = range(10)


class Writer:
    """A task that upserts the same keys with each commit."""

    def __init__(self, store: TableStore, partition: int, name: str) -> None:
        ids = itertools.count()
        self.index = KeyedRows(NAME, ["id"])
        parts = WriterParts(lambda: 0, lambda: 0, lambda wait_ms: None, lambda: 0.0, lambda: f"{name}-{next(ids)}")
        self._place, self._offset = TopicPartition("orders", partition), 0
        self._committer = TableCommitter(store, parts, self.index)
        self._committer.resume({self._place: 0}, {})

    def upsert(self, name: str) -> None:
        columns = [[UPSERT] * len(KEYS), list(KEYS), [name] * len(KEYS)]
        offsets = np.arange(self._offset, self._offset + len(KEYS), dtype=np.int64)
        self._offset += len(KEYS)
        self._committer.add(self._place, pa.table(columns, schema=CHANGES), offsets, self._offset)
        assert self._committer.commit(1000).landed


def in_turns(new_store: Callable[[], TableStore], rounds: int) -> list[Writer]:
    new_store().create(SCHEMA, ["id"])
    writers = [Writer(new_store(), partition, f"writer{partition}") for partition in (0, 1)]
    for number in range(rounds):
        writers[number % 2].upsert(f"name {number}")
    return writers


def test_each_delete_is_read_by_the_other_writer_and_once() -> None:
    table = MemoryTable(NAME)
    writers = in_turns(lambda: MemoryTableStore(table), 20)
    reads = Counter(table.read_deletes)
    assert set(reads.values()) == {1}
    assert len(reads) >= 16
    assert [writer.index.builds for writer in writers] == [2, 1]
    assert table.rows()["name"].to_pylist() == ["name 19"] * len(KEYS)


def test_manifests_are_read_once(tmp_path: Path) -> None:
    def new_store() -> IcebergTableStore:
        def open_catalog() -> RememberingSqlCatalog:
            return RememberingSqlCatalog(
                "lake", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse=(tmp_path / "w").as_uri()
            )

        stores.append(IcebergTableStore(open_catalog, NAME, "sink"))
        return stores[-1]

    stores: list[IcebergTableStore] = []
    in_turns(new_store, 20)
    # Of each commit, one manifest of data and one of deletes are new to either writer.
    assert [store.manifests.reads <= 2 * 20 for store in stores] == [True] * 3
    assert [store.manifests.reads >= 20 for store in stores[1:]] == [True] * 2
    loaded = stores[0].load()
    assert loaded is not None
    assert loaded.table.scan().to_arrow()["name"].to_pylist() == ["name 19"] * len(KEYS)


@pytest.mark.parametrize("fault", [None, "lost"])
def test_rows_that_live_again_after_a_rollback_are_replaced(fault: str | None) -> None:
    table = MemoryTable(NAME)
    (writer, _) = in_turns(lambda: MemoryTableStore(table), 1)
    faults = iter([fault])
    table.on_commit = lambda commit: next(faults, None)
    writer.upsert("lost by the rollback")
    table.roll_back(1)
    assert table.rows()["name"].to_pylist() == ["name 0"] * len(KEYS)
    writer.upsert("new")
    assert table.rows()["name"].to_pylist() == ["new"] * len(KEYS)
