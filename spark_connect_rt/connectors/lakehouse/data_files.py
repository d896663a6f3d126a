"""Parquet data files and position delete files, with what Iceberg keeps of each.

Rows are gathered before they come here, so a file is written at once: one file is open at a time, whatever the number
of partitions is. Memory is the rows, and a copy of those of one partition.

Source: the Iceberg table spec, "Parquet", "Position Delete Files" and "Appendix D: Single-value serialization".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from spark_connect_rt.connectors.lakehouse.connect_columns import is_list
from spark_connect_rt.connectors.lakehouse.partitions import (
    PartitionField,
    partition_folder,
    partition_values,
    rows_by_partition,
    taken_apart,
)
from spark_connect_rt.errors import DataError

__all__ = [
    "FileSettings",
    "FileTarget",
    "PartitionField",
    "WrittenFile",
    "partition_values",
    "write_data_files",
    "write_position_deletes",
]

Positions = npt.NDArray[np.int64]
_FIELD_ID = b"PARQUET:field_id"
_PATH_ID, _POSITION_ID = 2147483546, 2147483545  # reserved by the spec
_SAMPLE = 4_096  # rows that decide about a dictionary
_SAMPLED_CHUNKS = 64
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_LAST_CODE_POINT, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How files are written.

    Attributes:
        codec: of Parquet pages.
        level: of the codec. None: its default.
        target_bytes: a partition with more rows than this in memory gets several files.
        row_group_bytes: of the rows of a row group in memory.
        default_metrics: bounds of columns that `metrics` does not name.
        metrics: by field id: `none`, `counts`, `truncate(16)` or `full`.
    """

    codec: str = "zstd"
    level: int | None = None
    target_bytes: int = 512 << 20
    row_group_bytes: int = 64 << 20
    default_metrics: str = "truncate(16)"
    metrics: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The place of new files, and their names.

    Attributes:
        files: the file system of `folder`.
        folder: a URI.
        new_id: returns unique texts for names.
    """

    files: fs.FileSystem
    folder: str
    new_id: Callable[[], str]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that no commit names yet. Maps are by field id, bounds in Iceberg's single-value form.

    Attributes:
        path: its full URI.
        rows: how many rows it has.
        size: bytes.
        partition: a value for each partition field, in Iceberg's internal form (days and microseconds are int).
        column_sizes: bytes of each column in the file.
        value_counts: of each column, nulls included.
        null_counts: nulls of each column.
        nan_counts: of columns of floats.
        lower_bounds: at most the smallest value.
        upper_bounds: at least the largest value. Missing where no short text is larger.
        split_offsets: where row groups begin, ascending.
        source_rows: of each row of a data file, its number in the table that was written. None for delete files.
    """

    path: str
    rows: int
    size: int
    partition: tuple[Any, ...] = ()
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    source_rows: Positions | None = None


def write_data_files(
    rows: pa.Table, partitioning: Sequence[PartitionField], target: FileTarget, settings: FileSettings
) -> list[WrittenFile]:
    """Write rows to files of one partition each, in the order of the rows, one file open at a time.

    Each field of the schema has a field id (`PARQUET:field_id`), nested ones, too. Raises DataError: a field has none,
    or a transform is not possible for its column. Raises OSError of the file system. Files written before that stay.
    """
    leaves = list(_leaves(rows.schema))
    written: list[WrittenFile] = []
    parts = list(rows_by_partition(rows, partitioning))
    for part, chosen in zip(parts, taken_apart(rows, parts), strict=True):
        numbers = np.arange(rows.num_rows) if part.rows is None else part.rows
        folder = partition_folder(partitioning, part.values)
        step = max(1, int(chosen.num_rows * settings.target_bytes / max(1, chosen.nbytes)))
        for begin in range(0, chosen.num_rows, step):
            piece = chosen.slice(begin, step)
            options = {"use_dictionary": _dictionary_columns(piece, leaves)}
            place = "/".join(filter(None, (target.folder, folder, f"{target.new_id()}.parquet")))
            size, metadata = _write(piece, target.files, place, settings, options)
            statistics = _statistics(metadata, leaves, piece, settings)
            written.append(
                WrittenFile(
                    place,
                    piece.num_rows,
                    size,
                    part.values,
                    *statistics,
                    split_offsets=_split_offsets(metadata),
                    source_rows=numbers[begin : begin + step],
                )
            )
    return written


