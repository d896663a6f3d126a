"""JSON Schema, as Singer and Airbyte describe a stream, as Connect schema and Arrow type. Pure.

| JSON Schema | Connect |
|---|---|
| string | STRING; with ``times`` and format date-time or date: Timestamp (ms), Date |
| integer, number, boolean | INT64, FLOAT64, BOOLEAN |
| object with properties | STRUCT |
| array with items | ARRAY |
| anything else: several types, objects without properties, ``{}`` | STRING: a text as it is, else its JSON |

Every value may be absent, whatever the schema says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.errors import DataError

Change = Callable[[Any], Any]
_PLAIN: Mapping[str, tuple[Type, pa.DataType]] = {
    "string": (Type.STRING, pa.string()),
    "integer": (Type.INT64, pa.int64()),
    "number": (Type.FLOAT64, pa.float64()),
    "boolean": (Type.BOOLEAN, pa.bool_()),
}
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """What values of one JSON Schema are. ``change`` makes a JSON value one that Arrow takes; None: as it is.

    ``lenient`` does the same and turns what does not fit: numbers into text, whole floats into integers.
    Both raise DataError: the value cannot be turned without loss.
    """

    schema: Schema
    arrow: pa.DataType
    change: Change | None
    lenient: Change

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of a struct's members."""
        return frozenset(member.name for member in self.schema.fields)


def shape_of(tree: Any, times: bool = False, depth: int = 0) -> Shape:
    """Return the shape of a JSON Schema. ``times``: date-time and date become Connect's logical types."""
    kind, tree = _single_type(tree)
    if depth > _DEEPEST:
        return _ANYTHING
    if kind == "object" and isinstance(tree.get("properties"), dict) and tree["properties"]:
        return _struct(tree["properties"], times, depth)
    if kind == "array" and isinstance(tree.get("items"), dict) and tree["items"]:
        return _array(shape_of(tree["items"], times, depth + 1))
    if kind == "string" and times and tree.get("format") in _TIMES:
        return _TIMES[tree["format"]]
    if kind not in _PLAIN:
        return _ANYTHING
    connect, arrow = _PLAIN[kind]
    return Shape(Schema(connect, optional=True), arrow, None, _LENIENT[kind])


def _single_type(tree: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the one type beside null and the schema that has it; an empty text: there are several, or none."""
    if not isinstance(tree, dict):
        return "", {}
    for word in ("anyOf", "oneOf"):
        if isinstance(tree.get(word), list):
            others = [
                alternative
                for alternative in tree[word]
                if not (isinstance(alternative, dict) and alternative.get("type") == "null")
            ]
            return _single_type({**tree, word: None, **others[0]}) if _agree(others) else ("", {})
    kinds = tree.get("type")
    words = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if set(words) == {"integer", "number"}:
        return "number", tree
    if len(words) == 1 and isinstance(words[0], str):
        return words[0], tree
    return ("object", tree) if not words and "properties" in tree else ("", tree)


def _agree(alternatives: list[Any]) -> bool:
    """Whether alternatives are of one type; those of texts differ in their format at most, and may hold dates."""
    kinds = [_single_type(alternative)[0] for alternative in alternatives]
    return len(set(kinds)) == 1 and bool(kinds[0]) and (len(kinds) == 1 or kinds[0] in _PLAIN)


def _struct(properties: Mapping[str, Any], times: bool, depth: int) -> Shape:
    members = {name: shape_of(prop, times, depth + 1) for name, prop in properties.items()}
    changes = {name: member.change for name, member in members.items() if member.change is not None}
    lenient = {name: member.lenient for name, member in members.items()}

    def change(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            **value,
            **{name: convert(value[name]) for name, convert in changes.items() if value.get(name) is not None},
        }

    def leniently(value: Any) -> Any:
        if value is None or isinstance(value, dict):
            return value and {name: lenient[name](member) for name, member in value.items() if name in lenient}
        raise DataError(f"not an object: {value!r:.80}")

    return Shape(
        struct_of({name: member.schema for name, member in members.items()}, optional=True),
        pa.struct([pa.field(name, member.arrow) for name, member in members.items()]),
        change if changes else None,
        leniently,
    )


def _array(element: Shape) -> Shape:
    inner = element.change

    def change(value: Any) -> Any:
        return [item if item is None else inner(item) for item in value] if isinstance(value, list) and inner else value

    def leniently(value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value and [element.lenient(item) for item in value]
        raise DataError(f"not an array: {value!r:.80}")

    schema = Schema(Type.ARRAY, optional=True, value_schema=element.schema)
    return Shape(schema, pa.list_(element.arrow), change if inner else None, leniently)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63):
        return value
    raise DataError(f"not a 64-bit integer: {value!r:.80}")


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise DataError(f"not a number: {value!r:.80}")


def _boolean(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    raise DataError(f"not true or false: {value!r:.80}")


def _moment(value: Any) -> Any:
    try:
        found = dt.datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"not an ISO 8601 date-time: {value!r:.80}") from error
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _day(value: Any) -> Any:
    try:
        return dt.date.fromisoformat(value[:10])
    except (TypeError, ValueError) as error:
        raise DataError(f"not an ISO 8601 date: {value!r:.80}") from error


def _unless_null(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


_LENIENT: Mapping[str, Change] = {"string": _text, "integer": _integer, "number": _number, "boolean": _boolean}
_ANYTHING = Shape(Schema(Type.STRING, optional=True), pa.string(), _text, _text)
_TIMES: Mapping[str, Shape] = {
    "date-time": Shape(
        logical.timestamp_schema(optional=True), pa.timestamp("ms", "UTC"), _moment, _unless_null(_moment)
    ),
    "date": Shape(logical.date_schema(optional=True), pa.date32(), _day, _unless_null(_day)),
}
