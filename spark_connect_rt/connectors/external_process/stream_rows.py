"""Records of one stream as batches of columns: its schema and version, its key, deletions. Pure.

Owns the conversion of a stream's JSON objects. Objects that arrive together become one Arrow column. If some of them do
not fit, they go one by one, leniently first, and those that still do not fit are reported.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.errors import DataError

# JSON Schema, as Singer and Airbyte describe a stream, as Connect schema and Arrow type. Pure.
#
# - string: STRING; with ``times`` and format date-time or date: Timestamp (ms), Date
# - integer, number, boolean: INT64, FLOAT64, BOOLEAN
# - object with properties: STRUCT
# - array with items: ARRAY
# - anything else (several types, objects without properties, ``{}``): STRING, a text as it is, else its JSON
#
# Every value may be absent, whatever the schema says.


Change = Callable[[Any], Any]
_PLAIN: Mapping[str, tuple[Type, pa.DataType]] = {
    "string": (Type.STRING, pa.string()),
    "integer": (Type.INT64, pa.int64()),
    "number": (Type.FLOAT64, pa.float64()),
    "boolean": (Type.BOOLEAN, pa.bool_()),
}
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class SchemaShape:
    """The form of the values of one JSON Schema.

    ``change`` makes a JSON value one that Arrow takes; None: no change is needed.
    ``lenient`` does the same and also converts values that do not fit: numbers to text, whole floats to integers.
    Both raise DataError: the value cannot be converted without loss.
    """

    schema: Schema
    arrow: pa.DataType
    change: Change | None
    lenient: Change

    @property
    def fields(self) -> frozenset[str]:
        """Return the names of a struct's members."""
        return frozenset(member.name for member in self.schema.fields)


def shape_of(tree: Any, times: bool = False, depth: int = 0) -> SchemaShape:
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
    return SchemaShape(Schema(connect, optional=True), arrow, None, _LENIENT[kind])