def write_position_deletes(
    dead_rows: Mapping[str, Positions], partition: tuple[Any, ...], target: FileTarget, settings: FileSettings
) -> WrittenFile:
    """Write the dead rows of data files of one partition to one delete file.

    Args:
        dead_rows: URI of each data file -> row numbers, ascending.
        partition: of the data files.
        target: as for data files.
        settings: as for data files.
    """
    paths = sorted(dead_rows)
    counts = [len(dead_rows[path]) for path in paths]
    codes = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), counts))
    positions = np.concatenate([dead_rows[path] for path in paths])
    schema = pa.schema(
        [
            pa.field("file_path", pa.dictionary(pa.int32(), pa.string()), False, {_FIELD_ID: str(_PATH_ID)}),
            pa.field("pos", pa.int64(), False, {_FIELD_ID: str(_POSITION_ID)}),
        ]
    )
    columns = [pa.DictionaryArray.from_arrays(codes, pa.array(paths, pa.string())), pa.array(positions)]
    rows = pa.table(columns, schema=schema)
    place = f"{target.folder}/{target.new_id()}-deletes.parquet"
    options = {"use_dictionary": ["file_path"], "column_encoding": {"pos": "DELTA_BINARY_PACKED"}}
    size, metadata = _write(rows, target.files, place, settings, options)
    ids = (_PATH_ID, _POSITION_ID)
    first, last = int(positions.min()), int(positions.max())
    return WrittenFile(
        place,
        len(positions),
        size,
        partition,
        _column_sizes(metadata, ids),
        dict.fromkeys(ids, len(positions)),
        dict.fromkeys(ids, 0),
        {},
        # The bounds of the path are never truncated: equal ones show readers that the deletes are of one file.
        {_PATH_ID: paths[0].encode(), _POSITION_ID: first.to_bytes(8, "little")},
        {_PATH_ID: paths[-1].encode(), _POSITION_ID: last.to_bytes(8, "little")},
        _split_offsets(metadata),
    )


def path_in_file_system(uri: str) -> str:
    """Return the path of a URI as file systems of pyarrow take it: `bucket/key`, or a local path."""
    scheme, separator, place = uri.partition("://")
    if not separator:
        return uri.removeprefix("file:")
    head, _, key = place.partition("/")
    return f"/{key}" if scheme in ("file", "hdfs") else f"{head.split('@')[0]}/{key}"  # container@account


def _write(
    rows: pa.Table, files: fs.FileSystem, uri: str, settings: FileSettings, options: Mapping[str, Any]
) -> tuple[int, pq.FileMetaData]:
    path = path_in_file_system(uri)
    if files.type_name == "local":
        files.create_dir(path.rpartition("/")[0], recursive=True)
    group = max(1, int(rows.num_rows * settings.row_group_bytes / max(1, rows.nbytes)))
    collected: list[pq.FileMetaData] = []
    with files.open_output_stream(path) as stream:
        with pq.ParquetWriter(
            stream,
            rows.schema,
            compression=settings.codec,
            compression_level=settings.level,
            version="2.6",
            store_schema=False,  # else Arrow's own types come back, such as dictionaries
            store_decimal_as_integer=True,
            metadata_collector=collected,
            **options,
        ) as writer:
            writer.write_table(rows, row_group_size=group)
        size = stream.tell()
    return size, collected[0]


# Columns of a file


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of a Parquet file, which is a leaf of the schema."""

    field_id: int
    type: pa.DataType
    path: str  # as Parquet names it
    members: tuple[str, ...]  # names from the table's column down; empty for a part of a list or map

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return its values. Only for leaves outside of lists and maps."""
        column = rows[self.members[0]]
        for name in self.members[1:]:
            column = pc.struct_field(column, name)
        return column


def _leaves(schema: pa.Schema) -> Iterator[_Leaf]:
    for member in schema:
        yield from _leaves_of(member, member.name, (member.name,))


def _leaves_of(member: pa.Field, path: str, members: tuple[str, ...]) -> Iterator[_Leaf]:
    kind = member.type
    if pa.types.is_struct(kind):
        for part in kind:
            yield from _leaves_of(part, f"{path}.{part.name}", (*members, part.name) if members else ())
    elif pa.types.is_map(kind):
        yield from _leaves_of(kind.key_field, f"{path}.key_value.key", ())
        yield from _leaves_of(kind.item_field, f"{path}.key_value.value", ())
    elif is_list(kind):
        yield from _leaves_of(kind.value_field, f"{path}.list.element", ())
    else:
        field_id = (member.metadata or {}).get(_FIELD_ID)
        if field_id is None:
            raise DataError(f"column {path} has no field id")
        yield _Leaf(int(field_id), kind, path, members)


def _dictionary_columns(rows: pa.Table, leaves: Sequence[_Leaf]) -> list[str] | bool:
    """Return which columns get a dictionary: those of which half the values of a sample are repeated."""
    chosen = []
    sample = _sample(rows)
    for leaf in leaves:
        if pa.types.is_boolean(leaf.type):
            continue
        if not leaf.members or isinstance(leaf.type, pa.BaseExtensionType):
            chosen.append(leaf.path)  # as Parquet's writers do by default
            continue
        if pc.count_distinct(leaf.values(sample)).as_py() * 2 <= sample.num_rows:
            chosen.append(leaf.path)
    return chosen or False


