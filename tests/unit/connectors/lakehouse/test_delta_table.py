"""Delta tables keep the contract of the port, and changes by key are one merge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_connect_rt.connectors.lakehouse.changes import OP
from spark_connect_rt.connectors.lakehouse.delta_table import DeltaTableStore
from spark_connect_rt.connectors.lakehouse.table_port import Committed, LostRace, StoredOffset, TableStore
from spark_connect_rt.connectors.lakehouse.table_schema import Evolution, WidenColumn
from spark_connect_rt.errors import ExternalError
from tests.contract.table_store_contract import OTHER, PLACE, SCHEMA, TableStoreContract, new_commit, rows_of


class TestDeltaTable(TableStoreContract):
    names_keys = False

    @pytest.fixture(autouse=True)
    def made(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "orders")

    def new_store(self, connector: str = "sink") -> TableStore:
        return DeltaTableStore(self.path, connector)

    def read_rows(self) -> list[dict[str, Any]]:
        return sorted(DeltaTable(self.path).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])

    def append_foreign(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def test_dead_rows_disappear_and_are_listed(self, store: TableStore) -> None:
        """Delta's rows are deleted by key: positions are refused."""
        (path,) = self.append(store, rows_of(1, 2))
        with pytest.raises(ExternalError, match="by key"):
            self.loaded(store).commit(new_commit(dead_rows={path: [0]}))
        assert self.loaded(store).deletes() == frozenset()

    def test_changes_by_key_are_merged_with_their_offsets(self, store: TableStore) -> None:
        self.append(store, rows_of(1, 2, 3), {PLACE: StoredOffset(3)})
        keyed = DeltaTableStore(self.path, "sink", keys=["id"])
        loaded = self.loaded(keyed)
        assert loaded.write(rows_of(2)) == []
        changes = pa.table(
            {
                OP: ["u", "d", "u", "d"],
                "id": pa.array([2, 3, 4, 99], pa.int64()),
                "name": ["new", None, "n4", None],
            }
        )
        commit = new_commit(changes=changes, offsets={PLACE: StoredOffset(7, commits=("c",))})
        assert isinstance(loaded.commit(commit), Committed)
        expected = [{"id": 1, "name": "n1"}, {"id": 2, "name": "new"}, {"id": 4, "name": "n4"}]
        assert self.read_rows() == expected
        assert self.loaded(keyed).offsets == {PLACE: StoredOffset(7, commits=("c",))}
        assert isinstance(loaded.commit(commit), LostRace)  # a zombie with the same version
        assert self.read_rows() == expected

    def test_upserts_behind_a_truncate_are_all_rows(self, store: TableStore) -> None:
        self.append(store, rows_of(1, 2, 3))
        keyed = DeltaTableStore(self.path, "sink", keys=["id"])
        changes = pa.table({OP: ["u", "d"], "id": pa.array([2, 7], pa.int64()), "name": ["new", None]})
        commit = new_commit(changes=changes, truncates=True, offsets={PLACE: StoredOffset(6)})
        assert isinstance(self.loaded(keyed).commit(commit), Committed)
        assert self.read_rows() == [{"id": 2, "name": "new"}]
        assert self.loaded(keyed).offsets == {PLACE: StoredOffset(6)}

    def test_merge_loses_against_an_append_of_other_rows(self, store: TableStore) -> None:
        self.append(store, rows_of(1))
        keyed = DeltaTableStore(self.path, "sink", keys=["id"])
        loaded = self.loaded(keyed)
        self.append_foreign(rows_of(50))
        changes = pa.table({OP: ["u"], "id": pa.array([2], pa.int64()), "name": ["x"]})
        assert isinstance(loaded.commit(new_commit(changes=changes)), LostRace)
        assert [row["id"] for row in self.read_rows()] == [1, 50]

    def test_offsets_outlive_checkpoints_and_cleaned_logs(self, store: TableStore) -> None:
        self.append(store, rows_of(1), {PLACE: StoredOffset(1, "T", ("a",), ((0, 0, 5),))})
        self.append(store, rows_of(2), {OTHER: StoredOffset(2)})
        table = DeltaTable(self.path)
        table.create_checkpoint()
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        for log in sorted(Path(self.path, "_delta_log").glob("*.json"))[:2]:
            log.unlink()
        assert self.loaded(store).offsets == {PLACE: StoredOffset(1, "T", ("a",), ((0, 0, 5),)), OTHER: StoredOffset(2)}
        assert len(list(Path(self.path, "_connectrt").iterdir())) == 1  # older ones are removed

    def test_partitions_have_their_own_files(self, tmp_path: Path) -> None:
        store = DeltaTableStore(str(tmp_path / "parts"), "sink", partition_by=["name"])
        store.create(SCHEMA, [])
        loaded = self.loaded(store)
        rows = pa.table({"id": [1, 2, 3, 4], "name": ["a/b", None, "a/b", "\u00e4 %"]}, schema=SCHEMA)
        files = loaded.write(rows)
        assert sorted(new.source_rows.tolist() for new in files) == [[0, 2], [1], [3]]
        assert isinstance(loaded.commit(new_commit(files=files)), Committed)
        found = DeltaTable(store.name).to_pyarrow_table().to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == rows.to_pylist()

    def test_wider_types_are_refused(self, store: TableStore) -> None:
        widen = Evolution(SCHEMA, widen=(WidenColumn("id", pa.int32(), pa.int64()),))
        with pytest.raises(ExternalError, match="id to int64"):
            store.evolve(self.loaded(store), widen)

    def test_required_columns_become_optional(self, store: TableStore) -> None:
        relaxed = pa.schema([field.with_nullable(True) for field in SCHEMA])
        store.evolve(self.loaded(store), Evolution(relaxed, relax=("id",)))
        assert self.loaded(store).schema.field("id").nullable
