"""An Iceberg table behind the port of the table sinks, by pyiceberg.

Stored offsets are table properties, set in the same request as the snapshot (see `guard.py` for their text). Deleted
rows are position deletes of format 2, which every engine reads. Format 3 is refused, because pyiceberg cannot write it.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.transforms import parse_transform

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import data_files
from spark_connect_rt.connectors.lakehouse.guard import (
    offset_text,
    offsets_of_properties,
    other_writers,
    property_name,
)
from spark_connect_rt.connectors.lakehouse.iceberg_commit import (
    KnownEntries,
    ManifestMemory,
    SnapshotBuilder,
    SnapshotChange,
    data_file_of,
    delete_old_metadata,
    head_of,
    pack_file,
    partition_of,
    schema_without_ids,
    unpack_file,
)
from spark_connect_rt.connectors.lakehouse.part_folder import FilePartFolder
from spark_connect_rt.connectors.lakehouse.refusals import is_refusal
from spark_connect_rt.connectors.lakehouse.sink_settings import parse_partition_field
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

log = logging.getLogger(__name__)
Result = TypeVar("Result")
_FIELD_ID = b"PARQUET:field_id"
_ARROW_FILES = "pyiceberg.io.pyarrow.PyArrowFileIO"
_SQL_CATALOG = "spark_connect_rt.connectors.lakehouse.iceberg_catalogs.RememberingSqlCatalog"
_REFUSED = (ForbiddenError, UnauthorizedError, OAuthError, ValidationError, NoSuchNamespaceError, NoSuchTableError)
CREATED_WITH = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",  # else each commit leaves a file of metadata
    "write.metadata.previous-versions-max": "20",
}
"""Properties of a table that is created, unless `iceberg.tables.auto-create-props.*` say otherwise."""
OFFSETS_SUMMARY = "connectrt.offsets"
"""Of a snapshot's summary: the offsets that its commit stored, as JSON. For an audit, and after a rollback."""
COMMIT_SUMMARY = "connectrt.commit"
"""Of a snapshot's summary: the id of the commit, or of the parts in it, with commas between them."""
PARTS_FOLDER = "_connectrt"
"""Below a table's location: parts of commits. `find_orphans` finds those that no task will commit."""


