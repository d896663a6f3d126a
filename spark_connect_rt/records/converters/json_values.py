"""Connect values <-> JSON trees, with and without a schema (Java ``JsonConverter.convertToJson/ToConnect``)."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import to_single
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_bytes import (
    decimal_tree,
    java_float_tree,
    java_single_tree,
    plain_float_tree,
)

# Which member of a choice (JSON Schema ``oneOf``, ``anyOf``) a JSON value is of: the one that explains most of it.
#
# Java's ``JsonSchemaData`` compares objects by the properties that match; here numbers and enums are compared, too.


NAMESPACE = "io.confluent.connect.json"
ONE_OF = f"{NAMESPACE}.OneOf"
ENUM = f"{NAMESPACE}.Enum"

_FLOATS = (Type.FLOAT32, Type.FLOAT64)
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def unexplained(schema: Schema, tree: Any) -> int:
    """Return how many parts of a JSON value would be lost or changed by reading it with a schema that it fits."""
    if tree is None or schema.name == logical.DECIMAL:
        return 0
    if schema.type is Type.STRUCT and schema.name == ONE_OF:
        return min(unexplained(member.schema, tree) for member in schema.fields)
    if isinstance(tree, dict):
        return _of_object(schema, tree)
    if isinstance(tree, list):
        of = schema.value_schema
        return 0 if schema.type is not Type.ARRAY or of is None else sum(unexplained(of, part) for part in tree)
    if schema.type in _INTEGERS:
        return int(isinstance(tree, float | Decimal))
    if schema.type in _FLOATS:
        return int(not isinstance(tree, float | Decimal))  # 5 would become 5.0, and "NaN" a number
    return int(schema.parameter(ENUM) is not None and schema.parameter(f"{ENUM}.{tree}") is None)


def _of_object(schema: Schema, tree: dict[str, Any]) -> int:
    if schema.type is Type.MAP and schema.value_schema is not None:
        return sum(unexplained(schema.value_schema, part) for part in tree.values())
    members = {member.name: member.schema for member in schema.fields}
    return sum(unexplained(members[name], part) if name in members else 1 for name, part in tree.items())


_INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, slots=True)
class JsonSettings:
    """The options that change the form of values."""

    numeric_decimals: bool = False
    replace_null_with_default: bool = True
    map_entries: bool = False  # a map whose keys are not text, or may be null: objects of key and value, not pairs
    union_name: str | None = None  # structs of this name stand for the one of their fields that is not null


def to_tree(schema: Schema | None, value: Any, settings: JsonSettings) -> Any:
    """Return the JSON tree of a value. Raises DataError: it does not fit its schema or has no JSON form."""
    if schema is None:
        return _schemaless_tree(value, settings)
    if value is None:
        if schema.default is not None and settings.replace_null_with_default:
            return to_tree(schema, schema.default, settings)
        if schema.optional:
            return None
        raise DataError("Conversion error: null value for field that is required and has no default value")
    if schema.name in logical.PYTHON_TYPES:
        if schema.name == logical.DECIMAL and settings.numeric_decimals and isinstance(value, Decimal):
            return decimal_tree(value)
        value = logical.to_primitive(schema, value)
    return _WRITERS[schema.type](schema, value, settings)


def _schemaless_tree(value: Any, settings: JsonSettings) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return java_float_tree(value)
    if isinstance(value, Struct):
        return to_tree(value.schema, value, settings)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_schemaless_tree(part, settings) for part in value]
    if isinstance(value, Mapping):
        parts = [(_schemaless_tree(k, settings), _schemaless_tree(v, settings)) for k, v in value.items()]
        return dict(parts) if all(isinstance(key, str) for key in value) else parts
    raise DataError(f"{type(value).__name__} has no JSON form without a schema")


def _mismatch(schema: Schema, value: Any) -> DataError:
    return DataError(f"{type(value).__name__} {value!r:.80} does not fit {schema.name or schema.type.value}")


def _write_integer(schema: Schema, value: Any, _: JsonSettings) -> Any:
    limit = 1 << _INTEGER_BITS[schema.type] - 1
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        raise _mismatch(schema, value)
    return value


def _write_float(schema: Schema, value: Any, _: JsonSettings) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(schema, value)
    return (java_single_tree if schema.type is Type.FLOAT32 else java_float_tree)(float(value))


def _plain(kind: type[Any]) -> Callable[[Schema, Any, JsonSettings], Any]:
    def write(schema: Schema, value: Any, _: JsonSettings) -> Any:
        if not isinstance(value, kind):
            raise _mismatch(schema, value)
        return value

    return write


def _write_bytes(schema: Schema, value: Any, _: JsonSettings) -> Any:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _mismatch(schema, value)
    return base64.b64encode(value).decode()


def _write_array(schema: Schema, value: Any, settings: JsonSettings) -> Any:
    if not isinstance(value, list | tuple):
        raise _mismatch(schema, value)
    return [to_tree(schema.value_schema, part, settings) for part in value]


def _write_map(schema: Schema, value: Any, settings: JsonSettings) -> Any:
    if not isinstance(value, Mapping):
        raise _mismatch(schema, value)
    keys, values = schema.key_schema, schema.value_schema
    parts = [(to_tree(keys, key, settings), to_tree(values, part, settings)) for key, part in value.items()]
    if _is_object(keys, settings):
        return dict(parts)
    return [{"key": key, "value": part} for key, part in parts] if settings.map_entries else parts


def _is_object(keys: Schema | None, settings: JsonSettings) -> bool:
    """Return whether a map is an object; in JSON Schema not if a key may be null (``JsonSchemaData``, objectMode)."""
    return keys is not None and keys.type is Type.STRING and not (settings.map_entries and keys.optional)


def _write_struct(schema: Schema, value: Any, settings: JsonSettings) -> Any:
    if schema.name is not None and schema.name == settings.union_name and isinstance(value, Struct):
        chosen = next((field for field in schema.fields if value.get_without_default(field.name) is not None), None)
        return None if chosen is None else to_tree(chosen.schema, value.get(chosen.name), settings)
    if isinstance(value, Struct):
        if value.schema is not schema and value.schema.fields != schema.fields:
            raise DataError("the struct's schema is not the record's")
        read: Callable[[str], Any] = value.get_without_default
    elif isinstance(value, Mapping):
        read = value.get
    else:
        raise _mismatch(schema, value)
    tree = {}
    for member in schema.fields:
        try:
            tree[member.name] = to_tree(member.schema, read(member.name), settings)
        except DataError as error:
            raise DataError(f"field {member.name}: {error}") from error
    return tree


_WRITERS: dict[Type, Callable[[Schema, Any, JsonSettings], Any]] = {
    **dict.fromkeys(_INTEGER_BITS, _write_integer),
    Type.FLOAT32: _write_float,
    Type.FLOAT64: _write_float,
    Type.BOOLEAN: _plain(bool),
    Type.STRING: _plain(str),
    Type.BYTES: _write_bytes,
    Type.ARRAY: _write_array,
    Type.MAP: _write_map,
    Type.STRUCT: _write_struct,
}


def from_tree(schema: Schema | None, tree: Any, settings: JsonSettings) -> Any:
    """Return the Connect value of a JSON tree. Raises DataError: it does not fit the schema."""
    if schema is None:
        return tree  # Java reads int, float, str, bool, dict and list as well
    if tree is None:
        if schema.default is not None and settings.replace_null_with_default:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.value} field")
    if schema.name == logical.DECIMAL and not isinstance(tree, str):
        if isinstance(tree, bool) or not isinstance(tree, int | float | Decimal):
            raise _mismatch(schema, tree)
        return Decimal(str(tree))
    value = _READERS[schema.type](schema, tree, settings)
    return logical.from_primitive(schema, value) if schema.name in logical.PYTHON_TYPES else value


def _read_number(schema: Schema, tree: Any, _: JsonSettings) -> Any:
    if isinstance(tree, bool) or not isinstance(tree, int | float | Decimal):
        if isinstance(tree, str) and tree in ("NaN", "Infinity", "-Infinity"):
            return float(tree)
        raise _mismatch(schema, tree)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return to_single(float(tree)) if schema.type is Type.FLOAT32 else float(tree)
    return _write_integer(schema, int(tree), _)


def _read_bytes(schema: Schema, tree: Any, _: JsonSettings) -> bytes:
    try:
        return base64.b64decode(tree, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _mismatch(schema, tree) from None


def _read_array(schema: Schema, tree: Any, settings: JsonSettings) -> list[Any]:
    if not isinstance(tree, list):
        raise _mismatch(schema, tree)
    return [from_tree(schema.value_schema, part, settings) for part in tree]


def _read_map(schema: Schema, tree: Any, settings: JsonSettings) -> dict[Any, Any]:
    keys, values = schema.key_schema, schema.value_schema
    if _is_object(keys, settings):
        if not isinstance(tree, dict):
            raise _mismatch(schema, tree)
        return {key: from_tree(values, part, settings) for key, part in tree.items()}
    if settings.map_entries and isinstance(tree, list):
        tree = [list(map(entry.get, ("key", "value"))) if _is_entry(entry) else entry for entry in tree]
    if not isinstance(tree, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in tree):
        raise DataError(f"a map with keys that are not text must be an array of pairs, not {tree!r:.80}")
    try:
        return {from_tree(keys, key, settings): from_tree(values, part, settings) for key, part in tree}
    except TypeError as error:
        raise DataError(f"map key: {error}") from error


def _is_entry(tree: Any) -> bool:
    return isinstance(tree, dict) and len(tree) == 2


def _read_union(schema: Schema, tree: Any, settings: JsonSettings) -> Struct:
    """Return the value in the member that explains most of it, the first of equals."""
    fits: list[tuple[int, int, Any]] = []
    for member in schema.fields:
        try:
            value = from_tree(member.schema, tree, settings)
        except DataError:
            continue
        fits.append((unexplained(member.schema, tree), member.index, value))
        if not fits[-1][0]:
            break
    if not fits:
        raise DataError(f"Did not find matching oneof field for data: {tree!r:.80}")
    _, at, value = min(fits, key=itemgetter(0, 1))
    values: list[Any] = [None] * len(schema.fields)
    values[at] = value
    return Struct.of_checked(schema, values)


def _read_struct(schema: Schema, tree: Any, settings: JsonSettings) -> Struct:
    if schema.name is not None and schema.name == settings.union_name:
        return _read_union(schema, tree, settings)
    if not isinstance(tree, dict):
        raise _mismatch(schema, tree)
    read = tree.get
    # from_tree returns only values that fit
    return Struct.of_checked(schema, [from_tree(field.schema, read(field.name), settings) for field in schema.fields])


_READERS: dict[Type, Callable[[Schema, Any, JsonSettings], Any]] = {
    **dict.fromkeys((*_INTEGER_BITS, Type.FLOAT32, Type.FLOAT64), _read_number),
    Type.BOOLEAN: _plain(bool),
    Type.STRING: _plain(str),
    Type.BYTES: _read_bytes,
    Type.ARRAY: _read_array,
    Type.MAP: _read_map,
    Type.STRUCT: _read_struct,
}


# Structs of one schema as JSON and back. The work that depends only on the schema is done once, not for each struct.
#
# The results equal those of ``json_values``; anything unusual returns None and goes that way.


_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_KINDS: dict[Type, type[Any]] = {Type.BOOLEAN: bool, Type.STRING: str, Type.FLOAT32: float, Type.FLOAT64: float}
_LEAST_FIELDS = 2  # fewer make no rows for itemgetter


def tree_maker(schema: Schema, settings: JsonSettings) -> Callable[[Struct], dict[str, Any] | None] | None:
    """Return the function from a struct of this very schema to its JSON tree (for ``dump_exact``).

    None: schema, or struct, is unusual.
    """
    if schema.type is not Type.STRUCT:
        return None
    names = [field.name for field in schema.fields]
    converts = [
        (field.index, _writer(field.schema, settings)) for field in schema.fields if not _goes_as_it_is(field.schema)
    ]
    strict = [field.index for field in schema.fields if not field.schema.keeps_null]

    def make(struct: Struct) -> dict[str, Any] | None:
        values = list(struct.values(with_defaults=False))
        if None in values and any(values[at] is None for at in strict):  # forbidden, or it stands for a default
            return None
        for at, convert in converts:
            if values[at] is not None:
                values[at] = convert(values[at])
        return dict(zip(names, values, strict=True))

    return make


def _goes_as_it_is(schema: Schema) -> bool:
    return schema.name not in logical.PYTHON_TYPES and (
        schema.type in _BITS or schema.type in (Type.BOOLEAN, Type.STRING)
    )


def _writer(schema: Schema, settings: JsonSettings) -> Callable[[Any], Any]:
    if schema.name not in logical.PYTHON_TYPES and schema.type is Type.FLOAT64:
        return plain_float_tree
    return lambda value: to_tree(schema, value, settings)


def structs_of(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> list[Struct] | None:
    """Return the structs of JSON objects, None where one of them needs a closer look."""
    if schema.type is not Type.STRUCT or len(schema.fields) < _LEAST_FIELDS or not trees:
        return None
    try:
        rows = list(map(list, map(itemgetter(*(field.name for field in schema.fields)), trees)))
    except (KeyError, TypeError):  # a field is missing, or the value is not an object
        return None
    for member, values in zip(schema.fields, zip(*rows, strict=True), strict=True):
        column = checked_column(member.schema, values, settings)
        if column is None:
            return None
        if column is not values:
            for row, value in zip(rows, column, strict=True):
                row[member.index] = value
    return Struct.all_of_checked(schema, rows)


def checked_column(schema: Schema, values: Sequence[Any], settings: JsonSettings) -> Sequence[Any] | None:
    """Return the Connect values of JSON trees of one schema; None where one of them needs a closer look."""
    kinds = set(map(type, values))
    if type(None) in kinds:
        if not schema.keeps_null:
            return None
        kinds.remove(type(None))
    if schema.name not in logical.PYTHON_TYPES:
        if schema.type in _BITS:
            return values if _integers_fit(schema.type, kinds, values) else None
        if kinds <= {_KINDS.get(schema.type)}:
            return values if schema.type is not Type.FLOAT32 else _singles(values)
        if schema.type is Type.FLOAT64 and kinds <= {int, float}:
            return [None if value is None else float(value) for value in values]
    try:
        return [from_tree(schema, value, settings) for value in values]
    except DataError:
        return None


def _singles(values: Sequence[float | None]) -> Sequence[float | None]:
    form = f">{len(values)}f"
    try:
        return struct.unpack(form, struct.pack(form, *values))
    except (OverflowError, struct.error):  # one is too large, or null
        return [None if value is None else to_single(value) for value in values]


def _integers_fit(kind: Type, kinds: set[type[Any]], values: Sequence[Any]) -> bool:
    if not kinds:
        return True
    limit = 1 << _BITS[kind] - 1
    given = values if None not in values else [value for value in values if value is not None]
    return kinds == {int} and -limit <= min(given) and max(given) < limit
