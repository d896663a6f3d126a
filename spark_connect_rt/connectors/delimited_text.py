"""Rows of CSV text: where they begin and end, and their columns. Pure.

A row may hold line breaks inside quotes. Columns are parsed all at once by Arrow; when that fails, row by row, so
that the errant row is known by its line and byte offset.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv

from spark_connect_rt.errors import DataError

TYPES: Mapping[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one file's rows read: column names and types in file order, delimiter, texts that mean null."""

    columns: tuple[tuple[str, pa.DataType], ...]
    delimiter: str = ","
    quote: str = '"'
    null_values: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row's text with its place: line number (1 is the file's first) and byte offset; line breaks it spans."""

    text: bytes
    line: int
    offset: int


def parse_schema(text: str) -> dict[str, pa.DataType]:
    """Turn ``year:int32,carrier:string`` into column -> type. Raises DataError naming the bad entry."""
    types: dict[str, pa.DataType] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = entry.rpartition(":")
        if not name or kind.strip().lower() not in TYPES:
            raise DataError(f"schema entry {entry!r}: expected column:type with a type of {', '.join(TYPES)}")
        types[name.strip()] = TYPES[kind.strip().lower()]
    return types


def complete_rows_end(text: bytes, quote: bytes) -> int:
    """Return how many bytes of ``text`` are complete rows: a line break inside quotes ends none."""
    end = text.rfind(b"\n") + 1
    while end and text.count(quote, 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


def raw_rows(text: bytes, quote: bytes, first_line: int, first_offset: int) -> Iterator[RawRow]:
    """Yield the rows of complete-row text, each with its place."""
    line, offset, held = first_line, first_offset, b""
    for piece in text.splitlines(keepends=True):
        held += piece
        if held.count(quote) % 2:
            continue
        if held.strip(b"\r\n"):
            yield RawRow(held, line, offset)
        line += held.count(b"\n")
        offset += len(held)
        held = b""


def struct_type(dialect: Dialect) -> pa.StructType:
    """Return the Arrow type of a row."""
    return pa.struct([pa.field(name, kind) for name, kind in dialect.columns])


def parse_columns(text: bytes, dialect: Dialect) -> pa.StructArray | None:
    """Parse complete rows at once; None when some row does not fit and must be found row by row."""
    names = [name for name, _ in dialect.columns]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(1 << 16, len(text) + 1)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote,
                newlines_in_values=dialect.quote.encode() in text,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict(dialect.columns),
                null_values=list(dialect.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.array([], type=struct_type(dialect))
    return pa.StructArray.from_arrays(batches[0].columns, fields=list(struct_type(dialect)))


def parse_row(row: RawRow, dialect: Dialect) -> dict[str, Any]:
    """Parse one row. Raises DataError saying which column does not fit."""
    try:
        text = row.text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}") from error
    cells: Sequence[str] = next(csv.reader(io.StringIO(text), delimiter=dialect.delimiter, quotechar=dialect.quote), [])
    if len(cells) != len(dialect.columns):
        raise DataError(f"{len(cells)} columns, expected {len(dialect.columns)}")
    return {name: _cell(cell, name, kind, dialect) for cell, (name, kind) in zip(cells, dialect.columns, strict=True)}


def _cell(cell: str, name: str, kind: pa.DataType, dialect: Dialect) -> Any:
    if cell in dialect.null_values:
        return None
    if pa.types.is_string(kind):
        return cell
    try:
        return pa.scalar(cell).cast(kind).as_py()
    except pa.ArrowInvalid as error:
        raise DataError(f"column {name}: {cell!r} is no {kind}") from error
