"""The folder of each record: by its topic partition, by fields of its value, or by a time. Pure.

Folders have the names that Confluent's S3 sink gives them: `partition=0`, `country=nl/kind=tea`,
`year=2026/month=11/day=27`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError

Times = npt.NDArray[np.int64]
NO_TIME = np.iinfo(np.int64).min
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The folder of null, as Hive and Spark read it."""
_MINUTE_MS, _SECOND_MS = 60_000, 1_000
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of each row: `names[codes[row]]`. Each name is in use."""

    codes: npt.NDArray[np.int64]
    names: tuple[str, ...]


def whole_partition(partition: int, rows: int) -> Folders:
    """Return the folder of records that are only divided by their topic partition."""
    return Folders(np.zeros(rows, np.int64), (f"partition={partition}",))


# By fields


def field_folders(values: Sequence[pa.Array], fields: Sequence[str], *, with_names: bool) -> Folders:
    """Return folders by the values of fields, such as `country=nl/kind=tea`.

    Args:
        values: a column for each field.
        fields: their paths. Folders have the last part as their name.
        with_names: whether folders are `country=nl`, or only `nl`.

    Raises:
        DataError: a field is not text, a whole number, a boolean or a date.
    """
    columns = [_texts(column, field) for column, field in zip(values, fields, strict=True)]
    names = [field.rpartition(".")[2] for field in fields]
    encoded = [column.dictionary_encode("encode") for column in columns]
    codes = np.zeros(len(columns[0]), np.int64)
    for column in encoded:
        codes = codes * max(1, len(column.dictionary)) + column.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    folders = []
    for row in first.tolist():
        parts = [_escaped(column[row].as_py()) for column in columns]
        pairs = zip(names, parts, strict=True)
        folders.append("/".join(f"{name}={part}" if with_names else part for name, part in pairs))
    return Folders(codes, tuple(folders))


def field_column(values: pa.Array, path: str) -> pa.Array:
    """Return the column of a field. A null on the way gives null. Raises DataError if there is no such field."""
    column = values
    for name in path.split("."):
        kind = column.type
        if pa.types.is_map(kind):
            column = pc.map_lookup(column, pa.scalar(name, kind.key_type), "first")
            continue
        at = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if at < 0:
            raise DataError(f"the value has no field {path}")
        column = pc.struct_field(column, [at])
    return column


def value_column(values: Sequence[Any], path: str) -> pa.Array:
    """Return the column of a field of Connect's Python values. Raises DataError as `field_column`."""
    names = path.split(".")
    found = [_member(value, names, path) for value in values]
    try:
        return pa.array(found)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"field {path} has values of different types") from error


def _member(value: Any, names: Sequence[str], path: str) -> Any:
    for name in names:
        if value is None:
            return None
        fields = value.schema.field(name) if isinstance(value, Struct) else None
        if fields is None and not (isinstance(value, Mapping) and name in value):
            raise DataError(f"the value has no field {path}")
        value = value.get(name)
    return value


