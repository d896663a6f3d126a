"""A Delta table behind the port of the table sinks, by delta-rs (`deltalake`).

Stored offsets are more than the number that a transaction of an application (`txn`) has room for. So they are a small
file below `_connectrt`, and the `txn` of the connector names the file. Both become valid in the commit of the rows.

A commit is made on the loaded version without retries, so that any other commit in between makes it lose. Rows without
keys are appended as files. Changes by key are one merge, which rewrites the files that it touches, because delta-rs
cannot write deletion vectors.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.changes import DELETE, OP, UPSERT, upserts_of
from spark_connect_rt.connectors.lakehouse.data_files import FileSettings, FileTarget, write_data_files
from spark_connect_rt.connectors.lakehouse.guard import offset_text, parse_offset
from spark_connect_rt.connectors.lakehouse.part_folder import FilePartFolder
from spark_connect_rt.connectors.lakehouse.partitions import PartitionField, rows_by_partition, taken_apart
from spark_connect_rt.connectors.lakehouse.refusals import is_refusal
from spark_connect_rt.connectors.lakehouse.table_port import (
    NO_ROWS,
    CommitResult,
    Committed,
    LiveFile,
    LoadedTable,
    LostRace,
    NewFile,
    Positions,
    StoredOffset,
    TableCommit,
    UnknownOutcome,
)
from spark_connect_rt.connectors.lakehouse.table_schema import Evolution
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError

Result = TypeVar("Result")
APPLICATIONS = "connectrt"
FOLDER = "_connectrt"  # readers and vacuum ignore folders that begin with an underscore
_NUMBERS = 1 << 62
_LOAD_TRIES = 3  # a newer commit may have removed the file of the offsets meanwhile


class DeltaTableStore:
    """A `TableStore` of one Delta table, by its path or URI."""

    def __init__(
        self,
        uri: str,
        connector: str,
        *,
        name: str | None = None,
        keys: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        settings: FileSettings | None = None,
    ) -> None:
        """Take the place of a table.

        Args:
            uri: a path, or a URI such as `s3://bucket/table`.
            connector: name of the connector, which the offsets are stored for.
            name: of the table in messages. None: its URI.
            keys: columns that changes are merged by. Empty: rows are appended.
            partition_by: columns of a table that is created.
            storage_options: credentials and settings of the object store, as delta-rs has them.
            properties: of a table that is created, such as `delta.logRetentionDuration`.
            settings: of new data files.
        """
        self.name = name or uri
        self.uri = uri
        self.connector = connector
        self.keys = tuple(keys)
        self.settings = settings or FileSettings()
        self._partition_by = list(partition_by)
        self._options = dict(storage_options or {})
        self._properties = dict(properties or {})

    @property
    def application(self) -> str:
        """The application id of the connector's transactions."""
        return f"{APPLICATIONS}:{self.connector}"

    def load(self) -> LoadedDeltaTable | None:
        """Load the newest version, or return None if the table does not exist."""
        for _ in range(_LOAD_TRIES):
            try:
                table = self.called(partial(DeltaTable, self.uri, storage_options=self._options or None))
            except TableNotFoundError:
                return None
            number = table.transaction_version(self.application)
            files = self.called(partial(_file_system, table))
            try:
                offsets = self.called(partial(_read_offsets, files, number, self.name))
            except FileNotFoundError:
                continue
            return LoadedDeltaTable(self, table, files, number, offsets)
        raise RetriableError(f"table {self.name}: the file of the stored offsets is missing in {FOLDER}")

    def create(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        """Create the table unless it exists. Columns that are not keys are optional, as Delta cannot relax them."""
        columns = pa.schema([field.with_nullable(field.nullable and field.name not in keys) for field in schema])
        self.called(
            lambda: DeltaTable.create(
                self.uri,
                columns,
                mode="ignore",
                partition_by=self._partition_by or None,
                configuration=self._properties or None,
                storage_options=self._options or None,
            )
        )

    def evolve(self, loaded: LoadedTable, evolution: Evolution) -> None:
        """Add columns and relax columns. Raises ExternalError for a wider type, which delta-rs cannot write."""
        assert isinstance(loaded, LoadedDeltaTable)
        if evolution.widen:
            paths = ", ".join(f"{widened.path} to {widened.want}" for widened in evolution.widen)
            raise ExternalError(f"table {self.name}: types of columns cannot be widened here: {paths}")
        newest = self.load()
        if newest is None or newest.table_id != loaded.table_id:
            raise RetriableError(f"table {self.name}: another writer replaced the table")
        if newest.schema.equals(evolution.schema):
            return
        if not newest.schema.equals(loaded.schema):
            raise RetriableError(f"table {self.name}: another writer changed the schema")
        if any(added.parent for added in evolution.add):  # a write without rows merges nested fields, too
            wider = evolution.schema.empty_table()
            self.called(lambda: write_deltalake(newest.table, wider, mode="append", schema_mode="merge"))
        elif evolution.add:
            columns = [Field.from_arrow(pa.field(added.name, added.type)) for added in evolution.add]
            self.called(lambda: newest.table.alter.add_columns(columns))
        for path in evolution.relax:
            self.called(partial(newest.table.alter.drop_column_not_null, path))

    def discard(self, files: Collection[str]) -> None:
        """Delete data files that no commit names, and ignore files that are already gone."""
        loaded = self.load()
        if loaded is None:
            return
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                self.called(partial(loaded.files.delete_file, loaded.relative(path)))

    def close(self) -> None:
        """Release the table. delta-rs keeps no connection that needs to be closed."""

    def refused(self, error: Exception) -> ExternalError:
        """Return the error of a store that refuses a request."""
        return ExternalError(
            f"table {self.name}: the store refuses: {type(error).__name__}: {error}. Check the credentials and "
            "permissions in delta.storage.*."
        )

    def called(self, call: Callable[[], Result]) -> Result:
        """Return what a call of delta-rs returns. Raises RetriableError or ExternalError instead of its errors."""
        try:
            return call()
        except (TableNotFoundError, FileNotFoundError, ConnectError):
            raise
        except DeltaProtocolError as error:
            raise ExternalError(f"table {self.name}: {error}") from error
        except (DeltaError, OSError) as error:
            if is_refusal(error):
                raise self.refused(error) from error
            raise RetriableError(f"table {self.name}: {type(error).__name__}: {error}") from error


class LoadedDeltaTable:
    """A `LoadedTable` of a `DeltaTableStore`: one version."""

    def __init__(
        self,
        store: DeltaTableStore,
        table: DeltaTable,
        files: fs.FileSystem,
        number: int | None,
        offsets: Mapping[TopicPartition, StoredOffset],
    ) -> None:
        self._store, self.table, self.files, self._number = store, table, files, number
        self.offsets = offsets
        self.table_id = str(table.metadata().id)
        self._root = table.table_uri.rstrip("/")
        self._version = table.version()
        self.snapshot = str(self._version) if self._version else None  # version 0 is the table as it was created

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the table in their order."""
        return pa.schema(self.table.schema()).remove_metadata()

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return nothing, because Delta tables do not name their keys."""
        return ()

    def relative(self, path: str) -> str:
        """Return the path of a data file below the table's folder."""
        return path.removeprefix(f"{self._root}/")

    def other_writers(self) -> Mapping[str, set[str]]:
        """Return which other connectors have stored offsets in the table: name -> topics. Reads the log."""
        others: dict[str, set[str]] = {}
        for application, number in self._store.called(partial(_applications, self.files)).items():
            kind, _, connector = application.partition(":")
            if kind != APPLICATIONS or application == self._store.application:
                continue
            with contextlib.suppress(FileNotFoundError):
                places = self._store.called(partial(_read_offsets, self.files, number, self._store.name))
                others[connector] = {place.topic for place in places}
        return others

    def require_readable(self) -> None:
        """Do nothing, because a merge reads whatever delta-rs reads."""

    def require_writable(self) -> None:
        """Write and delete a small file. Raises ExternalError without the permission, RetriableError otherwise."""
        path = f"{FOLDER}/check-{uuid.uuid4().hex}"
        self._store.called(partial(_write_and_delete, self.files, path))

    def rolled_back(self) -> Mapping[TopicPartition, int]:
        """Return nothing: a version that was restored is a commit like any other, so it cannot be noticed."""
        return {}

    def live_files(self) -> Mapping[str, LiveFile]:
        """Return the data files of the version by URI."""
        actions = pa.table(self.table.get_add_actions(flatten=True)).select(["path", "size_bytes", "num_records"])
        files = (
            LiveFile(f"{self._root}/{row['path']}", row["num_records"] or 0, row["size_bytes"])
            for row in actions.to_pylist()
        )
        return {file.path: file for file in files}

    def deletes(self) -> Set[str]:
        """Return nothing: merges rewrite files, so every row of a live file is live."""
        return frozenset()

    def dead_rows(self, deletes: Collection[str]) -> Iterator[tuple[str, str, Positions]]:
        """Yield nothing, because there are no deletes."""
        yield from ()

    def read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of one data file in the order of its rows. Partition columns are not in files."""
        with self.files.open_input_file(self.relative(path)) as stream:
            yield from pq.ParquetFile(stream).iter_batches(columns=list(columns))

    def write(self, rows: pa.Table) -> Sequence[NewFile]:
        """Write rows to new data files, which no reader sees before a commit names them.

        Of a table with keys nothing is written here: the merge of the commit writes its own files.
        """
        return [] if self._store.keys else self._written(rows)

    def _written(self, rows: pa.Table) -> Sequence[NewFile]:
        made: list[NewFile] = []
        partition_by = list(self.table.metadata().partition_columns)
        fields = [PartitionField(name, "identity", name) for name in partition_by]
        plain = _with_ids(rows.drop_columns(partition_by))
        parts = list(rows_by_partition(rows, fields))
        for part, chosen in zip(parts, taken_apart(plain, parts), strict=True):
            target = FileTarget(self.files, "", lambda: f"part-{uuid.uuid4().hex}")
            first = rows.slice(0 if part.rows is None else int(part.rows[0]), 1)
            values = {name: _partition_text(first[name][0]) for name in partition_by}
            for file in self._store.called(partial(write_data_files, chosen, [], target, self._store.settings)):
                assert file.source_rows is not None
                numbers = file.source_rows if part.rows is None else part.rows[file.source_rows]
                action = AddAction(file.path, file.size, values, _now_ms(), True, json.dumps({"numRecords": file.rows}))
                made.append(NewFile(f"{self._root}/{file.path}", file.rows, numbers, file.size, action))
        return made

    def parts(self) -> FilePartFolder:
        """Return the folder of parts below the table's folder."""
        return FilePartFolder(self.files, f"{FOLDER}/parts/{quote(self._store.connector, safe='')}")

    def pack(self, file: NewFile) -> Mapping[str, Any]:
        """Return the action that adds a new file as values of JSON."""
        return {"rows": file.rows, **asdict(file.detail)}

    def unpack(self, packed: Mapping[str, Any]) -> NewFile:
        """Return the file that `pack` described. Raises DataError for other values."""
        try:
            rows = packed["rows"]
            action = AddAction(**{name: value for name, value in packed.items() if name != "rows"})
        except (KeyError, TypeError) as error:
            raise DataError(f"not the description of a data file: {error!r}") from error
        return NewFile(f"{self._root}/{action.path}", rows, NO_ROWS, action.size, action)

    def commit(self, commit: TableCommit) -> CommitResult:
        """Try once to make `commit` the next version, and return the outcome."""
        if self.table.version() != self._version:  # delta-rs moves its table object with each commit
            return LostRace(f"version {self._version} was replaced by an earlier commit on this state")
        if commit.dead_rows:
            raise ExternalError(f"table {self._store.name}: rows of Delta tables are deleted by key, not by position")
        stored = {**self.offsets, **commit.offsets}
        for place in commit.forgotten:
            stored.pop(place, None)
        number = uuid.uuid4().int % _NUMBERS
        self._store.called(lambda: _write_offsets(self.files, number, stored))
        properties = CommitProperties(
            custom_metadata=dict(commit.summary) or None,
            max_commit_retries=0,
            app_transactions=[Transaction(self._store.application, number)],
        )
        try:
            self._commit(commit, properties)
        except CommitFailedError as error:
            self._remove_offsets(number)
            return LostRace(str(error))
        except (DeltaProtocolError, SchemaMismatchError) as error:
            self._remove_offsets(number)
            raise ExternalError(f"table {self._store.name}: {error}") from error
        except (DeltaError, OSError) as error:
            if is_refusal(error):
                raise self._store.refused(error) from error
            return UnknownOutcome(error)
        if self._number is not None:
            self._remove_offsets(self._number)
        return Committed(str(self._version + 1))

    def _commit(self, commit: TableCommit, properties: CommitProperties) -> None:
        changes = commit.changes if self._store.keys else None
        if commit.truncates or changes is None or not changes.num_rows:
            files = commit.files
            if changes is not None:  # nothing is left to merge with, so the upserts are simply the rows
                files = self._written(upserts_of(changes, self.schema))
            actions = [new.detail for new in files]
            partition_by = list(self.table.metadata().partition_columns)
            mode = "overwrite" if commit.truncates else "append"
            self.table.create_write_transaction(
                actions, mode, self.table.schema(), partition_by or None, commit_properties=properties
            )
            return
        columns = [_quoted(name) for name in changes.column_names if name != OP]
        predicate = " AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in self._store.keys)
        values = {column: f"s.{column}" for column in columns}
        (
            self.table.merge(changes, predicate, source_alias="s", target_alias="t", commit_properties=properties)
            .when_matched_delete(f"s.{_quoted(OP)} = '{DELETE}'")
            .when_matched_update(values, f"s.{_quoted(OP)} = '{UPSERT}'")
            .when_not_matched_insert(values, f"s.{_quoted(OP)} = '{UPSERT}'")
            .execute()
        )

    def _remove_offsets(self, number: int) -> None:
        with contextlib.suppress(OSError, DeltaError):  # a file too many does no harm
            self.files.delete_file(_offsets_path(number))


def _file_system(table: DeltaTable) -> fs.FileSystem:
    return fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))


