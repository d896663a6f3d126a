"""The SQL catalog that remembers metadata: always the newest state, and nothing is read twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import IcebergTables
from pyiceberg.serializers import FromInputFile
from sqlalchemy import select
from sqlalchemy.orm import Session

from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore, open_store
from spark_connect_rt.connectors.lakehouse.table_port import Committed, LoadedTable, LostRace, TableCommit

SCHEMA = pa.schema([pa.field("id", pa.int64())])


@pytest.fixture
def stores(tmp_path: Path) -> tuple[IcebergTableStore, IcebergTableStore]:
    """Return two stores of one table, each with its own catalog, as two workers have."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}
    first, second = (open_store("lake", properties, "shop.orders", name) for name in ("first", "second"))
    first.create(SCHEMA, ())
    return first, second


@pytest.fixture
def count_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    reads = []
    read = FromInputFile.table_metadata

    def counted(*arguments: object) -> object:
        reads.append(arguments)
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FromInputFile, "table_metadata", staticmethod(counted))
    return lambda: len(reads)


def loaded_of(store: IcebergTableStore) -> LoadedTable:
    loaded = store.load()
    assert loaded is not None
    return loaded


def append(store: IcebergTableStore, number: int) -> None:
    loaded = loaded_of(store)
    files = loaded.write(pa.table({"id": [number]}, schema=SCHEMA))
    assert isinstance(loaded.commit(TableCommit(f"c{number}", files=files)), Committed)


def test_sql_catalogs_remember_metadata(stores: tuple[IcebergTableStore, IcebergTableStore]) -> None:
    assert isinstance(stores[0].catalog, RememberingSqlCatalog)


def test_rows_that_were_not_fetched_do_not_lock_sqlite(
    stores: tuple[IcebergTableStore, IcebergTableStore], tmp_path: Path
) -> None:
    """A row that is left locks SQLite's file until Python deletes the statement, which `kept` prevents."""
    catalog = stores[0].catalog
    assert isinstance(catalog, RememberingSqlCatalog)
    with Session(catalog.engine) as session:
        kept = session.execute(select(IcebergTables))
    with closing(sqlite3.connect(tmp_path / "catalog.db", timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
    del kept


def test_opening_a_catalog_does_not_lock_sqlite(
    stores: tuple[IcebergTableStore, IcebergTableStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg asks for one row of each table and fetches none."""
    kept = []
    execute = Session.execute

    def keeping(session: Session, *arguments: Any, **options: Any) -> Any:
        kept.append(execute(session, *arguments, **options))
        return kept[-1]

    monkeypatch.setattr(Session, "execute", keeping)
    RememberingSqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=tmp_path.as_uri())
    assert kept
    with closing(sqlite3.connect(tmp_path / "catalog.db", timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")


def test_a_catalog_in_memory_keeps_its_tables(tmp_path: Path) -> None:
    catalog = RememberingSqlCatalog("lake", uri="sqlite:///:memory:", warehouse=tmp_path.as_uri())
    catalog.create_namespace("shop")
    assert catalog.namespace_exists("shop")


def test_own_commits_read_no_metadata_file(
    stores: tuple[IcebergTableStore, IcebergTableStore], count_reads: Callable[[], int]
) -> None:
    store = stores[0]
    append(store, 1)
    before = count_reads()
    for number in range(2, 6):
        append(store, number)
    assert count_reads() == before
    assert sum(file.rows for file in loaded_of(store).live_files().values()) == 5


def test_commit_of_another_catalog_is_seen(
    stores: tuple[IcebergTableStore, IcebergTableStore], count_reads: Callable[[], int]
) -> None:
    first, second = stores
    append(first, 1)
    append(second, 2)
    before = count_reads()
    loaded = loaded_of(first)
    assert sum(file.rows for file in loaded.live_files().values()) == 2
    assert loaded.snapshot == loaded_of(second).snapshot
    assert count_reads() == before + 1


def test_loaded_state_does_not_change_with_later_commits(stores: tuple[IcebergTableStore, IcebergTableStore]) -> None:
    store = stores[0]
    append(store, 1)
    loaded = loaded_of(store)
    snapshot, rows = loaded.snapshot, loaded.live_files()
    append(store, 2)
    append(stores[1], 3)
    assert loaded.snapshot == snapshot
    assert loaded.live_files() == rows
    assert isinstance(loaded.commit(TableCommit("late")), LostRace)


def test_remembered_metadata_equals_the_file(stores: tuple[IcebergTableStore, IcebergTableStore]) -> None:
    first, second = stores
    for number in range(3):
        append(first, number)
    remembered, read = first.catalog.load_table(first.name), second.catalog.load_table(second.name)
    assert remembered.metadata_location == read.metadata_location
    assert remembered.metadata.model_dump_json() == read.metadata.model_dump_json()
