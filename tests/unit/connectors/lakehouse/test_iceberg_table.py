"""Iceberg tables of a SQLite catalog keep the contract of the port, read back by pyiceberg and by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
from spark_connect_rt.connectors.lakehouse.table_port import TableStore
from tests.contract.table_store_contract import TableStoreContract
from tests.support.lakehouse_readers import duckdb_rows

NAME = "shop.orders"


class TestIcebergTable(TableStoreContract):
    @pytest.fixture(autouse=True)
    def made(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def catalog(self) -> RememberingSqlCatalog:
        return RememberingSqlCatalog(
            "lake", uri=f"sqlite:///{self.folder / 'catalog.db'}", warehouse=(self.folder / "warehouse").as_uri()
        )

    def new_store(self, connector: str = "sink") -> TableStore:
        return IcebergTableStore(self.catalog, NAME, connector)

    def read_rows(self) -> list[dict[str, Any]]:
        table = self.catalog().load_table(NAME)
        rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        if table.metadata.current_snapshot_id is not None:
            assert duckdb_rows(table.metadata_location, order_by="id") == rows
        return rows

    def append_foreign(self, rows: pa.Table) -> None:
        self.catalog().load_table(NAME).append(rows)
