"""A whole Arrow column as JSON text, byte for byte what JsonConverter writes row by row.

Strings are put together by Arrow's kernels; no Python object is made per row. A column with something that has
no exact form here answers None and goes the row way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.logical import PYTHON_TYPES
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.base.json_text import java_string
from spark_connect_rt.records.converters.json_logical_columns import bytes_text, logical_text
from spark_connect_rt.records.converters.json_pieces import (
    Piece,
    boolean_pieces,
    double_pieces,
    integer_pieces,
    joined_texts,
)

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
    """Whether the column is just what the schema says, without a null that needs a default or is forbidden."""
    if values.null_count and (not schema.optional or schema.default is not None):
        return False
    if schema.name in PYTHON_TYPES:
        return True  # logical_text looks at the Arrow type
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
    """Return what a column's JSON is put together of, "null" where it is null: a join less than ``column_json``."""
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
    """Whether any byte of a column's texts has another form in JSON; looked at as one text."""
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
    """Return the digits, and what Java writes behind those of whole numbers."""
    size = pc.abs(values)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    if not pc.all(pc.fill_null(plain, True)).as_py():
        return None
    text = pc.cast(values, pa.string())
    return text, pc.if_else(pc.match_substring(text, "."), _EMPTY, ".0")
