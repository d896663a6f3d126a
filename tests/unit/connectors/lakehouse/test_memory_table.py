"""The table in memory keeps the contract of the port, and its faults are what they say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.connectors.lakehouse.table_port import TableStore, UnknownOutcome
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore
from tests.contract.table_store_contract import TableStoreContract, new_commit, rows_of


class TestMemoryTable(TableStoreContract):
    @pytest.fixture(autouse=True)
    def made(self) -> None:
        self.table = MemoryTable()

    def new_store(self, connector: str = "sink") -> TableStore:
        return MemoryTableStore(self.table, connector)

    def read_rows(self) -> list[dict[str, Any]]:
        return sorted(self.table.rows().to_pylist(), key=lambda row: row["id"])

    def append_foreign(self, rows: pa.Table) -> None:
        self.table.append_foreign(rows)

    @pytest.mark.parametrize(("fault", "ids"), [("lost", [1]), ("never", [])])
    def test_a_lost_answer_leaves_the_outcome_open(self, fault: str, ids: list[int], store: TableStore) -> None:
        self.table.on_commit = lambda commit: fault
        loaded = self.loaded(store)
        assert isinstance(loaded.commit(new_commit(files=loaded.write(rows_of(1)))), UnknownOutcome)
        assert [row["id"] for row in self.read_rows()] == ids
