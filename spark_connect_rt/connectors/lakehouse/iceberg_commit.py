"""Snapshots of an Iceberg table, written in one request: manifests, manifest list, stored offsets.

pyiceberg's own operations retry a commit on a newer state without asking, which would let a zombie rewind the stored
offsets. They also have no position deletes. So this module builds the snapshot from pyiceberg's writers, and sends it
once with `Catalog.commit_table`. It is the only module that uses private parts of pyiceberg, so the dependency has an
upper bound.

Source: Apache Iceberg's table spec, version 2, "Manifests", "Manifest Lists", "Position Delete Files".
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Record

from spark_connect_rt.connectors.lakehouse.data_files import WrittenFile
from spark_connect_rt.errors import DataError, ExternalError

MERGED_FROM = 100
"""From this many manifests of one kind on, they are merged (`commit.manifest.min-count-to-merge`)."""
_CODEC: AvroCompressionCodec = "deflate"


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The change that a snapshot makes.

    Attributes:
        added: new data files and delete files.
        removed: URIs of live files that the snapshot no longer has.
        properties: table properties to set in the same commit.
        forgotten: table properties to remove.
        summary: further entries of the snapshot's summary.
        replaces: whether the rows stay the same, as after a compaction.
    """

    added: Sequence[DataFile] = ()
    removed: Collection[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    forgotten: Collection[str] = ()
    summary: Mapping[str, str] = field(default_factory=dict)
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class StagedSnapshot:
    """A snapshot whose files are written and which no request has named yet."""

    snapshot_id: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    metadata_files: tuple[str, ...]


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of delete files, which pyiceberg can read but not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def head_of(table: Table, branch: str) -> Snapshot | None:
    """Return the snapshot at the head of a branch, None for a branch without a commit."""
    return table.metadata.snapshot_by_name(branch)


def data_file_of(written: WrittenFile, spec_id: int, *, deletes: bool = False) -> DataFile:
    """Return a written file as an entry of a manifest."""
    made = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES if deletes else DataFileContent.DATA,
        file_path=written.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*written.partition),
        record_count=written.rows,
        file_size_in_bytes=written.size,
        column_sizes=dict(written.column_sizes) or None,
        value_counts=dict(written.value_counts) or None,
        null_value_counts=dict(written.null_counts) or None,
        nan_value_counts=dict(written.nan_counts) or None,
        lower_bounds=dict(written.lower_bounds) or None,
        upper_bounds=dict(written.upper_bounds) or None,
        key_metadata=None,
        split_offsets=list(written.split_offsets) or None,
        equality_ids=None,
        sort_order_id=None,
    )
    made.spec_id = spec_id  # from_args does not take it
    return made


_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def pack_file(file: DataFile) -> dict[str, Any]:
    """Return a data file as values of JSON."""
    packed = {
        "path": file.file_path,
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        "spec": file.spec_id,
        "partition": [_packed(value) for value in partition_of(file)],
        "splits": list(file.split_offsets or ()),
    }
    for name in _COUNTS:
        packed[name] = [[number, count] for number, count in (getattr(file, name) or {}).items()]
    for name in _BOUNDS:
        packed[name] = [[number, bound.hex()] for number, bound in (getattr(file, name) or {}).items()]
    return packed


def unpack_file(packed: Mapping[str, Any]) -> DataFile:
    """Return the data file that `pack_file` described. Raises DataError for other values."""
    try:
        sizes, values, nulls, nans = (dict(packed[name]) for name in _COUNTS)
        lower, upper = ({number: bytes.fromhex(bound) for number, bound in packed[name]} for name in _BOUNDS)
        partition, splits = tuple(_unpacked(value) for value in packed["partition"]), tuple(packed["splits"])
        path, rows, size = packed["path"], packed["rows"], packed["size"]
        written = WrittenFile(path, rows, size, partition, sizes, values, nulls, nans, lower, upper, splits)
        return data_file_of(written, packed["spec"])
    except (KeyError, TypeError, ValueError, InvalidOperation) as error:
        raise DataError(f"not the description of a data file: {error!r}") from error


def _packed(value: Any) -> Any:
    """Return a partition value in its internal form as JSON. Types that JSON lacks are lists of a kind and a text."""
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    return ["float", value.hex()] if isinstance(value, float) else value


