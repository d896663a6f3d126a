"""A whole Arrow column as JSON text, byte for byte as JsonConverter writes it row by row.

Arrow's kernels assemble the texts; no Python object is made per row. A column with a value that has no exact form here
returns None and goes by rows.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.logical import PYTHON_TYPES
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.base.json_text import java_string
from spark_connect_rt.errors import DataError

# Arrow columns of logical types and bytes as JSON text, byte for byte as JsonConverter writes it row by row.
#
# Values that the row form rejects, or writes in another way than plain digits, return None and go by rows.


_DAYS = (-719_162, 2_932_896)  # of the years 1 to 9999, the range of Python's dates
_DAY_MS = 86_400_000
_PLAIN_SCALE = 6  # with more digits after the point a small number has an exponent in Java's text


def logical_text(schema: Schema, values: pa.Array, numeric_decimals: bool) -> pa.Array | None:
    """Return the JSON text of each element, null where it is null; None: no exact column form."""
    kind = values.type
    if schema.name == logical.DECIMAL:
        return _decimal_text(schema, values, numeric_decimals) if pa.types.is_decimal(kind) else None
    if schema.name == logical.TIMESTAMP and pa.types.is_timestamp(kind) and kind.unit != "ns":
        ms = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", kind.tz)).cast(pa.int64())
        return _text_within(ms, _DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1)
    if schema.name == logical.DATE and kind == pa.date32():
        return _text_within(values.cast(pa.int32()), *_DAYS)
    if schema.name == logical.TIME and kind == pa.time64("us"):
        return pc.divide(values.cast(pa.int64()), 1_000).cast(pa.string())
    return None


def _text_within(numbers: pa.Array, least: int, most: int) -> pa.Array | None:
    found = pc.min_max(numbers).as_py()
    inside = found["min"] is None or (found["min"] >= least and found["max"] <= most)
    return numbers.cast(pa.string()) if inside else None


def _decimal_text(schema: Schema, values: pa.Array, numeric: bool) -> pa.Array | None:
    try:
        scale = logical.scale_of(schema)
    except DataError:
        return None
    if values.type.scale != scale or scale < 0:
        return None
    if numeric:
        return values.cast(pa.string()) if scale <= _PLAIN_SCALE else None
    width = values.type.byte_width
    data = memoryview(values.buffers()[1])[values.offset * width :] if len(values) else b""
    texts = [_base64(data[index * width : (index + 1) * width]) for index in range(len(values))]
    text = pa.array(texts, pa.string())
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text


def _base64(little_endian: bytes | memoryview) -> str:
    """Return the unscaled value as Java's BigInteger writes it: as few bytes as hold it, the sign's bit among them."""
    unscaled = int.from_bytes(little_endian, "little", signed=True)
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return f'"{b64encode(unscaled.to_bytes(bits // 8 + 1, "big", signed=True)).decode()}"'


def bytes_text(values: pa.Array) -> pa.Array:
    """Return base64 of each element."""
    texts = [None if value is None else f'"{b64encode(value).decode()}"' for value in values.to_pylist()]
    return pa.array(texts, pa.string())


# The pieces of columns of JSON text: texts, columns of texts, and columns with few different ones.
#
# Pure. The cost of Arrow's join depends on the number of pieces, and formatting a number on the number of values. So a
# column with few different texts stays a column of numbers into a table as long as possible. Text next to it is added
# to the entries of the table, and neighbouring tables become one. Whole numbers are two such columns, their thousands
# and the rest. A double of three places at most has a third for its decimal places.


LEAST_ROWS = 1_000  # fewer are not worth the tables
_MOST_TEXTS = 2_048  # of a table: it stays in the processor's cache
_MOST_THOUSANDS = 256
_TABLES = 64  # kept, about 2 MiB
_LOOKED_AT_FIRST = 64  # of a column of doubles
_MOST_PLAIN = 1e7  # Java writes an exponent from there on
_Codes = npt.NDArray[Any]
_Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of few different texts: each is one of each of ``parts``, joined."""

    codes: _Codes
    """Of which texts, each at least 0; in the order of ``itertools.product``."""
    parts: tuple[_Texts, ...]
    size: int
    """How many texts there are."""


Piece: TypeAlias = str | Coded | pa.Array
"""A text that is equal in every row, or a column of texts."""

_THREE_DIGITS: _Texts = tuple(f"{number:03}" for number in range(1_000))
_SMALL: _Texts = tuple(map(str, range(1_000)))
_FRACTIONS: _Texts = tuple("." + (digits.rstrip("0") or "0") for digits in _THREE_DIGITS)
_BOOLEANS: _Texts = ("false", "true")