def _single_type(tree: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the one type other than null and its schema. An empty text: there are several types, or none."""
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


def _struct(properties: Mapping[str, Any], times: bool, depth: int) -> SchemaShape:
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

    return SchemaShape(
        struct_of({name: member.schema for name, member in members.items()}, optional=True),
        pa.struct([pa.field(name, member.arrow) for name, member in members.items()]),
        change if changes else None,
        leniently,
    )


def _array(element: SchemaShape) -> SchemaShape:
    inner = element.change

    def change(value: Any) -> Any:
        return [item if item is None else inner(item) for item in value] if isinstance(value, list) and inner else value

    def leniently(value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value and [element.lenient(item) for item in value]
        raise DataError(f"not an array: {value!r:.80}")

    schema = Schema(Type.ARRAY, optional=True, value_schema=element.schema)
    return SchemaShape(schema, pa.list_(element.arrow), change if inner else None, leniently)


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
_ANYTHING = SchemaShape(Schema(Type.STRING, optional=True), pa.string(), _text, _text)
_TIMES: Mapping[str, SchemaShape] = {
    "date-time": SchemaShape(
        logical.timestamp_schema(optional=True), pa.timestamp("ms", "UTC"), _moment, _unless_null(_moment)
    ),
    "date": SchemaShape(logical.date_schema(optional=True), pa.date32(), _day, _unless_null(_day)),
}

Report = Callable[[str, Exception, bytes | None], None]
"""Reports one object: its place, the error, its JSON. May raise."""
Piece = SourceBatch | SourceRecord
Placed = Callable[[Mapping[str, Any], Mapping[str, Any]], Piece]
"""Makes a piece from its source partition and offset, which are known last."""
VERSION, FINGERPRINT = "schema.version", "schema.fingerprint"
"""Fields of a source offset that keep the last version of a stream's schema, so that a restart continues it."""


@dataclass(frozen=True, slots=True)
class RowSettings:
    """How rows are made. ``deleted_field``: set in a deleted object; empty: the program has none."""

    structs: bool = True
    """False: objects stay JSON trees without a schema."""
    times: bool = False
    tombstones: bool = True
    deleted_field: str = ""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """A stream's schema: the form of its objects, and the names of the key's fields."""

    shape: SchemaShape
    keys: tuple[str, ...]
    version: int
    fingerprint: str
    value_schema: Schema = field(init=False)
    key_schema: Schema | None = field(init=False)

    def __post_init__(self) -> None:
        members = {member.name: member.schema for member in self.shape.schema.fields}
        object.__setattr__(self, "value_schema", self.shape.schema)
        keys = struct_of({name: members[name] for name in self.keys}) if self.keys else None
        object.__setattr__(self, "key_schema", keys)


def stream_schema(
    stream: str, tree: Mapping[str, Any], keys: Sequence[str], offset: Mapping[str, Any], settings: RowSettings
) -> StreamSchema:
    """Return the schema of a stream; its version is the one before, plus one if anything changed.

    Keys that are not in the schema are left out. ``offset``: the stream's offset with the previous version.
    """
    shape = shape_of({**tree, "type": "object"}, settings.times)
    named = tuple(name for name in keys if name in shape.fields)
    text = orjson.dumps([tree.get("properties"), named, settings.times], option=orjson.OPT_SORT_KEYS)
    fingerprint = hashlib.sha256(text).hexdigest()[:16]
    version = int(offset.get(VERSION) or 0)
    if fingerprint != offset.get(FINGERPRINT):
        version += 1
    called = Schema(shape.schema.type, name=stream, version=version, fields=shape.schema.fields)
    return StreamSchema(SchemaShape(called, shape.arrow, shape.change, shape.lenient), named, version, fingerprint)


class StreamRows:
    """Objects of one stream that have not been returned yet, in their order."""

    def __init__(self, stream: str, topic: str, settings: RowSettings, report: Report) -> None:
        self.stream = stream
        self.schema: StreamSchema | None = None
        self.unknown: set[str] = set()
        """Fields of objects that are in no schema: they are left out."""
        self._topic = topic
        self._settings = settings
        self._report = report
        self._objects: list[dict[str, Any]] = []
        self._pieces: list[Placed] = []
        self._marked_objects = self._marked_pieces = 0  # how many of each are before the last mark

    def begin(self, schema: StreamSchema) -> None:
        """Set the schema of the objects that follow. Earlier objects keep the previous one."""
        self._close()
        self.schema = schema

    def add(self, value: dict[str, Any]) -> None:
        """Add one object. Raises the error of the report if it does not fit."""
        deleted = self._settings.deleted_field
        if deleted and self._settings.tombstones and value.get(deleted) is not None and self._has_key():
            self._close()
            self._delete(value)
            return
        self._objects.append(value)

    def add_column(self, values: pa.Table) -> None:
        """Take a table of objects. Raises DataError: a column is missing in the schema or cannot be turned."""
        self._close()
        kind = self._known().shape.arrow
        columns = []
        for at in range(kind.num_fields):
            wanted = kind.field(at)
            if wanted.name in values.column_names:
                columns.append(_as(values.column(wanted.name).combine_chunks(), wanted))
            else:
                columns.append(pa.nulls(len(values), wanted.type))
        self.unknown |= set(values.column_names) - self._known().shape.fields
        self._append_column(pa.StructArray.from_arrays(columns, fields=[kind.field(i) for i in range(kind.num_fields)]))

    def mark(self) -> None:
        """Set the mark between the objects so far and later ones; only the last mark counts."""
        self._marked_objects, self._marked_pieces = len(self._objects), len(self._pieces)

    def take(self, *, covered_only: bool = False) -> tuple[list[Placed], list[Placed]]:
        """Return the pieces before the last mark and those after it, then forget the pieces and the mark.

        ``covered_only``: the pieces after the mark stay here, in their order, and an empty list is returned for them.
        """
        self._close()
        covered, rest = self._pieces[: self._marked_pieces], self._pieces[self._marked_pieces :]
        self._pieces, self._marked_pieces = rest if covered_only else [], 0
        return covered, [] if covered_only else rest

    def _known(self) -> StreamSchema:
        if self.schema is None:
            raise DataError(f"records of stream {self.stream} arrived before its schema")
        return self.schema

    def _close(self) -> None:
        """Turn the objects into pieces, those before the mark apart from those after it."""
        objects, marked = self._objects, self._marked_objects
        self._objects, self._marked_objects = [], 0
        if marked:
            self._turn(objects[:marked])
            self._marked_pieces = len(self._pieces)
        self._turn(objects[marked:])

    def _turn(self, objects: Sequence[dict[str, Any]]) -> None:
        if not objects:
            return
        if not self._settings.structs:
            self._pieces += [self._tree(item) for item in objects]
            return
        try:
            shape = self._known().shape
        except DataError as error:
            for item in objects:
                self._report(f"stream {self.stream}", error, orjson.dumps(item))
            return
        self._note_unknown(objects, shape)
        try:
            changed = objects if shape.change is None else [shape.change(item) for item in objects]
            column = pa.array(changed, shape.arrow)
        except (pa.ArrowException, DataError, OverflowError, TypeError, ValueError):
            column = self._one_by_one(objects, shape)
        if len(column):
            self._append_column(column)

    def _note_unknown(self, objects: Sequence[dict[str, Any]], shape: SchemaShape) -> None:
        known = shape.fields | self.unknown
        for item in objects:
            if not known.issuperset(item):
                self.unknown |= item.keys() - shape.fields

    def _one_by_one(self, objects: Sequence[dict[str, Any]], shape: SchemaShape) -> pa.Array:
        fit = []
        for item in objects:
            try:
                turned = shape.lenient(item)
                pa.array([turned], shape.arrow)
                fit.append(turned)
            except (pa.ArrowException, DataError, OverflowError, TypeError, ValueError) as error:
                self._report(f"stream {self.stream}", error, orjson.dumps(item))
        return pa.array(fit, shape.arrow)

    def _append_column(self, values: pa.StructArray) -> None:
        schema, topic = self._known(), self._topic
        keys = None
        if schema.keys:
            fields = [schema.shape.arrow.field(name) for name in schema.keys]
            keys = pa.StructArray.from_arrays([values.field(name) for name in schema.keys], fields=fields)
        self._pieces.append(
            lambda partition, offset: SourceBatch(
                partition, offset, topic, values, schema.value_schema, keys, schema.key_schema
            )
        )

    def _tree(self, value: dict[str, Any]) -> Placed:
        key = self._key(value)
        return lambda partition, offset: SourceRecord(partition, offset, self._topic, value, None, key, None)

    def _key(self, value: Mapping[str, Any]) -> dict[str, Any] | None:
        keys = self.schema.keys if self.schema else ()
        return {name: value.get(name) for name in keys} if keys else None

    def _has_key(self) -> bool:
        """Return whether a tombstone can have the object's key; if not, a deleted object is a record like others."""
        return self.schema is not None and bool(self.schema.keys)

    def _delete(self, value: dict[str, Any]) -> None:
        schema, key = self._known(), self._key(value)
        key_schema = schema.key_schema if self._settings.structs else None
        if key_schema is not None and key is not None:
            try:
                key = Struct(key_schema, schema.shape.lenient(key))  # type: ignore[assignment]
            except DataError as error:
                self._report(f"stream {self.stream}", error, orjson.dumps(value))
                return
        self._pieces.append(
            lambda partition, offset: SourceRecord(partition, offset, self._topic, None, None, key, key_schema)
        )


def empty_batch(partition: Mapping[str, Any], offset: Mapping[str, Any], topic: str) -> SourceBatch:
    """Return a batch of nothing: all it does is to move the offset once everything before it is durable."""
    return SourceBatch(partition, offset, topic, pa.array([], pa.string()))


def _as(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Return a column in the type of the schema. Raises DataError."""
    if column.type == wanted.type:
        return column
    try:
        if pa.types.is_string(wanted.type) and pa.types.is_nested(column.type):
            return pa.array([None if value is None else orjson.dumps(value).decode() for value in column.to_pylist()])
        return column.cast(wanted.type)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"column {wanted.name} of type {column.type} cannot be converted to {wanted.type}: {error}"
        ) from error
