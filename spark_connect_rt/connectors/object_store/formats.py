"""Rows as the bytes of a file: JSON lines, Parquet, CSV, Avro. Pure.

Two steps. `prepare` gives each row its final form as soon as it arrives, so a row that has none is found at once.
`encode` joins prepared rows to a file. The same rows give the same bytes.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import zlib
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.connectors.lakehouse.connect_columns import ICEBERG_TYPES, is_list, table_column, wire_column
from spark_connect_rt.connectors.lakehouse.table_schema import fit
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_bytes import dump_json
from spark_connect_rt.records.converters.json_values import JsonSettings, to_tree
from spark_connect_rt.records.pipeline.arrow_values import connect_column
from spark_connect_rt.records.pipeline.connect_values import connect_values
from spark_connect_rt.records.registry.avro_schema import AvroSettings, avro_schema
from spark_connect_rt.records.registry.avro_values import datum_writer, parsed, write_datum

JSON_LINES, PARQUET, CSV, AVRO = "jsonl", "parquet", "csv", "avro"
_PLACE = "value"


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows in a format's own form.

    Attributes:
        kind: rows of kinds that do not go together are never in one file. See `RowFormat.merged`.
        rows: one element a row.
    """

    kind: Any
    rows: pa.Array


class RowFormat(ABC):
    """A file format: how rows are prepared, joined and encoded."""

    ending: str
    """Of file names, such as `.snappy.parquet`."""

    @abstractmethod
    def prepare(self, values: pa.Array, schema: Schema | None) -> PreparedRows:
        """Return the rows of values, none of which is null. Raises DataError: a value does not fit the format.

        Args:
            values: in Arrow's form.
            schema: of each value. None: schemaless.
        """

    def prepare_values(self, values: Sequence[Any], schema: Schema | None) -> PreparedRows:
        """Return the rows of Connect's Python values. Raises DataError as `prepare`."""
        return self.prepare(wire_column(values, schema, _PLACE), schema)

    @abstractmethod
    def merged(self, kind: Any, other: Any) -> Any | None:
        """Return the kind of a file with rows of both kinds, None if there is none."""

    @abstractmethod
    def encode(self, kind: Any, rows: Sequence[pa.Array]) -> bytes:
        """Return a file with these rows. `kind` is merged of all of theirs."""


class JsonLines(RowFormat):
    """One JSON value a line, as JsonConverter without schemas writes it. Rows of all kinds go together."""

    def __init__(self, *, level: int | None = None) -> None:
        """Take the level of gzip. None: the file is not compressed."""
        self._level = level
        self.ending = ".json" if level is None else ".json.gz"
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false"})

    def prepare(self, values: pa.Array, schema: Schema | None) -> PreparedRows:
        """Return the JSON text of each value."""
        found = self._converter.column_from_connect_data("", schema, values)
        if found is None or found.null_count:
            return self.prepare_values(connect_values(values, schema), schema)
        return PreparedRows("", found.cast(pa.large_binary()))

    def prepare_values(self, values: Sequence[Any], schema: Schema | None) -> PreparedRows:
        """Return the JSON text of each value. A field that a value lacks is absent, not null."""
        texts = [self._converter.from_connect_data("", schema, value) or b"null" for value in values]
        return PreparedRows("", pa.array(texts, pa.large_binary()))

    def merged(self, kind: Any, other: Any) -> Any | None:
        """Return the kind that all rows have."""
        return kind

    def encode(self, kind: Any, rows: Sequence[pa.Array]) -> bytes:
        """Return the lines of all rows, compressed if the settings ask for it."""
        return compressed(b"".join(map(_lines, rows)), self._level)


def _lines(column: pa.Array) -> bytes:
    """Return texts with a line end behind each."""
    kind = pa.large_binary()
    ended = pc.binary_join_element_wise(column, pa.scalar(b"\n", kind), pa.scalar(b"", kind))
    size = pc.sum(pc.binary_length(ended)).as_py() or 0
    return bytes(memoryview(ended.buffers()[2])[:size])


def compressed(data: bytes, level: int | None) -> bytes:
    """Return data as gzip compresses it, without the time, so that it is the same each time. None: as it is."""
    return data if level is None else gzip.compress(data, level, mtime=0)


