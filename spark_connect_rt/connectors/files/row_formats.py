"""Bytes of a file -> rows in typed Arrow columns: CSV and JSON lines. Pure; the caller provides the bytes.

A format cuts bytes into whole records and parses many at once. If some of them are unreadable, ``segments`` finds them
by halving. So good rows keep their columns, and only the bad ones are reported.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.errors import DataError

TYPES: dict[str, tuple[pa.DataType, Schema]] = {
    "int8": (pa.int8(), schemas.OPTIONAL_INT8),
    "int16": (pa.int16(), schemas.OPTIONAL_INT16),
    "int32": (pa.int32(), schemas.OPTIONAL_INT32),
    "int64": (pa.int64(), schemas.OPTIONAL_INT64),
    "float32": (pa.float32(), schemas.OPTIONAL_FLOAT32),
    "float64": (pa.float64(), schemas.OPTIONAL_FLOAT64),
    "boolean": (pa.bool_(), schemas.OPTIONAL_BOOLEAN),
    "string": (pa.string(), schemas.OPTIONAL_STRING),
}
_NO_NAME = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")  # controls, other line ends
_MANY_DIGITS = re.compile(rb"[0-9](?:[.]?[0-9]){15}")  # more than every float64 holds
_DIGITS = re.compile(rb"(?<![0-9.])0[0-9]|[0-9](?:[.]?[0-9]){15}")  # leading zeros, or many digits
_CSV_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?")


def parse_types(text: str) -> dict[str, str]:
    """Return column -> type of ``name:type,name:type``. Raises ValueError with the reason."""
    columns: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, kind = part.rpartition(":")
        if not colon or not name.strip() or kind.strip().lower() not in TYPES:
            raise ValueError(f"{part!r} is not valid. Use name:type with one of {', '.join(TYPES)}")
        if name.strip() in columns:
            raise ValueError(f"column {name.strip()} is listed twice")
        columns[name.strip()] = kind.strip().lower()
    return columns


def row_schema(columns: Mapping[str, str]) -> Schema:
    """Return the Connect schema of a row; every column may be null."""
    return struct_of({name: TYPES[kind][1] for name, kind in columns.items()})


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """Comma-separated rows; quotes may hide delimiters and line breaks (RFC 4180). A header is read by ``header``."""

    columns: Mapping[str, str]
    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()  # columns whose types the first rows gave: later digits may not fit
    _record: re.Pattern[bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_record", csv_record(self.delimiter))

    def complete_end(self, chunk: bytes) -> int:
        """Return where the last whole record ends, 0 when there is none."""
        if b'"' not in chunk:
            return chunk.rfind(b"\n") + 1
        end = 0
        for end in self._ends(chunk):  # noqa: B007 - the last one is wanted
            pass
        return end

    def _ends(self, chunk: bytes) -> Iterator[int]:
        end = 0
        while found := self._record.match(chunk, end):
            end = found.end()
            yield end

    def record_ends(self, records: bytes) -> list[int]:
        """Return where each record ends."""
        return list(self._ends(records))

    def parse(self, records: bytes) -> pa.StructArray:
        """Return one struct a row. Raises DataError with the reason."""
        rows = _structs(self.read(records, self.columns))
        if self.inferred and _DIGITS.search(records):
            texts = self.read(records, {**self.columns, **dict.fromkeys(self.inferred, "string")})
            for name in self.inferred:
                if not _keeps_digits(texts.column(name), self.columns[name]):
                    kind = self.columns[name]
                    raise DataError(
                        f"column {name}: {kind}, the type of the first rows, would lose digits of a later one. Set "
                        "the column's type in schema"
                    )
        return rows

    def read(self, records: bytes, columns: Mapping[str, str]) -> pa.Table:
        """Return the rows; types of columns that are not in ``columns`` are inferred from them. Raises DataError."""
        try:
            return pyarrow.csv.read_csv(
                pa.BufferReader(records),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(self.columns), use_threads=False, block_size=len(records) + 1
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in records),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: TYPES[kind][0] for name, kind in columns.items()},
                    null_values=["", *self.null_values],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise DataError(self._reason(str(error))) from None

    def _reason(self, text: str) -> str:
        names = list(self.columns)
        return _CSV_COLUMN.sub(lambda found: f"column {names[int(found.group(1))]}: ", text)


def inferred_types(rows: CsvFormat | JsonLinesFormat, records: bytes) -> dict[str, str]:
    """Return column -> type as ``records`` show them; of CSV, ``rows`` has the names.

    Raises DataError: a column holds objects or arrays, or there is no record to infer from.
    """
    if not records.strip():
        if isinstance(rows, CsvFormat):
            return {}
        raise DataError("there is no row to infer the columns from")
    found = {field.name: _kind_of(field) for field in rows.read(records, {}).schema}
    if isinstance(rows, CsvFormat):
        texts = rows.read(records, dict.fromkeys(rows.columns, "string"))
        return {name: kind if _keeps_digits(texts.column(name), kind) else "string" for name, kind in found.items()}
    floats = [name for name, kind in found.items() if kind == "float64"]
    if floats and (name := _rounded_member(records, floats)):
        raise DataError(
            f"column {name} contains a number with more digits than a float64 keeps. Set its type in schema"
        )
    return found


def _keeps_digits(texts: pa.ChunkedArray, kind: str) -> bool:
    """Return whether a column can be printed again unchanged: no leading zeros, no more digits than its type holds."""
    if kind not in ("int64", "float64"):
        return True
    if pc.any(pc.match_substring_regex(texts, "^[+-]?0[0-9]")).as_py():
        return False
    long = texts.filter(pc.match_substring_regex(texts, _MANY_DIGITS.pattern.decode()))
    return kind == "int64" or not any(map(_is_rounded, long.to_pylist()))


def _is_rounded(text: str) -> bool:
    """Return whether a float64 cannot represent the number of a text exactly."""
    return Decimal(repr(float(text))) != Decimal(text.strip())


def _rounded_member(records: bytes, names: Sequence[str]) -> str | None:
    for line in records.splitlines():
        tree = json.loads(line, parse_int=str, parse_float=str) if _MANY_DIGITS.search(line) else {}
        for name in names:
            if isinstance(tree.get(name), str) and _is_rounded(tree[name]):
                return name
    return None


def _kind_of(field: pa.Field) -> str:
    if pa.types.is_nested(field.type):
        raise DataError(
            f"column {field.name} contains {field.type}, which has no column type. Set the columns in schema"
        )
    for fits, kind in (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "int64"),
        (pa.types.is_floating, "float64"),
    ):
        if fits(field.type):
            return kind
    return "string"


def csv_record(delimiter: str) -> re.Pattern[bytes]:
    """Return the pattern of one whole CSV record with its line end."""
    cut = re.escape(delimiter.encode())
    quoted = rb'"(?:[^"]|"")*+"[^%b\r\n]*+' % cut
    plain = rb'[^%b"\r\n][^%b\r\n]*+(?:\r(?!\n)[^%b\r\n]*+)*+' % (cut, cut, cut)
    cell = rb"(?:%b|%b|)" % (quoted, plain)
    return re.compile(rb"%b(?:%b%b)*+\r?\n" % (cell, cut, cell))


def header_names(record: bytes, delimiter: str) -> list[str]:
    """Return the column names of a header record. Raises DataError: unreadable, empty or double names."""
    try:
        text = record.decode()
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(f"header: {error}. Set file.encoding to the file's encoding") from None
    except csv.Error as error:
        raise DataError(f"header: {error}") from None
    names = [name.strip() for name in rows[0]] if rows else []
    if not names or "" in names or len(set(names)) != len(names):
        raise DataError(f"header: column names must not be empty or repeated, but are {names}")
    if strange := _NO_NAME.search("".join(names)):
        raise DataError(
            f"header: a column name contains {strange.group()!r}. The file has another encoding (file.encoding) or "
            "line ends that are not LF, CRLF or CR"
        )
    return names


@dataclass(frozen=True, slots=True)
class JsonLinesFormat:
    """One JSON object a line; members without a column are left out, missing ones are null."""

    columns: Mapping[str, str]

    def complete_end(self, chunk: bytes) -> int:
        """Return where the last whole line ends, 0 when there is none."""
        return chunk.rfind(b"\n") + 1

    def record_ends(self, records: bytes) -> list[int]:
        """Return where each line ends."""
        return [found.end() for found in re.finditer(rb"\n", records)]

    def parse(self, records: bytes) -> pa.StructArray:
        """Return one struct a line. Raises DataError with the reason."""
        return _structs(self.read(records, self.columns).select(list(self.columns)))

    def read(self, records: bytes, columns: Mapping[str, str]) -> pa.Table:
        """Return the lines; without ``columns`` they are inferred from them. Raises DataError with the reason."""
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(records),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(records) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema([(name, TYPES[kind][0]) for name, kind in columns.items()]),
                    unexpected_field_behavior="ignore" if columns else "infer",
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(str(error)) from None
        lines = sum(1 for line in records.split(b"\n") if line.strip())
        if table.num_rows != lines:
            raise DataError(f"{table.num_rows} JSON objects on {lines} lines. Write one object per line")
        return table


def _structs(table: pa.Table) -> pa.StructArray:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.array([], pa.struct(list(table.schema)))
    return batches[0].to_struct_array()


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring records: parsed ones (``rows``), or one that cannot be (``reason``). Offsets are in the chunk."""

    start: int
    end: int
    rows: Any = None
    reason: str | None = None


def segments(records: bytes, ends: Sequence[int], parse: Callable[[bytes], Any]) -> Iterator[Segment]:
    """Yield the records in order, as many good ones at a time as halving finds, each bad one alone.

    Args:
        records: whole records; ``ends`` is where each of them ends.
    """
    starts = [0, *ends[:-1]]

    def cut(first: int, last: int) -> Iterator[Segment]:
        start, end = starts[first], ends[last]
        piece = records[start:end]
        if not piece.strip():
            yield Segment(start, end)
            return
        try:
            yield Segment(start, end, rows=parse(piece))
        except DataError as error:
            if first == last:
                yield Segment(start, end, reason=str(error))
                return
            middle = (first + last) // 2
            yield from cut(first, middle)
            yield from cut(middle + 1, last)

    if ends:
        yield from cut(0, len(ends) - 1)