def _texts(column: pa.Array, field: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    if not plain and not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        raise DataError(f"field {field} is {kind}. Only text, whole numbers, booleans and dates make folders")
    return column.cast(pa.string())


def _escaped(text: str | None) -> str:
    if not text:
        return NULL_FOLDER
    return quote(text, safe=" !#$&'()+,-.;=@_~") if text not in (".", "..") else text.replace(".", "%2E")


# By time


class TimeSource(Enum):
    """Where the time of a record comes from, as Confluent's `timestamp.extractor` names it."""

    RECORD = "Record"
    FIELD = "RecordField"
    WALL_CLOCK = "Wallclock"


_LETTERS: Mapping[str, tuple[str, Callable[[dt.datetime], str]]] = {
    "YYYY": ("year", lambda at: f"{at.year:04d}"),
    "YY": ("year", lambda at: f"{at.year % 100:02d}"),
    "MM": ("month", lambda at: f"{at.month:02d}"),
    "M": ("month", lambda at: str(at.month)),
    "DDD": ("day", lambda at: f"{at.timetuple().tm_yday:03d}"),
    "dd": ("day", lambda at: f"{at.day:02d}"),
    "d": ("day", lambda at: str(at.day)),
    "HH": ("hour", lambda at: f"{at.hour:02d}"),
    "H": ("hour", lambda at: str(at.hour)),
    "mm": ("minute", lambda at: f"{at.minute:02d}"),
    "m": ("minute", lambda at: str(at.minute)),
    "ss": ("second", lambda at: f"{at.second:02d}"),
    "s": ("second", lambda at: str(at.second)),
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


@dataclass(frozen=True, slots=True)
class TimeFolders:
    """How a time becomes a folder.

    Attributes:
        parts: texts, and functions of the local time.
        duration_ms: times are rounded down to a multiple of it first, in the zone's local time.
        zone: the time zone.
    """

    parts: tuple[str | Callable[[dt.datetime], str], ...]
    duration_ms: int
    zone: ZoneInfo

    def of(self, times_ms: Times) -> Folders:
        """Return the folder of each time. Raises DataError: a record has none, or it is not in the years 1 to 9999."""
        if (times_ms == NO_TIME).any():
            raise DataError("the record has no timestamp, so it has no folder. Use another timestamp.extractor")
        step = _MINUTE_MS if self.duration_ms % _MINUTE_MS == 0 else _SECOND_MS
        if self.duration_ms % _SECOND_MS:
            step = 1
        spans, codes = np.unique(times_ms // step, return_inverse=True)
        names = [self._name(int(span) * step) for span in spans]
        known = {name: code for code, name in enumerate(dict.fromkeys(names))}
        codes = np.array([known[name] for name in names], np.int64)[codes] if len(names) else codes
        return Folders(codes.astype(np.int64), tuple(known))

    def _name(self, time_ms: int) -> str:
        try:
            here = dt.datetime.fromtimestamp(time_ms // _SECOND_MS, self.zone).replace(tzinfo=None)
            local_ms = (here - _EPOCH) // dt.timedelta(milliseconds=1) + time_ms % _SECOND_MS
            floored_ms = local_ms - local_ms % self.duration_ms
            at = _EPOCH + dt.timedelta(milliseconds=floored_ms)
        except (OverflowError, ValueError, OSError) as error:
            raise DataError(f"the time {time_ms} ms has no folder: it is not in the years 1 to 9999") from error
        return "".join(part if isinstance(part, str) else part(at) for part in self.parts)


def parsed_path_format(text: str) -> tuple[str | Callable[[dt.datetime], str], ...]:
    """Return the parts of a path format such as `'year'=YYYY/'month'=MM`. Raises ValueError with the reason."""
    parts: list[str | Callable[[dt.datetime], str]] = []
    end = 0
    for found in _TOKEN.finditer(text):
        if found.start() != end:
            break
        end = found.end()
        quoted, letter = found.group(1), found.group(2)
        if letter is None:
            parts.append(found.group() if quoted is None else quoted.replace("''", "'") or "'")
            continue
        word = {"yyyy": "YYYY", "yy": "YY", "D": "DDD"}.get(found.group(), found.group())
        if word not in _LETTERS:
            known = ", ".join(_LETTERS)
            raise ValueError(f"{found.group()} is not supported. Use {known}, and other text in single quotes")
        parts.append(_LETTERS[word][1])
    if end != len(text):
        raise ValueError(f"a quote is not closed: {text[end:]}")
    if any(".." in part or "//" in part for part in parts if isinstance(part, str)):
        raise ValueError("it must not contain .. or //")
    return tuple(parts)


def field_times(column: pa.Array, field: str) -> Times:
    """Return times of a field, ms since 1970: a whole number of ms, a timestamp, a date, or ISO 8601 text.

    Null gives `NO_TIME`. Raises DataError.
    """
    kind: Any = column.type
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            cut = pc.replace_substring_regex(column, r"(\.\d{3})\d+", r"\1")
            zoned = pc.match_substring_regex(cut, r"(Z|[+-]\d\d:?\d\d)$")
            column = pc.if_else(zoned, cut, pc.binary_join_element_wise(cut, "Z", "")).cast(pa.timestamp("ms", "UTC"))
        elif pa.types.is_timestamp(kind):
            column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", kind.tz))
        elif pa.types.is_date(kind):
            column = column.cast(pa.timestamp("ms"))
        elif not pa.types.is_integer(kind) and not pa.types.is_null(kind):
            raise DataError(f"field {field} is {kind}, not a time. Use ms since 1970, a timestamp or ISO 8601 text")
        numbers = column.cast(pa.int64())
    except pa.ArrowException as error:
        raise DataError(f"field {field} is not a time: {str(error).splitlines()[0]}") from error
    found: Times = numbers.fill_null(NO_TIME).to_numpy()
    return found