def joined_texts(pieces: Sequence[Piece]) -> pa.Array:
    """Return the texts of the pieces joined for each row; at least one piece is a column."""
    made = list[Piece]()
    for piece in pieces:
        joined = _as_one(made[-1], piece) if made else None
        if joined is None:
            made.append(piece)
        else:
            made[-1] = joined
    return pc.binary_join_element_wise(*map(_texts_of, made), "")


def _as_one(left: Piece, right: Piece) -> Piece | None:
    if isinstance(left, str):
        if isinstance(right, str):
            return left + right
        return Coded(right.codes, ((left,), *right.parts), right.size) if isinstance(right, Coded) else None
    if not isinstance(left, Coded):
        return None
    if isinstance(right, str):
        return Coded(left.codes, (*left.parts, (right,)), left.size)
    if not isinstance(right, Coded) or left.size * right.size > _MOST_TEXTS:
        return None
    codes = left.codes.astype(np.int32) * np.int32(right.size) + right.codes
    return Coded(codes, (*left.parts, *right.parts), left.size * right.size)


def _texts_of(piece: Piece) -> Any:
    if isinstance(piece, Coded):
        return pc.take(_table(piece.parts), pa.array(piece.codes, pa.int32()), boundscheck=False)
    return pa.scalar(piece) if isinstance(piece, str) else piece


@lru_cache(_TABLES)
def _table(parts: tuple[_Texts, ...]) -> pa.Array:
    return pa.array(list(map("".join, product(*parts))), pa.string())


def boolean_pieces(values: pa.Array) -> Sequence[Piece]:
    """Return the pieces of booleans, none of them null."""
    return [Coded(values.to_numpy(zero_copy_only=False).view(np.uint8), (_BOOLEANS,), len(_BOOLEANS))]


def integer_pieces(values: pa.Array) -> Sequence[Piece]:
    """Return the pieces of whole numbers, none of them null."""
    pieces = None if len(values) < LEAST_ROWS else _digits_of(values.to_numpy())
    return [pc.cast(values, pa.string())] if pieces is None else pieces


def _digits_of(numbers: npt.NDArray[Any]) -> Sequence[Piece] | None:
    """Return thousands and the rest; None: some are negative, or they are too far apart."""
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0:
        return None
    if most < len(_SMALL):
        return [Coded(numbers, (_SMALL,), len(_SMALL))]
    first, last = least // 1_000, most // 1_000
    if not first or last - first >= _MOST_THOUSANDS:
        return None
    behind = (numbers - numbers.dtype.type(first * 1_000)).astype(np.int32)
    thousands = behind // np.int32(1_000)
    texts = tuple(map(str, range(first, last + 1)))
    return [
        Coded(thousands, (texts,), len(texts)),
        Coded(behind - thousands * np.int32(1_000), (_THREE_DIGITS,), len(_THREE_DIGITS)),
    ]


def double_pieces(values: pa.Array) -> Sequence[Piece] | None:
    """Return the pieces of doubles of three places at most, none of them null; None: some are others, or negative."""
    if len(values) < LEAST_ROWS or values.type != pa.float64():
        return None
    numbers = values.to_numpy()
    if _in_thousandths(numbers[:_LOOKED_AT_FIRST]) is None or (thousandths := _in_thousandths(numbers)) is None:
        return None
    whole = thousandths // 1_000
    digits = _digits_of(whole) or [pc.cast(pa.array(whole), pa.string())]
    return [*digits, Coded(thousandths - whole * 1_000, (_FRACTIONS,), len(_FRACTIONS))]