def _write_and_delete(files: fs.FileSystem, path: str) -> None:
    with files.open_output_stream(path, buffer_size=1 << 16) as stream:
        stream.write(b"written by connectrt check, and deleted at once")
    files.delete_file(path)


def _applications(files: fs.FileSystem) -> dict[str, int]:
    """Return the version of each application in the log: of the last checkpoint, then of the commits after it.

    Source: the Delta transaction log protocol, "Transaction Identifiers" and "Checkpoints".
    """
    found: dict[str, int] = {}
    names = sorted(posixpath.basename(info.path) for info in files.get_file_info(fs.FileSelector("_delta_log")))
    checkpoints = [name for name in names if name.endswith(".parquet") and ".checkpoint." in name]
    last = checkpoints[-1].partition(".")[0] if checkpoints else ""
    for name in checkpoints:
        if name.startswith(last):
            with files.open_input_file(f"_delta_log/{name}") as stream:
                rows = pq.read_table(stream, columns=["txn"])["txn"].drop_null().to_pylist()
            found |= {row["appId"]: row["version"] for row in rows}
    for name in names:
        version, _, kind = name.partition(".")
        if kind == "json" and version.isdigit() and version > last:
            with files.open_input_file(f"_delta_log/{name}") as stream:
                actions = (orjson.loads(line) for line in stream.read().splitlines() if line)
                found |= {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _now_ms() -> int:
    return int(time.time() * 1000)


def _with_ids(rows: pa.Table) -> pa.Table:
    """Give each column a number, by which the writer names its statistics."""
    numbers = iter(range(1, 1 << 30))

    def numbered(field: pa.Field) -> pa.Field:
        kind = field.type
        if pa.types.is_struct(kind):
            kind = pa.struct([numbered(part) for part in kind])
        elif pa.types.is_map(kind):
            kind = pa.map_(numbered(kind.key_field), numbered(kind.item_field))
        elif pa.types.is_list(kind):
            kind = pa.list_(numbered(kind.value_field))
        return field.with_type(kind).with_metadata({"PARQUET:field_id": str(next(numbers))})

    return rows.cast(pa.schema([numbered(field) for field in rows.schema]))


def _partition_text(value: pa.Scalar) -> str | None:
    """Return a partition value as Delta's log has it."""
    if not value.is_valid:
        return None
    if pa.types.is_boolean(value.type):
        return "true" if value.as_py() else "false"
    return str(value.cast(pa.string()).as_py())


def _offsets_path(number: int) -> str:
    return f"{FOLDER}/{number}.json"


def _write_offsets(files: fs.FileSystem, number: int, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
    entries = [[place.topic, place.partition, offset_text(stored)] for place, stored in sorted(offsets.items())]
    with files.open_output_stream(_offsets_path(number), buffer_size=1 << 16) as stream:
        stream.write(orjson.dumps(entries))  # through a buffer, as delta-rs takes bytes only


def _read_offsets(files: fs.FileSystem, number: int | None, table: str) -> dict[TopicPartition, StoredOffset]:
    if number is None:
        return {}
    with files.open_input_file(_offsets_path(number)) as stream:
        entries = orjson.loads(stream.read())
    place = f"{table}/{_offsets_path(number)}"
    return {TopicPartition(topic, partition): parse_offset(text, place) for topic, partition, text in entries}