class _Columns(RowFormat):
    """Formats whose rows are structs with one column for each field."""

    name: ClassVar[str]

    def prepare(self, values: pa.Array, schema: Schema | None) -> PreparedRows:
        """Return structs in the types of the table sinks."""
        rows = table_column(values, schema, ICEBERG_TYPES, _PLACE)
        if rows is None or not pa.types.is_struct(rows.type):
            raise DataError(
                f"the value is {'empty' if rows is None else rows.type}, but a row of {self.name} needs named fields. "
                "Use jsonl, or the transformation HoistField"
            )
        kind = rows.type if schema is not None else _with_long_numbers(rows)
        return PreparedRows((schema, kind), rows)

    def merged(self, kind: Any, other: Any) -> Any | None:
        """Return the wider kind. Values with a schema go together only if it is the same."""
        if kind[0] != other[0]:
            return None
        if kind[1] == other[1] and kind[0] is not None:
            return kind
        together = _merged_type(kind[1], other[1])
        return None if together is None else (kind[0], together)

    def _table(self, kind: Any, rows: Sequence[pa.Array]) -> pa.Table:
        schema = pa.schema([member.remove_metadata() for member in kind[1]])
        tables = [pa.Table.from_struct_array(column) for column in rows]
        return pa.concat_tables([table if table.schema == schema else fit(table, schema).table for table in tables])


_MOST_IN_DOUBLE = 1 << 53
_LONG = {"connectrt": "long"}


def _with_long_numbers(rows: pa.Array) -> pa.DataType:
    """Return the type of rows without a schema. Columns of numbers that a double cannot hold are marked."""
    members = []
    for member, column in zip(rows.type, rows.flatten(), strict=True):
        if pa.types.is_struct(member.type):
            member = member.with_type(_with_long_numbers(column))
        elif pa.types.is_int64(member.type):
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None and not -_MOST_IN_DOUBLE <= bounds["min"] <= bounds["max"] <= _MOST_IN_DOUBLE:
                member = member.with_metadata(_LONG)
        members.append(member)
    return pa.struct(members)


