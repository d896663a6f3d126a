"""The promises of every TableStore, as tests that its test classes inherit (tests/unit/connectors/lakehouse)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.commit_parts import PART_SUFFIX
from spark_connect_rt.connectors.lakehouse.table_port import (
    Committed,
    LoadedTable,
    LostRace,
    Positions,
    StoredOffset,
    TableCommit,
    TableStore,
    dead_rows_by_file,
)
from spark_connect_rt.connectors.lakehouse.table_schema import AddColumn, Evolution

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string())])
PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders.eu-1", 12)


def rows_of(*ids: int, name: str = "n") -> pa.Table:
    return pa.table({"id": ids, "name": [f"{name}{number}" for number in ids]}, schema=SCHEMA)


def new_commit(**fields: Any) -> TableCommit:
    return TableCommit(uuid.uuid4().hex[:12], **fields)


def dead_of(loaded: LoadedTable, deletes: Collection[str]) -> Mapping[str, Positions]:
    return dead_rows_by_file(loaded.dead_rows(deletes))


class TableStoreContract:
    """The subclass makes stores of one table, and reads that table in another way than the port."""

    names_keys = True
    """Whether tables of this format name their key columns."""

    def new_store(self, connector: str = "sink") -> TableStore:
        raise NotImplementedError

    def read_rows(self) -> list[dict[str, Any]]:
        """Return the rows that readers see, sorted by id."""
        raise NotImplementedError

    def append_foreign(self, rows: pa.Table) -> None:
        """Append rows as another writer."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> TableStore:
        store = self.new_store()
        store.create(SCHEMA, ["id"])
        return store

    def loaded(self, store: TableStore) -> LoadedTable:
        loaded = store.load()
        assert loaded is not None
        return loaded

    def append(
        self, store: TableStore, rows: pa.Table, offsets: Mapping[TopicPartition, StoredOffset] | None = None
    ) -> Sequence[str]:
        loaded = self.loaded(store)
        files = loaded.write(rows)
        assert isinstance(loaded.commit(new_commit(files=files, offsets=offsets or {})), Committed)
        return [new.path for new in files]

    def test_missing_table_is_not_loaded_until_it_is_created(self) -> None:
        store = self.new_store()
        assert store.load() is None
        store.create(SCHEMA, ["id"])
        store.create(SCHEMA, ["id"])
        loaded = self.loaded(store)
        assert loaded.schema.names == ["id", "name"]
        assert not loaded.schema.field("id").nullable
        assert loaded.schema.field("name").nullable
        assert loaded.snapshot is None
        assert not loaded.live_files()
        assert not loaded.offsets

    def test_key_columns_are_those_that_the_table_names(self, store: TableStore) -> None:
        assert self.loaded(store).key_columns == (("id",) if self.names_keys else ())

    def test_rows_and_offsets_become_visible_together(self, store: TableStore) -> None:
        loaded = self.loaded(store)
        stored = {
            PLACE: StoredOffset(3, "T", ("c0", "c1"), ((0, 2, 1700000000000), (3, 3, 1700000000001))),
            OTHER: StoredOffset(7),
        }
        files = loaded.write(rows_of(1, 2, 3))
        assert self.read_rows() == []
        result = loaded.commit(new_commit(files=files, offsets=stored))
        assert isinstance(result, Committed)
        assert self.read_rows() == rows_of(1, 2, 3).to_pylist()
        after = self.loaded(store)
        assert after.offsets == stored
        assert after.snapshot == result.snapshot
        assert after.table_id == loaded.table_id
        assert set(after.live_files()) == {new.path for new in files}
        assert sum(file.rows for file in after.live_files().values()) == 3

    def test_other_connectors_have_other_offsets(self, store: TableStore) -> None:
        self.append(store, rows_of(1), {PLACE: StoredOffset(5, commits=("a",))})
        other = self.new_store("sink.two")
        assert not self.loaded(other).offsets
        self.append(other, rows_of(2), {PLACE: StoredOffset(9, commits=("b",))})
        assert self.loaded(store).offsets[PLACE].end == 5
        assert self.loaded(other).offsets[PLACE].end == 9

    def test_offsets_that_a_commit_does_not_name_stay_and_forgotten_ones_go(self, store: TableStore) -> None:
        self.append(store, rows_of(1), {PLACE: StoredOffset(1), OTHER: StoredOffset(2)})
        loaded = self.loaded(store)
        assert isinstance(loaded.commit(new_commit(forgotten=[PLACE])), Committed)
        assert self.loaded(store).offsets == {OTHER: StoredOffset(2)}
        assert self.loaded(store).snapshot != loaded.snapshot  # so that a commit on the older state loses

    def test_commit_on_an_older_state_changes_nothing(self, store: TableStore) -> None:
        zombie = self.loaded(store)
        files = zombie.write(rows_of(100))
        self.append(store, rows_of(1), {PLACE: StoredOffset(1)})
        self.append(store, rows_of(2), {PLACE: StoredOffset(2)})
        assert isinstance(zombie.commit(new_commit(files=files, offsets={PLACE: StoredOffset(1)})), LostRace)
        assert self.read_rows() == rows_of(1, 2).to_pylist()
        assert self.loaded(store).offsets == {PLACE: StoredOffset(2)}

    def test_first_commits_of_two_writers_race(self, store: TableStore) -> None:
        loser = self.loaded(store)
        self.append(store, rows_of(1))
        assert isinstance(loser.commit(new_commit(files=loser.write(rows_of(2)))), LostRace)
        assert self.read_rows() == rows_of(1).to_pylist()

    def test_foreign_append_keeps_the_offsets_and_is_noticed(self, store: TableStore) -> None:
        self.append(store, rows_of(1), {PLACE: StoredOffset(1)})
        before = self.loaded(store)
        self.append_foreign(rows_of(50))
        assert self.loaded(store).offsets == {PLACE: StoredOffset(1)}
        assert isinstance(before.commit(new_commit(files=before.write(rows_of(2)))), LostRace)
        assert self.read_rows() == rows_of(1, 50).to_pylist()

    def test_same_files_can_be_committed_after_a_lost_race(self, store: TableStore) -> None:
        loser = self.loaded(store)
        files = loser.write(rows_of(2))
        self.append(store, rows_of(1))
        assert isinstance(loser.commit(new_commit(files=files)), LostRace)
        assert isinstance(self.loaded(store).commit(new_commit(files=files)), Committed)
        assert self.read_rows() == rows_of(1, 2).to_pylist()

    def test_files_of_another_process_are_committed_by_their_description(self, store: TableStore) -> None:
        packed = orjson.dumps([self.loaded(store).pack(new) for new in self.loaded(store).write(rows_of(1, 2))])
        committing = self.loaded(self.new_store())
        files = [committing.unpack(fields) for fields in orjson.loads(packed)]
        files += committing.write(rows_of(3))
        assert sum(new.rows for new in files) == 3
        assert isinstance(committing.commit(new_commit(files=files, offsets={PLACE: StoredOffset(3)})), Committed)
        assert self.read_rows() == rows_of(1, 2, 3).to_pylist()
        assert sum(file.rows for file in self.loaded(store).live_files().values()) == 3

    def test_parts_are_seen_by_other_stores_of_the_connector_only(self, store: TableStore) -> None:
        folder, other = self.loaded(store).parts(), self.loaded(self.new_store()).parts()
        assert folder.names() == other.names() == []
        folder.write(f"b{PART_SUFFIX}", b"2")
        other.write(f"a{PART_SUFFIX}", b"1")
        assert folder.names() == other.names() == [f"a{PART_SUFFIX}", f"b{PART_SUFFIX}"]
        assert other.read(f"b{PART_SUFFIX}") == b"2"
        assert self.loaded(self.new_store("sink/two")).parts().names() == []
        other.remove([f"b{PART_SUFFIX}", f"gone{PART_SUFFIX}"])
        assert folder.read(f"b{PART_SUFFIX}") is None
        assert folder.names() == [f"a{PART_SUFFIX}"]
        self.append(store, rows_of(1), {PLACE: StoredOffset(1)})
        assert self.loaded(store).offsets == {PLACE: StoredOffset(1)}

    def test_dead_rows_disappear_and_are_listed(self, store: TableStore) -> None:
        first = self.append(store, rows_of(1, 2, 3, 4))[0]
        second = self.append(store, rows_of(5, 6))[0]
        loaded = self.loaded(store)
        dead = {first: np.array([1, 3], np.int64), second: np.array([0], np.int64)}
        files = loaded.write(rows_of(2, name="new"))
        assert isinstance(loaded.commit(new_commit(files=files, dead_rows=dead)), Committed)
        expected = [*rows_of(1).to_pylist(), *rows_of(2, name="new").to_pylist(), *rows_of(3, 6).to_pylist()]
        assert self.read_rows() == expected
        after = self.loaded(store)
        deletes = after.deletes()
        assert len(deletes) == 1
        assert {path: rows.tolist() for path, rows in dead_of(after, deletes).items()} == {first: [1, 3], second: [0]}
        more = {first: np.array([0], np.int64)}
        assert isinstance(after.commit(new_commit(dead_rows=more)), Committed)
        last = self.loaded(store)
        assert dead_of(last, last.deletes())[first].tolist() == [0, 1, 3]
        assert {path: rows.tolist() for path, rows in dead_of(last, last.deletes() - deletes).items()} == {first: [0]}
        assert dead_of(last, []) == {}
        assert [row["id"] for row in self.read_rows()] == [2, 3, 6]

    def test_truncate_removes_all_rows_in_the_commit_of_the_new_ones(self, store: TableStore) -> None:
        self.append(store, rows_of(1, 2), {PLACE: StoredOffset(2), OTHER: StoredOffset(9)})
        self.append_foreign(rows_of(50))
        loaded = self.loaded(store)
        commit = new_commit(files=loaded.write(rows_of(2, 3)), truncates=True, offsets={PLACE: StoredOffset(5)})
        assert [row["id"] for row in self.read_rows()] == [1, 2, 50]
        assert isinstance(loaded.commit(commit), Committed)
        assert self.read_rows() == rows_of(2, 3).to_pylist()
        after = self.loaded(store)
        assert after.offsets == {PLACE: StoredOffset(5), OTHER: StoredOffset(9)}
        assert set(after.live_files()) == {new.path for new in commit.files}
        assert isinstance(after.commit(new_commit(truncates=True)), Committed)
        assert self.read_rows() == []
        assert isinstance(self.loaded(store).commit(new_commit(truncates=True)), Committed)  # of an empty table
        assert self.read_rows() == []

    def test_truncate_on_an_older_state_changes_nothing(self, store: TableStore) -> None:
        self.append(store, rows_of(1))
        loaded = self.loaded(store)
        self.append_foreign(rows_of(50))
        assert isinstance(loaded.commit(new_commit(truncates=True)), LostRace)
        assert [row["id"] for row in self.read_rows()] == [1, 50]

    def test_columns_are_read_in_the_order_of_the_rows(self, store: TableStore) -> None:
        paths = self.append(store, rows_of(3, 1, 2))
        loaded = self.loaded(store)
        assert [new.source_rows.tolist() for new in loaded.write(rows_of(9, 8))] == [[0, 1]]
        assert pa.Table.from_batches(loaded.read(paths[0], ["id"])).to_pydict() == {"id": [3, 1, 2]}

    def test_columns_are_added_for_old_and_new_rows(self, store: TableStore) -> None:
        self.append(store, rows_of(1))
        wider = SCHEMA.append(pa.field("note", pa.string()))
        evolution = Evolution(wider, (AddColumn("note", pa.string()),))
        store.evolve(self.loaded(store), evolution)
        store.evolve(self.loaded(store), evolution)
        assert self.loaded(store).schema.names == ["id", "name", "note"]
        self.append(store, pa.table([[2], ["n2"], ["x"]], schema=wider))
        assert [row.get("note") for row in self.read_rows()] == [None, "x"]

    def test_discarded_files_are_gone_and_may_be_discarded_again(self, store: TableStore) -> None:
        loaded = self.loaded(store)
        paths = [new.path for new in loaded.write(rows_of(1))]
        store.discard(paths)
        store.discard(paths)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each file system has its own error
            list(loaded.read(paths[0], ["id"]))