class IcebergTableStore:
    """A `TableStore` of one table of a catalog."""

    def __init__(
        self,
        open_catalog: Callable[[], Catalog],
        name: str,
        connector: str,
        *,
        branch: str = MAIN_BRANCH,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        settings: data_files.FileSettings | None = None,
    ) -> None:
        """Take the name of a table, such as `namespace.table`. The catalog is opened when it is first used.

        Args:
            partition_by: partition fields of a table that is created, such as `day(ts)` or `bucket(16, id)`.
            properties: properties of a table that is created.
        """
        self.name = name
        self._open_catalog = open_catalog
        self._catalog: Catalog | None = None
        self.connector = connector
        self.branch = branch
        self.settings = settings or data_files.FileSettings()
        self._partition_by = tuple(partition_by)
        self._properties = dict(properties or {})
        self.manifests = ManifestMemory()

    @property
    def catalog(self) -> Catalog:
        """The open catalog. Raises RetriableError or ExternalError if it cannot be opened."""
        if self._catalog is None:
            self._catalog = self._called(self._open_catalog)
        return self._catalog

    @property
    def branch_key(self) -> str | None:
        """The branch as names of properties have it: None for the main branch."""
        return None if self.branch == MAIN_BRANCH else self.branch

    def load(self) -> LoadedIcebergTable | None:
        """Load the newest state from the catalog, or return None if the table does not exist."""
        try:
            table = self._called(lambda: self.catalog.load_table(self.name))
        except NoSuchTableError:
            return None
        return LoadedIcebergTable(self, table)

    def create(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        """Create the table with `keys` as identifier columns, unless it exists. Creates the namespace, too."""
        fresh = _iceberg_schema(schema, keys)
        namespace = Catalog.namespace_from(self.name)
        properties = {**CREATED_WITH, **self._properties}
        spec = partition_spec(self._partition_by, fresh)
        with contextlib.suppress(NamespaceAlreadyExistsError, TableAlreadyExistsError):
            if not self._called(lambda: self.catalog.namespace_exists(namespace)):
                with contextlib.suppress(NamespaceAlreadyExistsError):
                    self._called(lambda: self.catalog.create_namespace(namespace))
            self._called(
                lambda: self.catalog.create_table(self.name, fresh, partition_spec=spec, properties=properties)
            )

    def evolve(self, loaded: LoadedTable, evolution: Evolution) -> None:
        """Change the loaded table's schema: add, widen or relax columns."""
        assert isinstance(loaded, LoadedIcebergTable)
        have = loaded.table.schema()
        try:
            with loaded.table.update_schema() as update:
                for path in evolution.relax:
                    update.make_column_optional(path)
                for widened in evolution.widen:
                    update.update_column(widened.path, field_type=_iceberg_type(widened.want))
                for added in evolution.add:
                    if added.path not in have.column_names:
                        parents = (added.parent,) if added.parent else ()
                        update.add_column((*parents, added.name), _iceberg_type(added.type))
        except CommitFailedException as error:
            raise RetriableError(f"table {self.name}: another writer changed it: {error}") from error
        except ConnectError:
            raise
        except Exception as error:
            raise explained(self.name, error) from error

    def discard(self, files: Collection[str]) -> None:
        """Delete data files that no commit names, and ignore files that are already gone."""
        if not files:
            return
        loaded = self.load()
        if loaded is not None:
            discard_files(loaded.table, files)

    def close(self) -> None:
        """Close the connections of the catalog."""
        catalog, self._catalog = self._catalog, None
        engine = getattr(catalog, "engine", None)
        if engine is not None:
            engine.dispose()

    def _called(self, call: Callable[[], Result]) -> Result:
        """Return what a call of the catalog returns. Errors that callers handle stay themselves."""
        try:
            return call()
        except (NoSuchTableError, NamespaceAlreadyExistsError, TableAlreadyExistsError, ConnectError):
            raise
        except Exception as error:
            raise explained(self.name, error) from error


def explained(table: str, error: Exception) -> ConnectError:
    """Return an error of pyiceberg as the error that says what the caller can do."""
    if isinstance(error, NotInstalledError):
        return ExternalError(f"table {table}: {error}. Install it on workers and executors.")
    if isinstance(error, _REFUSED) or is_refusal(error):
        return ExternalError(
            f"table {table}: the catalog refuses: {type(error).__name__}: {error}. Check the credentials and "
            "permissions in iceberg.catalog.*."
        )
    return RetriableError(f"table {table}: {type(error).__name__}: {error}")


def require_branch(store: IcebergTableStore, table: Table) -> None:
    """Raise ExternalError if the branch is missing, which a commit would create without the rows of any other."""
    metadata = table.metadata
    if store.branch not in metadata.refs and metadata.snapshots:
        raise ExternalError(
            f"table {store.name}: branch {store.branch} does not exist. Create it, or correct "
            "iceberg.tables.default-commit-branch."
        )


class LoadedIcebergTable:
    """A `LoadedTable` of an `IcebergTableStore`."""

    def __init__(self, store: IcebergTableStore, table: Table) -> None:
        self._store, self.table = store, table
        self._files_of: dict[ManifestContent, Sequence[DataFile]] = {}  # a commit asks several times
        metadata = table.metadata
        if metadata.format_version > 2:
            raise ExternalError(
                f"table {store.name}: format version {metadata.format_version} cannot be written. Use a table of "
                "format version 2."
            )
        require_branch(store, table)
        self.table_id = str(metadata.table_uuid)
        self.head: Snapshot | None = head_of(table, store.branch)
        self.snapshot = None if self.head is None else str(self.head.snapshot_id)

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the table in their order, as Arrow fields. Its fields have no ids."""
        return _plain(schema_to_pyarrow(self.table.schema(), include_field_ids=False))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the names of the identifier fields, in the order of the columns."""
        names = self.table.schema().identifier_field_names()
        return tuple(name for name in self.table.schema().column_names if name in names)

    @cached_property
    def offsets(self) -> Mapping[TopicPartition, StoredOffset]:
        """Return the stored offsets of this connector and branch."""
        store = self._store
        return offsets_of_properties(self.table.metadata.properties, store.connector, store.branch_key)

    def rolled_back(self) -> Mapping[TopicPartition, int]:
        """Return the partitions whose last commit was rolled back, with the offset below which rows are left.

        A commit was rolled back if its snapshot is known and not part of the branch's history any more. Once that
        snapshot has expired, a rollback cannot be noticed.
        """
        metadata = self.table.metadata
        by_commit = {commit: shot.snapshot_id for shot in metadata.snapshots for commit in _commits_of(shot)}
        gone = {place for place, at in self.offsets.items() if at.commits and at.commits[-1] in by_commit}
        history: list[Snapshot] = []
        shot = self.head
        while shot is not None and len(history) <= len(metadata.snapshots):
            history.append(shot)
            shot = metadata.snapshot_by_id(shot.parent_snapshot_id) if shot.parent_snapshot_id is not None else None
        alive = {found.snapshot_id for found in history}
        gone = {place for place in gone if by_commit[self.offsets[place].commits[-1]] not in alive}
        if not gone:
            return {}
        left = dict.fromkeys(gone, 0)
        for found in reversed(history):
            left |= {place: end for place, end in _ends_of(self._store, found).items() if place in gone}
        return left

    def other_writers(self) -> Mapping[str, set[str]]:
        """Return which other connectors write this branch of the table: name -> topics."""
        store = self._store
        return other_writers(self.table.metadata.properties, store.connector, store.branch_key)

    def require_readable(self) -> None:
        """Raise ExternalError if the table has deletes that upserts need and that cannot be read."""
        self.delete_files()

    def require_writable(self) -> None:
        """Write and delete a small file, and send a commit without a change to a catalog that checks permissions.

        Raises ExternalError without the permission, and RetriableError if the store or the catalog cannot be reached.
        """
        name, table = self._store.name, self.table
        location = table.location_provider().new_metadata_location(f"connectrt-check-{uuid.uuid4().hex}")
        try:
            with table.io.new_output(location).create() as stream:
                stream.write(b"written by connectrt check, and deleted at once")
            table.io.delete(location)
        except Exception as error:
            raise explained(name, error) from error
        try:
            if isinstance(table.catalog, RestCatalog):
                table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), ())
        except Exception as error:
            if isinstance(error, _REFUSED):
                raise explained(name, error) from error
            log.info("table %s: a commit without a change was not taken: %s", name, error)  # others may be

    def live_files(self) -> Mapping[str, LiveFile]:
        """Return the data files of the snapshot by URI. The detail is a `DataFile` without statistics of columns."""
        return {
            file.file_path: LiveFile(file.file_path, file.record_count, file.file_size_in_bytes, file)
            for file in self._files(ManifestContent.DATA)
        }

    def delete_files(self) -> Sequence[DataFile]:
        """Return the live position delete files. Raises ExternalError for deletes of another kind."""
        files = self._files(ManifestContent.DELETES)
        for file in files:
            if file.content != DataFileContent.POSITION_DELETES or str(file.file_format).upper().find("PARQUET") < 0:
                raise ExternalError(
                    f"table {self._store.name}: another writer deleted rows in a way that cannot be read here "
                    f"({file.file_path}). Compact the table with that writer first."
                )
        return files

    def deletes(self) -> Set[str]:
        """Return the URIs of the live position delete files. Raises ExternalError for deletes of another kind."""
        return {file.file_path for file in self.delete_files()}

    def dead_rows(self, deletes: Collection[str]) -> Iterator[tuple[str, str, Positions]]:
        """Yield (delete file, data file, deleted rows) of these delete files. Reads each of them."""
        for name in deletes:
            for path, positions in _deleted_rows(self._parquet(name)):
                yield name, path, positions

    def read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of one data file in the order of its rows, dead rows included.

        Columns are found by their field ids, by name in files without ids.
        """
        parquet = self._parquet(path)
        schema, ids = self.schema, {name: self.table.schema().find_field(name).field_id for name in columns}
        by_id = {int(field.metadata[_FIELD_ID]): field.name for field in parquet.schema_arrow if _has_id(field)}
        names = set(parquet.schema_arrow.names)
        places = {name: by_id.get(ids[name]) if by_id else name if name in names else None for name in columns}
        for batch in parquet.iter_batches(columns=[place for place in places.values() if place is not None]):
            arrays = []
            for name, place in places.items():
                want = schema.field(name).type
                found = pa.nulls(batch.num_rows, want) if place is None else batch.column(place)
                arrays.append(found if found.type == want else found.cast(want))
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def write(self, rows: pa.Table) -> Sequence[NewFile]:
        """Write rows to new data files, which no reader sees before a commit names them.

        Each partition of the table has its own files.
        """
        if not rows.num_rows:
            return []
        with_ids = schema_to_pyarrow(self.table.schema(), include_field_ids=True)
        fitted = pa.table(
            [column.cast(field.type) for column, field in zip(rows.columns, with_ids, strict=True)], schema=with_ids
        )
        spec = self.table.spec()
        written = data_files.write_data_files(fitted, self._partitioning(spec), self._target(), self._store.settings)
        made = []
        for file in written:
            assert file.source_rows is not None
            made.append(NewFile(file.path, file.rows, file.source_rows, file.size, data_file_of(file, spec.spec_id)))
        return made

    def parts(self) -> FilePartFolder:
        """Return the folder of parts below the table's location. Engines ignore it, its name has an underscore."""
        store = self._store
        branch = "" if store.branch_key is None else f"@{store.branch_key}"
        folder = f"{self.table.location().rstrip('/')}/{PARTS_FOLDER}/{quote(store.connector + branch, safe='')}"
        return FilePartFolder(*file_system(self.table, folder))

    def pack(self, file: NewFile) -> Mapping[str, Any]:
        """Return a new data file with its statistics as values of JSON."""
        return pack_file(file.detail)

    def unpack(self, packed: Mapping[str, Any]) -> NewFile:
        """Return the data file that `pack` described. Raises DataError if the table lacks its partition spec."""
        file = unpack_file(packed)
        if file.spec_id not in self.table.specs():
            raise DataError(f"{file.file_path}: the table has no partition spec {file.spec_id}")
        return NewFile(file.file_path, file.record_count, NO_ROWS, file.file_size_in_bytes, file)

    def commit(self, commit: TableCommit) -> CommitResult:
        """Try once to make `commit` the next state of the branch, and return the outcome."""
        store = self._store
        deletes = self.write_deletes(commit.dead_rows)
        added = [*(new.detail for new in commit.files), *(file for file, _ in deletes)]
        named = {
            property_name(store.connector, store.branch_key, place): offset_text(stored)
            for place, stored in commit.offsets.items()
        }
        forgotten = [property_name(store.connector, store.branch_key, place) for place in commit.forgotten]
        have = self.table.metadata.properties
        ends = {place: stored.end for place, stored in commit.offsets.items()}
        own = {OFFSETS_SUMMARY: _ends_text(store, ends)} if ends else {}
        summary = {**commit.summary, COMMIT_SUMMARY: commit.commit_id, **own}
        removed = self._all_files() if commit.truncates else ()
        change = SnapshotChange(added, removed, named, [name for name in forgotten if name in have], summary)
        result = self.commit_change(change)
        if isinstance(result, Committed):
            return replace(result, deletes={file.file_path: paths for file, paths in deletes})
        return result

    def commit_change(self, change: SnapshotChange, known: KnownEntries | None = None) -> CommitResult:
        """Try once to make a snapshot with `change` the head of the branch.

        Args:
            change: the files that come and go.
            known: what was read of manifests, for the next try. None: it is not kept.
        """
        builder = SnapshotBuilder(self.table, self._store.branch, known)
        catalog = self.table.catalog
        try:
            staged = builder.stage(change)
        except ConnectError:
            raise
        except Exception as error:
            discard_files(self.table, builder.written)
            raise explained(self._store.name, error) from error
        try:
            response = catalog.commit_table(self.table, staged.requirements, staged.updates)
        except CommitFailedException as error:
            discard_files(self.table, builder.written)
            return LostRace(str(error))
        except _REFUSED as error:
            discard_files(self.table, builder.written)
            raise explained(self._store.name, error) from error
        except Exception as error:
            if is_refusal(error):  # of the database, or of the store before the catalog was asked
                raise explained(self._store.name, error) from error
            return UnknownOutcome(error)  # a request without an answer: the caller looks
        with contextlib.suppress(Exception):  # `write.metadata.delete-after-commit.enabled`; the commit is done
            delete_old_metadata(self.table, response.metadata)
        return Committed(str(staged.snapshot_id))

    def write_deletes(
        self, dead_rows: Mapping[str, Positions], details: Mapping[str, DataFile] | None = None
    ) -> list[tuple[DataFile, Collection[str]]]:
        """Write one position delete file for each partition of the data files that lose rows.

        Returns each with the URIs of the data files that it names.

        Args:
            dead_rows: URI of each data file -> rows, ascending.
            details: the data files by URI. None: they are live.
        """
        if not dead_rows:
            return []
        if self.table.metadata.format_version < 2:
            raise ExternalError(
                f"table {self._store.name}: rows of a table of format version 1 cannot be deleted. Upgrade it: "
                "ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '2')."
            )
        if details is None:
            details = {path: file.detail for path, file in self.live_files().items()}
        groups: dict[tuple[int, tuple[Any, ...]], dict[str, Positions]] = {}
        for path, positions in dead_rows.items():
            file = details[path]  # the old row's partition counts, also if the row has moved to another
            groups.setdefault((file.spec_id, partition_of(file)), {})[path] = positions
        made: list[tuple[DataFile, Collection[str]]] = []
        for (spec_id, partition), rows in groups.items():
            written = data_files.write_position_deletes(rows, partition, self._target(), self._store.settings)
            made.append((data_file_of(written, spec_id, deletes=True), rows.keys()))
        return made

    def _all_files(self) -> list[str]:
        """Return the URIs of all live files, also of deletes that cannot be read here."""
        return [file.file_path for content in ManifestContent for file in self._files(content)]

    def _files(self, content: ManifestContent) -> Sequence[DataFile]:
        if content not in self._files_of:
            try:
                self._files_of[content] = self._store.manifests.live_files(self.table, self._store.branch, content)
            except Exception as error:
                raise explained(self._store.name, error) from error
        return self._files_of[content]

    def _parquet(self, path: str) -> pq.ParquetFile:
        files, place = file_system(self.table, path)
        return pq.ParquetFile(files.open_input_file(place))

    def _partitioning(self, spec: PartitionSpec) -> list[data_files.PartitionField]:
        schema = self.table.schema()
        return [
            data_files.PartitionField(schema.find_column_name(field.source_id) or "", str(field.transform), field.name)
            for field in spec.fields
        ]

    def _target(self) -> data_files.FileTarget:
        """Return where new files go: the table's folder for data, by its location provider."""
        provider = self.table.location_provider()
        folder = posixpath.dirname(provider.new_data_location("x"))
        return data_files.FileTarget(file_system(self.table, folder)[0], folder, lambda: uuid.uuid4().hex)