def _sample(rows: pa.Table) -> pa.Table:
    """Return rows at even distances in chunks at even distances. `take` of the table would first copy it into one."""
    chunks = rows.to_batches()
    chunks = chunks[:: -(-len(chunks) // _SAMPLED_CHUNKS)]
    step = max(1, sum(chunk.num_rows for chunk in chunks) // _SAMPLE)
    parts = [chunk.take(np.arange(0, chunk.num_rows, step)) for chunk in chunks]
    return pa.Table.from_batches(parts, rows.schema)


# Statistics


def _split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    offsets = []
    for number in range(metadata.num_row_groups):
        first = metadata.row_group(number).column(0)
        has_dictionary = first.dictionary_page_offset is not None
        offsets.append(
            min(first.dictionary_page_offset, first.data_page_offset) if has_dictionary else first.data_page_offset
        )
    return tuple(offsets)


def _column_sizes(metadata: pq.FileMetaData, ids: Sequence[int]) -> dict[int, int]:
    return {
        field_id: sum(chunk.total_compressed_size for chunk in _chunks(metadata, number))
        for number, field_id in enumerate(ids)
    }


def _chunks(metadata: pq.FileMetaData, number: int) -> list[Any]:
    return [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]


_Statistics = tuple[dict[int, int], dict[int, int], dict[int, int], dict[int, int], dict[int, bytes], dict[int, bytes]]


def _statistics(
    metadata: pq.FileMetaData, leaves: Sequence[_Leaf], rows: pa.Table, settings: FileSettings
) -> _Statistics:
    modes = [settings.metrics.get(leaf.field_id, settings.default_metrics) for leaf in leaves]
    values, nulls, nans = dict[int, int](), dict[int, int](), dict[int, int]()
    lower, upper = dict[int, bytes](), dict[int, bytes]()
    for number, (leaf, mode) in enumerate(zip(leaves, modes, strict=True)):
        if mode == "none":
            continue
        chunks = _chunks(metadata, number)
        values[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
        if all(chunk.statistics is not None and chunk.statistics.has_null_count for chunk in chunks):
            nulls[leaf.field_id] = sum(chunk.statistics.null_count for chunk in chunks)
        if not leaf.members:
            continue
        if pa.types.is_floating(leaf.type):
            nans[leaf.field_id] = pc.sum(pc.is_nan(leaf.values(rows))).as_py() or 0
        found = None if mode == "counts" else _bounds(chunks, leaf, rows)
        if found is not None:
            low, high = (
                _shortened(bound, leaf.type, mode, up=up) for bound, up in zip(found, (False, True), strict=True)
            )
            lower |= {} if low is None else {leaf.field_id: low}
            upper |= {} if high is None else {leaf.field_id: high}
    sizes = _column_sizes(metadata, [leaf.field_id for leaf in leaves])
    kept = {field_id: size for (field_id, size), mode in zip(sizes.items(), modes, strict=True) if mode != "none"}
    return kept, values, nulls, nans, lower, upper


def _bounds(chunks: Sequence[Any], leaf: _Leaf, rows: pa.Table) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest value, serialized. None: there are none, such as in a column of nulls."""
    found = [chunk.statistics for chunk in chunks if chunk.statistics is not None and chunk.statistics.has_min_max]
    if not found or (len(found) < len(chunks) and _is_text(leaf.type)):
        if not _is_text(leaf.type):
            return None
        bounds = pc.min_max(leaf.values(rows))  # Parquet has none for long texts
        if not bounds["min"].is_valid:
            return None
        return tuple(bounds[end].as_buffer().to_pybytes() for end in ("min", "max"))  # type: ignore[return-value]
    least = min(_comparable(each.min_raw, leaf.type) for each in found)
    most = max(_comparable(each.max_raw, leaf.type) for each in found)
    return _serialized(least, leaf.type), _serialized(most, leaf.type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _comparable(raw: Any, kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw.encode() if isinstance(raw, str) else raw


def _serialized(value: Any, kind: pa.DataType) -> bytes:
    if isinstance(value, bytes):
        return value
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_floating(kind):
        return struct.pack("<f" if kind == pa.float32() else "<d", value)
    number = int(value)
    if pa.types.is_decimal(kind):
        bits = (number if number >= 0 else ~number).bit_length()
        return number.to_bytes(bits // 8 + 1, "big", signed=True)
    return number.to_bytes(4 if kind.bit_width == 32 else 8, "little", signed=True)


def _shortened(bound: bytes, kind: pa.DataType, mode: str, *, up: bool) -> bytes | None:
    """Return a bound that has at most as many characters as `mode` allows. None: no such text is large enough."""
    match = _TRUNCATE.fullmatch(mode)
    if match is None or not _is_text(kind):
        return bound
    length = int(match.group(1))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = bound.decode()
        if len(text) <= length:
            return bound
        return _next_text(text[:length]) if up else text[:length].encode()
    if len(bound) <= length:
        return bound
    return _next_bytes(bound[:length]) if up else bound[:length]


def _next_text(text: str) -> bytes | None:
    while text:
        code = ord(text[-1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE_POINT:
            return (text[:-1] + chr(code)).encode()
        text = text[:-1]
    return None


def _next_bytes(data: bytes) -> bytes | None:
    data = data.rstrip(b"\xff")
    return data[:-1] + bytes([data[-1] + 1]) if data else None
