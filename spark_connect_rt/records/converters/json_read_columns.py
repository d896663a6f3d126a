"""Texts of flat JSON objects of one shape as a column of structs, without a Python object for each; no schema.

Owns the shape seen last: names in their order, and of what kind their values are. A column is exactly what
``json_value_columns`` makes of the parsed texts. To be sure of that, each text has to match a pattern of the shape
before Arrow parses it: one object, these names in this order, nothing nested, none missing and none twice, which
Arrow alone does not say. Anything else answers None and is parsed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from spark_connect_rt.records.converters.json_cut_objects import Cut

FEWEST = 200  # texts: below, the pattern and the reader cost more than they save
MOST_BYTES = 1 << 30
_LONGEST_WAIT = 64
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_ .@$/:-]+", re.ASCII)
# No control characters, and no escaped surrogates: those need a look at the one behind them.
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}|u[dD][0-7][0-9a-fA-F]{2})'
_INTEGER, _NUMBER = r"-?\d+", r"-?\d[\d.eE+-]*"
_STRING = r'"(?:[^"\\\x00-\x1f]|' + _ESCAPE + r')*"'
_PATTERNS: Sequence[tuple[pa.DataType, str]] = (
    (pa.int64(), _INTEGER),
    (pa.float64(), _NUMBER),
    (pa.string(), _STRING),
    (pa.bool_(), "true|false"),
)
_UNFIT = (pa.ArrowException, orjson.JSONDecodeError, OverflowError)
_SURE = 2**53 - 1  # up to here each whole number is a double of its own
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Shape:
    schema: pa.Schema
    pattern: str

    @staticmethod
    def of(column: pa.Array) -> _Shape | None:
        """Return the shape of a column of structs; None: of something else, or with names or values of another kind."""
        if not pa.types.is_struct(column.type) or not column.type.num_fields:
            return None
        parts, fields = list[str](), list[pa.Field]()
        for member in column.type:
            kind = pa.float64() if pa.types.is_union(member.type) else member.type  # numbers, whole and others
            pattern = next((expression for known, expression in _PATTERNS if known == kind), None)
            if pattern is None or not _PLAIN_NAME.fullmatch(member.name):
                return None
            fields.append(pa.field(member.name, kind))
            parts.append(f'"{re.escape(member.name)}": ?(?:{pattern}|null)')
        return _Shape(pa.schema(fields), r"\A\{" + ", ?".join(parts) + r"\}\z")


class FlatObjects:
    """Reads columns of the shape seen last. One thread."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._left, self._wait = 0, 1

    def read(self, data: pa.Array) -> pa.Array | None:
        """Return binary texts as a column; None: parse them one by one."""
        self._left -= 1
        if self._shape is None or self._left >= 0 or len(data) < FEWEST or data.null_count:
            return None
        try:
            column = _read(self._shape, data)
        except _UNFIT:
            column = None
        if column is None:
            self._left, self._wait = self._wait, min(_LONGEST_WAIT, 2 * self._wait)
        else:
            self._left, self._wait = 0, 1
        return column

    def learn(self, column: pa.Array) -> None:
        """Take note of what texts that were parsed one by one had become."""
        self._shape = _Shape.of(column) if len(column) >= FEWEST else self._shape


def _read(shape: _Shape, data: pa.Array) -> pa.Array | None:
    texts = data.cast(pa.string())  # raises: it is no UTF-8
    found = _cut(shape, texts) or _parsed(shape, texts)
    if found is None:
        return None
    columns = [_exact(name, column, texts) for name, column in zip(shape.schema.names, found, strict=True)]
    if any(column is None for column in columns):
        return None
    return pa.StructArray.from_arrays(columns, shape.schema.names)


def _cut(shape: _Shape, texts: pa.Array) -> list[pa.Array] | None:
    cut = Cut.of(shape.schema, texts[0].as_buffer().to_pybytes())
    return None if cut is None else cut.columns(texts)


def _parsed(shape: _Shape, texts: pa.Array) -> list[pa.Array] | None:
    if not pc.all(pc.match_substring_regex(texts, shape.pattern)).as_py():
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    if lines.size > MOST_BYTES:
        return None
    table = pa.json.read_json(
        pa.BufferReader(lines),
        pa.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
        pa.json.ParseOptions(explicit_schema=shape.schema, unexpected_field_behavior="error"),
    )
    if len(table) != len(texts) or table.column_names != shape.schema.names:
        return None
    return [column.combine_chunks() for column in table.columns]


def _exact(name: str, column: pa.Array, texts: pa.Array) -> pa.Array | None:
    """Return a column as its values are by themselves: all null, or numbers of which some are whole."""
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if not pa.types.is_floating(column.type):
        return column
    if not pc.all(pc.is_finite(column)).as_py():
        return None
    values = column.to_numpy(zero_copy_only=False)  # NaN where null: not equal to itself
    doubtful = np.flatnonzero(np.trunc(values) == values)
    # Between quotes a quote is escaped, so the name with its colon is found nowhere else.
    written = pc.match_substring_regex(texts.take(pa.array(doubtful)), f'"{re.escape(name)}": ?{_INTEGER}[,}}]')
    whole = doubtful[written.to_numpy(zero_copy_only=False)]
    integers = values[whole]
    if len(whole) and np.abs(integers).max() > _SURE:
        exact = [orjson.loads(text)[name] for text in texts.take(pa.array(whole)).to_pylist()]
        whole = whole[[type(value) is int for value in exact]]  # the others are too large for one
        integers = np.array([value for value in exact if type(value) is int], np.int64)
    return _numbers(values, whole, integers.astype(np.int64)) if len(whole) else column


def _numbers(values: Floats, places: Places, integers: npt.NDArray[np.int64]) -> pa.Array:
    """Return the union of whole numbers, at these places, and others, null among the whole ones; or these alone."""
    is_whole = np.zeros(len(values), bool)
    is_whole[places] = True
    spread = np.zeros(len(values), np.int64)
    spread[places] = integers
    whole_part = pa.array(spread, mask=~is_whole)
    fractional = ~(is_whole | np.isnan(values))
    if not fractional.any():
        return whole_part
    parts = [whole_part, pa.array(values, mask=~fractional)]
    return pa.UnionArray.from_sparse(pa.array(fractional.astype(np.int8)), parts, ["int64", "float64"])