def _in_thousandths(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """Return doubles times 1,000. None: some are not equal to their decimals of three places.

    Two decimals of at most 15 digits are never the same double, so those are the shortest, which Java writes.
    """
    if np.signbit(numbers).any() or not (numbers < _MOST_PLAIN).all():  # of -0.0, infinity and NaN, too
        return None
    rounded = np.rint(numbers * 1_000.0)
    return rounded.astype(np.int64) if (rounded / 1_000.0 == numbers).all() else None


ARROW_TYPES = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_SCHEMALESS_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
# Texts, not scalars of Arrow: one of those, made by an import of this module, imports pandas.
_NULL = "null"
_EMPTY = ""
_FIRST_PLAIN = 0x20  # below it are control characters


def column_json(schema: Schema | None, values: pa.Array, numeric_decimals: bool = False) -> pa.Array | None:
    """Return the JSON text of every element, null where the element is null; None: no exact column form.

    ``schema`` only has to agree with the Arrow type: values of a schema print as schemaless ones do, but for logical
    types. ``numeric_decimals``: those are numbers, not base64.
    """
    if schema is not None and not _agrees(schema, values):
        return None
    kind = values.type
    if schema is not None and schema.name in PYTHON_TYPES:
        return logical_text(schema, values, numeric_decimals)
    if pa.types.is_struct(kind):
        return _struct_json(schema, values, numeric_decimals)
    if pa.types.is_binary(kind):
        return bytes_text(values)
    if pa.types.is_boolean(kind) or kind in _SCHEMALESS_INTEGERS:
        return pc.cast(values, pa.string())
    if pa.types.is_string(kind):
        return _string_json(values)
    if pa.types.is_floating(kind) and kind != pa.float16():
        return float_text(values)
    return values.cast(pa.string()) if pa.types.is_null(kind) else None


def _agrees(schema: Schema, values: pa.Array) -> bool:
    """Whether the column fits its schema exactly, without a null that needs a default or is forbidden."""
    if values.null_count and not schema.keeps_null:
        return False
    if schema.name in PYTHON_TYPES:
        return True  # logical_text checks the Arrow type
    if schema.name is not None and schema.type is not Type.STRUCT:
        return False
    if schema.type is not Type.STRUCT:
        return bool(ARROW_TYPES.get(schema.type) == values.type)
    names = [member.name for member in schema.fields]
    if not pa.types.is_struct(values.type):
        return False
    return names == [values.type.field(index).name for index in range(values.type.num_fields)]


def _struct_json(schema: Schema | None, values: pa.Array, numeric_decimals: bool) -> pa.Array | None:
    members: tuple[Field, ...] | None = None if schema is None else schema.fields
    if values.type.num_fields == 0:
        return pc.if_else(values.is_valid(), pa.scalar("{}"), pa.scalar(None, pa.string()))
    pieces: list[Piece] = []
    valid = values.is_valid() if values.null_count else None
    # flatten() carries the struct's own nulls down into the fields, and undoes slices.
    for index, column in enumerate(values.flatten()):
        if members is not None and valid is not None:
            return None  # a null struct would look like nulls in required fields
        parts = _pieces(None if members is None else members[index].schema, column, numeric_decimals)
        if parts is None:
            return None
        opening = "{" if index == 0 else ","
        pieces += [f"{opening}{java_string(values.type.field(index).name)}:", *parts]
    joined = joined_texts([*pieces, "}"])
    return joined if valid is None else pc.if_else(valid, joined, pa.scalar(None, pa.string()))


def _pieces(schema: Schema | None, values: pa.Array, numeric_decimals: bool) -> Sequence[Piece] | None:
    """Return the pieces of a column's JSON, "null" where it is null: one join less than ``column_json``."""
    is_plain = schema is None or (schema.name is None and ARROW_TYPES.get(schema.type) == values.type)
    if is_plain and not values.null_count:
        if pa.types.is_string(values.type):
            return ['"', _escaped(values), '"']
        if pa.types.is_boolean(values.type):
            return boolean_pieces(values)
        if values.type in _SCHEMALESS_INTEGERS:
            return integer_pieces(values)
        if pa.types.is_floating(values.type) and values.type != pa.float16():
            return double_pieces(values) or _float_pieces(values)
    text = column_json(schema, values, numeric_decimals)
    if text is None:
        return None
    return [pc.fill_null(text, _NULL) if text.null_count else text]


def _string_json(values: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, _escaped(values), quote, _EMPTY)


def _escaped(values: pa.Array) -> pa.Array:
    if _may_need_escape(values):
        values = pc.replace_substring(values, "\\", "\\\\")
        values = pc.replace_substring(values, '"', '\\"')
        if pc.any(pc.match_substring_regex(values, "[\x00-\x1f]")).as_py():
            for code in range(32):
                values = pc.replace_substring(values, chr(code), java_string(chr(code))[1:-1])
    return values


def _may_need_escape(values: pa.Array) -> bool:
    """Whether any byte of a column's texts is escaped in JSON; all texts are checked as one."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return False
    first, last = (
        pa.Array.from_buffers(pa.int32(), 1, [None, offsets], offset=at)[0].as_py()
        for at in (values.offset, values.offset + len(values))
    )
    text = np.frombuffer(data, np.uint8)[first:last]
    return bool(((text < _FIRST_PLAIN) | (text == ord('"')) | (text == ord("\\"))).any())


def float_text(values: pa.Array) -> pa.Array | None:
    """Return Java's text of a float column, or None when it has NaN, infinities, or needs an exponent."""
    pieces = _float_pieces(values)
    return None if pieces is None else pc.binary_join_element_wise(*pieces, _EMPTY)


def _float_pieces(values: pa.Array) -> Sequence[pa.Array] | None:
    """Return the digits, and the text that Java writes after those of whole numbers."""
    size = pc.abs(values)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    if not pc.all(pc.fill_null(plain, True)).as_py():
        return None
    text = pc.cast(values, pa.string())
    return text, pc.if_else(pc.match_substring(text, "."), _EMPTY, ".0")