def open_store(
    catalog_name: str,
    properties: Mapping[str, str],
    table: str,
    connector: str,
    *,
    branch: str | None = None,
    partition_by: Sequence[str] = (),
    created_with: Mapping[str, str] | None = None,
    files: data_files.FileSettings | None = None,
) -> IcebergTableStore:
    """Return a store with its own catalog, which is opened when it is first used."""
    return IcebergTableStore(
        lambda: load_catalog(catalog_name, **{"py-io-impl": _ARROW_FILES, **_with_memory(properties)}),
        table,
        connector,
        branch=branch or MAIN_BRANCH,
        partition_by=partition_by,
        properties=created_with,
        settings=files,
    )


def _with_memory(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a catalog, which for a SQL catalog name the class that remembers metadata."""
    if properties.get("type") != "sql":
        return dict(properties)
    others = {name: value for name, value in properties.items() if name != "type"}
    return {**others, "py-catalog-impl": _SQL_CATALOG}


def file_system(table: Table, uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI with the table's credentials, and the path in it."""
    scheme, netloc, path = PyArrowFileIO.parse_location(uri, table.io.properties)
    files = table.io
    if not isinstance(files, PyArrowFileIO):
        files = PyArrowFileIO(table.io.properties)
    return files.fs_by_scheme(scheme, netloc), path


def discard_files(table: Table, files: Collection[str]) -> None:
    """Delete files that no commit names. Errors are logged, because `connectrt table maintain` finds what stays."""
    for path in files:
        try:
            table.io.delete(path)
        except FileNotFoundError:
            pass
        except Exception as error:  # noqa: BLE001 - each file system has its own errors
            log.warning("could not delete %s: %s", path, error)


def partition_spec(partition_by: Sequence[str], schema: Schema) -> PartitionSpec:
    """Return the partition spec of texts such as `region`, `day(ts)`, `bucket(16, id)`, `truncate(4, name)`.

    Raises ExternalError for a column that the schema lacks, or a text of another form.
    """
    fields = []
    for number, text in enumerate(partition_by):
        source, transform, name = parse_partition_field(text)
        try:
            field = schema.find_field(source)
        except ValueError as error:
            raise ExternalError(f"iceberg.tables.default-partition-by: there is no column {source!r}") from error
        fields.append(PartitionField(field.field_id, 1000 + number, parse_transform(transform), name))
    return PartitionSpec(*fields) if fields else UNPARTITIONED_PARTITION_SPEC


def _commits_of(snapshot: Snapshot) -> list[str]:
    text = "" if snapshot.summary is None else snapshot.summary.additional_properties.get(COMMIT_SUMMARY, "")
    return text.split(",")


def _ends_text(store: IcebergTableStore, ends: Mapping[TopicPartition, int]) -> str:
    places = [[place.topic, place.partition, end] for place, end in sorted(ends.items())]
    return orjson.dumps({"connector": store.connector, "ends": places}).decode()


def writer_of(snapshot: Snapshot) -> str | None:
    """Return the connector whose commit a snapshot is. None: another writer's, or an upkeep's."""
    connector = _stored_by(snapshot).get("connector")
    if isinstance(connector, str):
        return connector
    return "" if any(_commits_of(snapshot)) else None  # a commit without offsets


def _stored_by(snapshot: Snapshot) -> Mapping[str, Any]:
    text = "" if snapshot.summary is None else snapshot.summary.additional_properties.get(OFFSETS_SUMMARY, "")
    try:
        fields = orjson.loads(text) if text else {}
    except ValueError:
        return {}  # another program's text
    return fields if isinstance(fields, dict) else {}


def _ends_of(store: IcebergTableStore, snapshot: Snapshot) -> dict[TopicPartition, int]:
    """Return the offsets that a snapshot's commit stored for the connector of the store."""
    fields = _stored_by(snapshot)
    if fields.get("connector") != store.connector:
        return {}
    try:
        return {TopicPartition(topic, partition): end for topic, partition, end in fields["ends"]}
    except (ValueError, KeyError, TypeError):
        return {}  # another program's text


def _iceberg_schema(schema: pa.Schema, keys: Sequence[str]) -> Schema:
    numbered = iter(range(1, 1 << 30))
    fresh = assign_fresh_schema_ids(schema_without_ids(schema), lambda: next(numbered))
    ids = [fresh.find_field(name).field_id for name in keys]
    return Schema(*fresh.fields, identifier_field_ids=ids) if ids else fresh


def _iceberg_type(arrow_type: pa.DataType) -> Any:
    return schema_without_ids(pa.schema([pa.field("x", arrow_type)])).fields[0].field_type


def _plain(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata()


def _has_id(field: pa.Field) -> bool:
    return field.metadata is not None and _FIELD_ID in field.metadata


def _deleted_rows(parquet: pq.ParquetFile) -> Iterator[tuple[str, Positions]]:
    """Yield the positions that a delete file names, by data file."""
    for batch in parquet.iter_batches(columns=["file_path", "pos"]):
        paths = batch.column("file_path").dictionary_encode()
        codes, positions = paths.indices.to_numpy(), batch.column("pos").to_numpy()
        for code, path in enumerate(paths.dictionary.to_pylist()):
            yield path, positions[codes == code].astype(np.int64)