def _merged_type(left: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that holds values of both without a change, None if there is none."""
    if pa.types.is_null(left) or pa.types.is_null(other):
        return other if pa.types.is_null(left) else left
    if pa.types.is_struct(left) and pa.types.is_struct(other):
        fields = {member.name: member for member in left}
        for member in other:
            known = fields.get(member.name)
            merged = member if known is None else _merged_field(known, member)
            if merged is None:
                return None
            fields[member.name] = merged
        return pa.struct(list(fields.values()))
    if is_list(left) and is_list(other):
        element = _merged_type(left.value_type, other.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return left if left == other else None


def _merged_field(left: pa.Field, other: pa.Field) -> pa.Field | None:
    marks = {**(left.metadata or {}), **(other.metadata or {})}
    kinds = {left.type, other.type}
    if kinds == {pa.int64(), pa.float64()}:
        return None if marks else left.with_type(pa.float64())
    kind = _merged_type(left.type, other.type)
    return None if kind is None else left.with_type(kind).with_nullable(True).with_metadata(marks)


class Parquet(_Columns):
    """Parquet, with the types of the table sinks."""

    name = "Parquet"

    def __init__(self, codec: str = "snappy") -> None:
        """Take the codec of pages: none, snappy, gzip, lz4, zstd or brotli."""
        self._codec = codec
        self.ending = ".parquet" if codec == "none" else f".{codec}.parquet"

    def encode(self, kind: Any, rows: Sequence[pa.Array]) -> bytes:
        """Return a file of one or more row groups."""
        out = io.BytesIO()
        pq.write_table(
            self._table(kind, rows),
            out,
            compression=self._codec,
            version="2.6",
            store_schema=False,  # readers need no Arrow types
        )
        return out.getvalue()


class Csv(_Columns):
    """CSV with a header. Nested values are JSON, bytes are base64, null is an empty cell without quotes."""

    name = "CSV"

    def __init__(self, *, delimiter: str = ",", level: int | None = None) -> None:
        """Take the delimiter, and the level of gzip. None: the file is not compressed."""
        self._delimiter = delimiter
        self._level = level
        self.ending = ".csv" if level is None else ".csv.gz"
        self._json = JsonLines()

    def prepare(self, values: pa.Array, schema: Schema | None) -> PreparedRows:
        """Return structs whose members are the cells of the row."""
        rows = super().prepare(values, schema).rows
        cells = pa.StructArray.from_arrays(
            [self._cells(column) for column in rows.flatten()], names=[member.name for member in rows.type]
        )
        kind = cells.type if schema is not None else _with_long_numbers(cells)
        return PreparedRows((schema, kind), cells)

    def _cells(self, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            texts = [None if value is None else b64encode(value).decode() for value in column.to_pylist()]
            return pa.array(texts, pa.string())
        if not pa.types.is_nested(kind):
            return column
        plain, schema = connect_column(kind)
        values = connect_values(column.cast(plain), schema)
        json = self._json.prepare_values([value for value in values if value is not None], schema).rows
        texts = iter(json.cast(pa.large_string()).to_pylist())
        return pa.array([None if value is None else next(texts) for value in values], pa.string())

    def encode(self, kind: Any, rows: Sequence[pa.Array]) -> bytes:
        """Return the header and the rows."""
        out = io.BytesIO()
        pyarrow.csv.write_csv(self._table(kind, rows), out, pyarrow.csv.WriteOptions(delimiter=self._delimiter))
        return compressed(out.getvalue(), self._level)


class Avro(RowFormat):
    """Avro container files, with the schemas that AvroConverter writes. Values without a schema are `Anything`."""

    ending = ".avro"

    def __init__(self, codec: str = "null") -> None:
        """Take the codec of blocks: null, deflate, bzip2 or snappy."""
        self._codec = codec
        self._settings = AvroSettings()
        self._last: tuple[Schema | None, Any, Any] | None = None

    def prepare(self, values: pa.Array, schema: Schema | None) -> PreparedRows:
        """Return the bytes of each datum."""
        return self.prepare_values(connect_values(values, schema), schema)

    def prepare_values(self, values: Sequence[Any], schema: Schema | None) -> PreparedRows:
        """Return the bytes of each datum."""
        if schema is not None and schema.optional:
            schema = replace(schema, optional=False, default=None)  # a row, not a union of a row and null
        if self._last is None or self._last[0] != schema:
            tree = avro_schema(schema, self._settings)
            self._last = (schema, parsed(tree), datum_writer(schema, tree, self._settings))
        _, wire, convert = self._last
        data = []
        for value in values:
            out = io.BytesIO()
            write_datum(out, wire, convert(value))
            data.append(out.getvalue())
        return PreparedRows((schema,), pa.array(data, pa.large_binary()))

    def merged(self, kind: Any, other: Any) -> Any | None:
        """Return the kind if both have the same schema, or none."""
        return kind if kind == other else None

    def encode(self, kind: Any, rows: Sequence[pa.Array]) -> bytes:
        """Return an Avro container file with the schema in its header."""
        tree = orjson.dumps(avro_schema(kind[0], self._settings))
        data = [datum for column in rows for datum in column.to_pylist()]
        sync = hashlib.md5(tree, usedforsecurity=False).digest()
        meta = {b"avro.schema": tree, b"avro.codec": self._codec.encode()}
        out = io.BytesIO()
        out.write(b"Obj\x01" + _long(len(meta)))
        for name, value in meta.items():
            out.write(_long(len(name)) + name + _long(len(value)) + value)
        out.write(_long(0) + sync)
        for begin, end in _blocks(data):
            block = self._compressed(b"".join(data[begin:end]))
            out.write(_long(end - begin) + _long(len(block)) + block + sync)
        return out.getvalue()

    def _compressed(self, block: bytes) -> bytes:
        if self._codec == "deflate":
            return zlib.compress(block)[2:-4]
        if self._codec == "bzip2":
            return bz2.compress(block)
        if self._codec == "snappy":
            return bytes(pa.compress(block, "snappy", asbytes=True)) + zlib.crc32(block).to_bytes(4, "big")
        return block


_BLOCK_BYTES = 64 << 10


def _blocks(data: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return where the blocks of about 64 KiB begin and end."""
    blocks, begin, size = [], 0, 0
    for at, datum in enumerate(data):
        size += len(datum)
        if size >= _BLOCK_BYTES:
            blocks.append((begin, at + 1))
            begin, size = at + 1, 0
    return blocks + ([(begin, len(data))] if begin < len(data) else [])


def _long(number: int) -> bytes:
    """Return a long as Avro writes it: zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def header_text(value: Any) -> str | None:
    """Return the value of a header as a file of headers has it: text as it is, other values as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return dump_json(to_tree(None, value, JsonSettings())).decode()