def _unpacked(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, text = value
    readers: Mapping[str, Callable[[str], Any]] = {
        "bytes": bytes.fromhex,
        "decimal": Decimal,
        "float": float.fromhex,
    }
    return readers[kind](text)


KnownEntries = dict[str, Sequence[ManifestEntry]]
"""The live entries of manifests by path. Manifests never change."""


class SnapshotBuilder:
    """Writes the manifests and the manifest list of one snapshot. Nothing is visible before `commit_table`."""

    def __init__(self, table: Table, branch: str, known: KnownEntries | None = None) -> None:
        """Take the loaded state. `known` keeps the entries of manifests for the next try of the same change."""
        self._table, self._metadata, self._branch = table, table.metadata, branch
        self._known = {} if known is None else known
        self._head = head_of(table, branch)
        self._snapshot_id = self._metadata.new_snapshot_id()
        self._commit = uuid.uuid4()
        self._numbers = itertools.count()
        self._written: list[str] = []

    @property
    def written(self) -> Sequence[str]:
        """URIs of manifests and manifest lists that were written so far."""
        return self._written

    def stage(self, change: SnapshotChange) -> StagedSnapshot:
        """Write the snapshot's files, and return the request. Raises ExternalError if a removed file is not live."""
        removed: list[ManifestEntry] = []
        manifests = self._new_manifests(change.added)
        manifests += self._carried_manifests(frozenset(change.removed), removed)
        if missing := frozenset(change.removed) - {entry.data_file.file_path for entry in removed}:
            raise ExternalError(f"{len(missing)} files are not in the table any more, such as {min(missing)}")
        location = self._new_location(f"snap-{self._snapshot_id}-0-{self._commit}.avro")
        parent = None if self._head is None else self._head.snapshot_id
        sequence_number = self._metadata.next_sequence_number()
        with write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=self._table.io.new_output(location),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self._snapshot_id,
                "parent-snapshot-id": parent,
                "manifest-list": location,
                "sequence-number": sequence_number,
                "summary": self._summary(change, removed),
                "schema-id": self._metadata.current_schema_id,
            }
        )
        reference = {"ref-name": self._branch, "type": SnapshotRefType.BRANCH, "snapshot-id": self._snapshot_id}
        updates: list[TableUpdate] = [
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(reference),
        ]
        if change.properties:
            updates.append(SetPropertiesUpdate(updates=dict(change.properties)))
        if change.forgotten:
            updates.append(RemovePropertiesUpdate(removals=list(change.forgotten)))
        requirements = (
            AssertTableUUID(uuid=self._metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": self._branch, "snapshot-id": parent}),
        )
        return StagedSnapshot(self._snapshot_id, requirements, tuple(updates), tuple(self._written))

    def _new_manifests(self, added: Sequence[DataFile]) -> list[ManifestFile]:
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
        for file in added:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            groups.setdefault((_content_of(file), file.spec_id), []).append(entry)
        return [self._write(content, spec_id, entries) for (content, spec_id), entries in groups.items()]

    def _carried_manifests(self, removed_paths: frozenset[str], removed: list[ManifestEntry]) -> list[ManifestFile]:
        """Return the parent's manifests. Those that lose files become one, and so do many of them."""
        if self._head is None:
            return []
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
        for manifest in self._head.manifests(self._table.io):
            if manifest.has_added_files() or manifest.has_existing_files():
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        carried = []
        for (content, spec_id), manifests in groups.items():
            merged = len(manifests) >= MERGED_FROM
            together: list[ManifestEntry] = []
            for manifest in manifests:
                if not merged and not removed_paths:
                    carried.append(manifest)
                    continue
                entries = self._entries_of(manifest)
                gone = [entry for entry in entries if entry.data_file.file_path in removed_paths]
                removed += gone
                if merged or gone:
                    together += self._continued(entries, removed_paths)
                else:
                    carried.append(manifest)
            if together:
                carried.append(self._write(content, spec_id, together))
        return carried

    def _entries_of(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        entries = self._known.get(manifest.manifest_path)
        if entries is None:
            entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
            self._known[manifest.manifest_path] = entries
        return entries

    def _continued(self, entries: Sequence[ManifestEntry], removed_paths: frozenset[str]) -> list[ManifestEntry]:
        """Return a parent's entries as EXISTING, those of removed files as DELETED."""
        continued = []
        for entry in entries:
            is_gone = entry.data_file.file_path in removed_paths
            continued.append(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.DELETED if is_gone else ManifestEntryStatus.EXISTING,
                    snapshot_id=self._snapshot_id if is_gone else entry.snapshot_id,
                    sequence_number=entry.sequence_number,
                    file_sequence_number=entry.file_sequence_number,
                    data_file=entry.data_file,
                )
            )
        return continued

    def _write(self, content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        location = self._new_location(f"{self._commit}-m{next(self._numbers)}.avro")
        with self._writer(content, self._metadata.specs()[spec_id], location) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, content: ManifestContent, spec: PartitionSpec, location: str) -> ManifestWriter:
        output, schema = self._table.io.new_output(location), self._metadata.schema()
        if content == ManifestContent.DELETES:
            return _DeleteManifestWriter(spec, schema, output, self._snapshot_id, _CODEC)
        return write_manifest(self._metadata.format_version, spec, schema, output, self._snapshot_id, _CODEC)

    def _new_location(self, name: str) -> str:
        location = self._table.location_provider().new_metadata_location(name)
        self._written.append(location)
        return location

    def _summary(self, change: SnapshotChange, removed: Sequence[ManifestEntry]) -> Summary:
        schema, specs = self._metadata.schema(), self._metadata.specs()
        collector = SnapshotSummaryCollector()
        for file in change.added:
            collector.add_file(file, schema, specs[file.spec_id])
        for entry in removed:
            collector.remove_file(entry.data_file, schema, specs[entry.data_file.spec_id])
        has_deletes = any(_content_of(file) == ManifestContent.DELETES for file in change.added)
        operation = Operation.OVERWRITE if has_deletes or removed else Operation.APPEND
        summary = update_snapshot_summaries(
            Summary(operation=operation, **collector.build(), **change.summary),
            None if self._head is None or self._head.summary is None else self._head.summary,
        )
        if change.replaces:  # update_snapshot_summaries refuses it, although only the word differs
            summary = Summary(operation=Operation.REPLACE, **summary.additional_properties)
        return summary


def _content_of(file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES


class ManifestMemory:
    """Remembers which live files a manifest names, because manifests never change. One thread.

    Without it, each upsert would read all manifests of the table. Statistics of columns are not remembered.
    """

    def __init__(self, most_files: int = 100_000) -> None:
        """Take how many files are remembered, about 500 bytes each. Manifests of further ones are read each time."""
        self._most_files = most_files
        self._count = 0
        self._files: dict[str, Sequence[DataFile]] = {}
        self.reads = 0
        """How many manifests were read."""

    def live_files(self, table: Table, branch: str, content: ManifestContent) -> list[DataFile]:
        """Return the live data files or delete files of a branch's head."""
        head = head_of(table, branch)
        manifests: Sequence[ManifestFile] = [] if head is None else head.manifests(table.io)
        for path in self._files.keys() - {manifest.manifest_path for manifest in manifests}:
            self._count -= len(self._files.pop(path))
        return [
            file for manifest in manifests if manifest.content == content for file in self._named_by(manifest, table)
        ]

    def _named_by(self, manifest: ManifestFile, table: Table) -> Sequence[DataFile]:
        known = self._files.get(manifest.manifest_path)
        if known is not None:
            return known
        self.reads += 1
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        files = [_without_statistics(entry.data_file) for entry in entries]
        if self._count + len(files) <= self._most_files:
            self._files[manifest.manifest_path] = files
            self._count += len(files)
        return files


_STATISTICS = slice(6, 14)
"""Of a `DataFile`: sizes, counts and bounds of columns, its key metadata and its split offsets."""


def _without_statistics(file: DataFile) -> DataFile:
    file._data[_STATISTICS] = [None] * (_STATISTICS.stop - _STATISTICS.start)
    return file


def partition_of(file: DataFile) -> tuple[Any, ...]:
    """Return the partition values of a file, in the order of its spec's fields."""
    return tuple(file.partition._data)


def schema_without_ids(schema: pa.Schema) -> Schema:
    """Return Iceberg's types for Arrow's. The field ids mean nothing: give the fields fresh ones."""
    return Catalog._convert_schema_if_needed(schema)


def delete_old_metadata(table: Table, metadata: TableMetadata) -> None:
    """Delete files of metadata that fell out of the log, where `write.metadata.delete-after-commit.enabled` says so."""
    table.catalog._delete_old_metadata(table.io, table.metadata, metadata)
