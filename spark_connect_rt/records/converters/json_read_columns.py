"""JSON texts as columns: flat objects of one shape without a Python object for each, others as parsed trees.

Owns the shape seen last: names in their order, and the kinds of their values. A column is exactly the result of
``value_column`` for the parsed texts. To ensure that, each text has to be one object with these names in this order,
nothing nested, none missing and none twice. Most are cut at their quotes. If a text has escapes, Arrow parses all of
them, after each has matched a pattern of the shape, because Arrow alone does not check that. Anything else returns
None and is parsed one by one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.records.converters.json_columns import ARROW_TYPES
from spark_connect_rt.records.converters.json_cut import Cut, pieces_of
from spark_connect_rt.records.converters.json_values import ONE_OF, JsonSettings, checked_column
from spark_connect_rt.records.transforms.struct_columns import has_moments, moments

FEWEST = 200  # texts: below, the pattern and the reader cost more than they save
MOST_BYTES = 1 << 30
_LONGEST_WAIT = 64
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_ .@$/:-]+", re.ASCII)
# No control characters, and no escaped surrogates: those depend on the next character.
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}|u[dD][0-7][0-9a-fA-F]{2})'
_INTEGER, _NUMBER = r"-?\d+", r"-?\d[\d.eE+-]*"
_STRING = r'"(?:[^"\\\x00-\x1f]|' + _ESCAPE + r')*"'
_PATTERNS: Sequence[tuple[pa.DataType, str]] = (
    (pa.int64(), _INTEGER),
    (pa.float64(), _NUMBER),
    (pa.string(), _STRING),
    (pa.bool_(), "true|false"),
)
_CUT_AS: Mapping[Type, pa.DataType] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), pa.int64()),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), pa.float64()),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
}
_UNFIT = (pa.ArrowException, orjson.JSONDecodeError, OverflowError)
_SURE = 2**53 - 1  # up to here each whole number has a separate double
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
        """Return binary texts without a schema as a column; None: parse them one by one."""
        shape = self._shape
        return None if shape is None else self._tried(data, lambda: _read(shape, data))

    def read_payloads(self, opening: bytes, schema: Schema, data: pa.Array) -> pa.Array | None:
        """Return the payloads of binary envelopes with a schema as a column; None: parse them one by one.

        Args:
            opening: the text before each payload. Behind it is only a closing brace.
            schema: of the payloads.
        """
        return self._tried(data, lambda: _read_payloads(opening, schema, data))

    def _tried(self, data: pa.Array, read: Callable[[], pa.Array | None]) -> pa.Array | None:
        """Return what is read, and after a failure try again later and later."""
        self._left -= 1
        if self._left >= 0 or len(data) < FEWEST or data.null_count:
            return None
        try:
            column = read()
        except _UNFIT:
            column = None
        if column is None:
            self._left, self._wait = self._wait, min(_LONGEST_WAIT, 2 * self._wait)
        else:
            self._left, self._wait = 0, 1
        return column

    def learn(self, column: pa.Array) -> None:
        """Note the result of texts that were parsed one by one."""
        self._shape = _Shape.of(column) if len(column) >= FEWEST else self._shape


def _read(shape: _Shape, data: pa.Array) -> pa.Array | None:
    columns = _cut(shape, data) or _parsed(shape, _texts(data))
    if columns is None or any(column is None for column in columns):
        return None
    return pa.StructArray.from_arrays(columns, shape.schema.names)


def _texts(data: pa.Array) -> pa.StringArray:
    """Return binary texts as strings. Raises pa.ArrowException: one is not valid UTF-8."""
    return data.cast(pa.string())


def _cut(shape: _Shape, data: pa.Array) -> list[pa.Array | None] | None:
    cut = Cut.of(shape.schema, data[0].as_py())
    found = None if cut is None else cut.columns(map(_texts, pieces_of(data)))
    if found is None:
        return None
    whole = rf"\A{_INTEGER}\z"
    return [_exact(values, None if texts is None else _Written(texts, whole, orjson.loads)) for values, texts in found]


def _read_payloads(opening: bytes, schema: Schema, data: pa.Array) -> pa.Array | None:
    kinds = _kinds_of(schema)
    first = _payloads(opening, data.slice(0, 1))
    if kinds is None or first is None:
        return None
    text = first[0].as_py().encode()
    payload = orjson.loads(text)
    if not isinstance(payload, dict) or payload.keys() != kinds.keys():
        return None
    cut = Cut.of(pa.schema([(name, kinds[name]) for name in payload]), text)
    pieces = pieces_of(data, len(opening) + 1)
    found = None if cut is None else cut.columns(_payloads(opening, piece) for piece in pieces)
    if found is None:
        return None
    by_name = {name: column.values for name, column in zip(payload, found, strict=True)}
    columns = [_of_schema(member.schema, by_name[member.name]) for member in schema.fields]
    if any(column is None for column in columns):
        return None
    return pa.StructArray.from_arrays(columns, [member.name for member in schema.fields])


def _payloads(opening: bytes, data: pa.Array) -> pa.StringArray | None:
    """Return what is between the opening and the closing brace of each text; None: some text is another one."""
    if not pc.all(pc.starts_with(data, opening)).as_py() or not pc.all(pc.ends_with(data, "}")).as_py():
        return None
    return _texts(pc.binary_slice(data, len(opening), -1))


def _kinds_of(schema: Schema) -> dict[str, pa.DataType] | None:
    """Return how the texts of each member are read; None: a member has another type, or a name with odd characters."""
    if schema.type is not Type.STRUCT or not schema.fields:
        return None
    kinds = {}
    for member in schema.fields:
        if member.schema.name in logical.PYTHON_TYPES and not has_moments(member.schema):
            return None
        kind = _CUT_AS.get(member.schema.type)
        if kind is None or not _PLAIN_NAME.fullmatch(member.name):
            return None
        kinds[member.name] = kind
    return kinds


def _of_schema(schema: Schema, column: pa.Array) -> pa.Array | None:
    """Return what was read as a column of a schema; None: a value does not fit, or a null has another meaning."""
    if column.null_count and not schema.keeps_null:
        return None
    if schema.name in logical.PYTHON_TYPES:
        return moments(schema, column)
    if pa.types.is_floating(column.type):
        column = column.cast(ARROW_TYPES[schema.type])
        values = column.to_numpy(zero_copy_only=False)
        # -0 is a whole number, so it has no sign, but -0.0 has one.
        if np.isinf(values).any() or ((values == 0) & np.signbit(values)).any():
            return None
        return column
    return column.cast(ARROW_TYPES[schema.type])


def _parsed(shape: _Shape, texts: pa.Array) -> list[pa.Array | None] | None:
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
    found = zip(table.column_names, table.columns, strict=True)
    return [_exact(column.combine_chunks(), _of_members(texts, name)) for name, column in found]


@dataclass(frozen=True, slots=True)
class _Written:
    """The texts in which the numbers of a column are written.

    Attributes:
        whole: the pattern of a text whose number has no point and no exponent.
        number: reads the number of a text. A whole number that is too large for 64 bits is a float.
    """

    texts: pa.StringArray
    whole: str
    number: Callable[[str], Any]

    def are_whole(self, places: Places) -> npt.NDArray[np.bool_]:
        """Return which of these places have a whole number."""
        found: npt.NDArray[np.bool_] = pc.match_substring_regex(self._at(places), self.whole).to_numpy(
            zero_copy_only=False
        )
        return found

    def numbers(self, places: Places) -> list[Any]:
        """Return the numbers at these places."""
        return [self.number(text) for text in self._at(places).to_pylist()]

    def _at(self, places: Places) -> pa.StringArray:
        return self.texts.take(pa.array(places))


def _of_members(texts: pa.StringArray, name: str) -> _Written:
    """Return how the numbers of a member are written in its objects."""
    # Between quotes a quote is escaped, so the name with its colon is found nowhere else.
    return _Written(texts, f'"{re.escape(name)}": ?{_INTEGER}[,}}]', lambda text: orjson.loads(text)[name])


def _exact(column: pa.Array, written: _Written | None) -> pa.Array | None:
    """Return a column as its values are by themselves: all null, or numbers of which some are whole.

    Args:
        written: None: no number of it is whole.
    """
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if not pa.types.is_floating(column.type):
        return column
    if not pc.all(pc.is_finite(column)).as_py():
        return None
    if written is None:
        return column
    values = column.to_numpy(zero_copy_only=False)  # NaN where null: not equal to itself
    doubtful = np.flatnonzero(np.trunc(values) == values)
    whole = doubtful[written.are_whole(doubtful)] if len(doubtful) else doubtful
    integers = values[whole]
    if len(whole) and np.abs(integers).max() > _SURE:
        exact = written.numbers(whole)
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


# JSON trees as Arrow columns: objects of one kind, with objects of one kind in them, or plain values.
#
# The elements of a column are exactly the values of ``json_values`` for each tree. Arrays, fields that only some trees
# have, and other unusual trees return None and go by records.


_SCHEMALESS_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_NULL = type(None)
_UNFIT_VALUE = (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError)


def value_column(schema: Schema | None, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    """Return JSON trees as one column, None if there is no exact one.

    Without a schema, a column of whole and other numbers is a sparse union of int64 and float64. In Connect, too, each
    of these numbers has its own type.
    """
    try:
        if schema is None:
            return None if None in trees and dict in map(type, trees) else _schemaless(trees)
        return _structs(schema, trees, settings) if schema.type is Type.STRUCT else _plain(schema, trees, settings)
    except _UNFIT_VALUE:
        return None


def _structs(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    if schema.name in (ONE_OF, settings.union_name) and schema.name is not None:
        return None
    columns = []
    for member in schema.fields:
        # Raises if a tree is not an object or lacks the field: Connect has defaults for that.
        values = list(map(itemgetter(member.name), trees))
        make = _nested_structs if member.schema.type is Type.STRUCT else _plain
        column = make(member.schema, values, settings)
        if column is None:
            return None
        columns.append(column)
    return pa.StructArray.from_arrays(columns, [field.name for field in schema.fields]) if columns else None


def _nested_structs(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    present = [tree for tree in trees if tree is not None]
    if len(present) < len(trees) and not schema.keeps_null:
        return None
    column = _structs(schema, present, settings)
    return None if column is None else _spread(column, trees)


def _spread(column: pa.Array, trees: Sequence[Any]) -> pa.Array:
    """Return a column of the trees that are not null with nulls for the others."""
    if len(column) == len(trees):
        return column
    places = itertools.count()
    return column.take(pa.array([None if tree is None else next(places) for tree in trees], pa.int64()))


def _plain(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    if schema.name in logical.PYTHON_TYPES:
        return _moments(schema, trees)
    kind = ARROW_TYPES.get(schema.type)
    values = None if kind is None else checked_column(schema, trees, settings)
    return None if values is None else pa.array(values, kind)


def _moments(schema: Schema, trees: Sequence[Any]) -> pa.Array | None:
    """Return dates or times of whole numbers; None: some are other values, or have no exact column."""
    kinds = set(map(type, trees))
    if kinds - {int, _NULL} or (_NULL in kinds and not schema.keeps_null):
        return None
    return moments(schema, pa.array(trees, pa.int64()))


def _schemaless_structs(trees: Sequence[dict[str, Any] | None]) -> pa.Array | None:
    present = [tree for tree in trees if tree is not None]
    shapes = set(map(tuple, present))
    if len(shapes) != 1:
        return None
    (names,) = shapes
    absent = None if len(present) == len(trees) else [tree is None for tree in trees]
    columns = []
    for name in names:
        values = list(map(itemgetter(name), present))
        if absent is not None:
            of_present = iter(values)
            values = [None if is_absent else next(of_present) for is_absent in absent]
        column = _schemaless(values)
        if column is None:
            return None
        columns.append(column)
    mask = None if absent is None else pa.array(absent)
    return pa.StructArray.from_arrays(columns, names, mask=mask) if columns else None


def _schemaless(values: Sequence[Any]) -> pa.Array | None:
    kinds = set(map(type, values)) - {_NULL}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {dict}:
        return _schemaless_structs(values)
    if kinds == {int, float}:
        return _number_columns(values)
    kind = _SCHEMALESS_TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return None if kind is None else pa.array(values, kind)


def _number_columns(values: Sequence[int | float | None]) -> pa.Array:
    fractions = [type(value) is float for value in values]
    parts = [
        pa.array([None if other else value for other, value in zip(fractions, values, strict=True)], pa.int64()),
        pa.array([value if own else None for own, value in zip(fractions, values, strict=True)], pa.float64()),
    ]
    return pa.UnionArray.from_sparse(pa.array(list(map(int, fractions)), pa.int8()), parts, ["int64", "float64"])
