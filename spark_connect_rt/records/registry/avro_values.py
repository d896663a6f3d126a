"""Connect values <-> fastavro's values, by functions that are composed once for each schema.

fastavro gets schemas of shapes only (``wire_schema``), without logical types and ``connect.*``. Those are Connect's,
and their values are converted here. The writer and the payload name a union's branch; it is never guessed.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_connect_schema import full_name
from spark_connect_rt.records.registry.avro_schema import (
    KEY,
    UNION,
    VALUE,
    AvroSettings,
    AvroTree,
    avro_name,
    has_text_keys,
    is_enum,
)
from spark_connect_rt.records.registry.registry_client import library

Convert = Callable[[Any], Any]

_SHAPE = ("type", "name", "namespace", "aliases", "fields", "items", "values", "symbols", "size", "default")
_BRANCH = "branch"
_PLAIN = {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING}


def wire_schema(tree: AvroTree, branches: Iterator[int] | None = None) -> AvroTree:
    """Return an Avro schema reduced to the parts that determine the bytes.

    With ``branches``, a union of more than null and one type has each of its types in a record of one field,
    ``branchN``. N is the position of the type among those that are not null. The bytes stay the same, and a reader
    learns which branch was written. The records' names are numbered by ``branches``.
    """
    if isinstance(tree, list):
        members = [wire_schema(member, branches) for member in tree]
        return members if branches is None or is_nullable(tree) else _marked(members, branches)
    if not isinstance(tree, dict):
        return tree
    if isinstance(tree["type"], dict | list):
        return wire_schema(tree["type"], branches)
    shape = {name: tree[name] for name in _SHAPE if name in tree}
    if shape.keys() == {"type"}:
        return shape["type"]
    if "fields" in shape:
        shape["fields"] = [_wire_field(field, branches) for field in tree["fields"]]
    for part in ("items", "values"):
        if part in shape:
            shape[part] = wire_schema(tree[part], branches)
    return shape


def is_nullable(tree: AvroTree) -> bool:
    """Return whether a schema is a union of null and one type."""
    return isinstance(tree, list) and len(tree) == 2 and "null" in tree


def _marked(members: list[AvroTree], branches: Iterator[int]) -> list[AvroTree]:
    places = itertools.count()
    return [
        member
        if member == "null"
        else {
            "type": "record",
            "name": f"connectrt_branch_{next(branches)}",  # no namespace: names inside keep theirs
            "fields": [{"name": f"{_BRANCH}{next(places)}", "type": member}],
        }
        for member in members
    ]


def _wire_field(field: Mapping[str, Any], branches: Iterator[int] | None) -> dict[str, Any]:
    used = ("name", "aliases") if branches else ("name", "default", "aliases")  # a default has the unmarked form
    return {**{name: field[name] for name in used if name in field}, "type": wire_schema(field["type"], branches)}


def datum_writer(schema: Schema | None, tree: AvroTree, settings: AvroSettings) -> Convert:
    """Return the function from Connect values, null excepted, to the values that fastavro writes as ``tree``.

    The function raises DataError: the value does not fit the schema.
    """
    if schema is None:
        return _anything
    convert = _Writers(settings).writer(schema, tree, None)
    if schema.type is Type.STRUCT and schema.name != UNION:
        return convert or (lambda value: value)

    def checked(value: Any) -> Any:
        check_value(schema, value)
        return value if convert is None else convert(value)

    return checked


_FIELD_OF_TYPE = ((bool, "boolean"), (int, "long"), (float, "double"), (str, "string"), (bytes, "bytes"))


def _anything(value: Any) -> dict[str, Any]:
    for kind, field in _FIELD_OF_TYPE:
        if isinstance(value, kind):
            return {field: value}
    if value is None:
        return {}
    if isinstance(value, list | tuple):
        return {"array": [_anything(part) for part in value]}
    if isinstance(value, Mapping):
        return {"map": [{KEY: _anything(key), VALUE: _anything(part)} for key, part in value.items()]}
    raise DataError(f"Unknown type for schemaless data: {type(value).__name__}")


def _branch(tree: AvroTree, around: str | None) -> str:
    """Return the word by which fastavro knows a type in a union."""
    if not isinstance(tree, dict):
        return str(tree)
    return full_name(tree, around) if "name" in tree else str(tree["type"])


class _Writers:
    """Puts writers together; None stands for a value that goes as it is."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._named: dict[str, AvroTree] = {}

    def writer(self, schema: Schema, tree: AvroTree, around: str | None) -> Convert | None:
        if schema.type is Type.STRUCT and schema.name == UNION:
            return self._union(schema, tree, around)
        plain = tree if not isinstance(tree, list) else next(branch for branch in tree if branch != "null")
        convert = self._plain(schema, self._resolved(plain, around), around)
        if plain is tree or (schema.type in _PLAIN and not is_enum(schema)):
            return convert
        named = _branch(self._resolved(plain, around), around)
        return _hinted(named, convert)

    def _resolved(self, tree: AvroTree, around: str | None) -> AvroTree:
        if isinstance(tree, dict) and "name" in tree:
            name = _branch(tree, around)
            self._named[name] = tree = {**tree, "name": name.rpartition(".")[2], "namespace": name.rpartition(".")[0]}
            return tree
        return self._named.get(tree, tree) if isinstance(tree, str) else tree

    def _plain(self, schema: Schema, tree: AvroTree, around: str | None) -> Convert | None:
        if schema.type is Type.STRUCT:
            return self._struct(schema, tree)
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return _each(self._part(schema.value_schema, tree["items"], around))
        if schema.type is Type.MAP:
            return self._map(schema, tree, around)
        if schema.name in logical.PYTHON_TYPES:
            return lambda value: logical.to_primitive(schema, value)
        return bytes if schema.type is Type.BYTES else None

    def _part(self, schema: Schema, tree: AvroTree, around: str | None) -> Convert | None:
        return _nullable(self.writer(schema, tree, around))

    def _map(self, schema: Schema, tree: AvroTree, around: str | None) -> Convert | None:
        keys, values = schema.key_schema, schema.value_schema
        if keys is None or values is None:
            raise DataError("a map without schemas of its keys and values has no Avro form")
        if has_text_keys(schema, self._settings):
            part = self._part(values, tree["values"], around)
            return None if part is None else lambda value: {key: part(item) for key, item in value.items()}
        entry = self._resolved(tree["items"], around)
        parts = {field["name"]: field["type"] for field in entry["fields"]}
        inside = entry.get("namespace") or None
        key_of = self._part(keys, parts[KEY], inside) or _same
        value_of = self._part(values, parts[VALUE], inside) or _same
        return lambda value: [{KEY: key_of(key), VALUE: value_of(item)} for key, item in value.items()]

    def _struct(self, schema: Schema, tree: AvroTree) -> Convert:
        names = [avro_name(field.name, self._settings) for field in schema.fields]
        types = {field["name"]: field["type"] for field in tree["fields"]}
        inside = tree.get("namespace") or None
        converts = []
        for at, (name, member) in enumerate(zip(names, schema.fields, strict=True)):
            convert = self.writer(member.schema, types[name], inside) if name in types else None
            if convert is not None:
                converts.append((at, convert))
        fields = schema.fields

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, Struct):
                check_value(schema, value)
                value = Struct.from_mapping(schema, value)
            elif value.schema is not schema and value.schema.fields != fields:
                raise DataError("the struct's schema is not the record's")
            parts = list(value.values())
            for at, convert in converts:
                if parts[at] is not None:
                    parts[at] = convert(parts[at])
            return dict(zip(names, parts, strict=True))

        return write

    def _union(self, schema: Schema, tree: AvroTree, around: str | None) -> Convert:
        branches = [alternative for alternative in tree if alternative != "null"]
        members = []
        for member, branch in zip(schema.fields, branches, strict=True):
            resolved = self._resolved(branch, around)
            convert = self._plain(member.schema, resolved, around)
            members.append((member.index, _hinted(_branch(resolved, around), convert)))

        def write(value: Any) -> Any:
            if not isinstance(value, Struct):
                value = Struct.from_mapping(schema, value)
            parts = value.values()
            for at, convert in members:
                if parts[at] is not None:
                    return convert(parts[at])
            return None

        return write


def _same(value: Any) -> Any:
    return value


def _hinted(branch: str, convert: Convert | None) -> Convert:
    return (lambda value: (branch, value)) if convert is None else (lambda value: (branch, convert(value)))


def _nullable(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _each(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [convert(part) for part in values]


def value_reader(schema: Schema | None, settings: AvroSettings) -> Convert | None:
    """Return the function from fastavro's values to Connect values, null excepted; None: they are equal.

    Unions must have been read with ``branches`` of ``wire_schema``. The function raises DataError: outside of the range
    of a logical type.
    """
    if schema is None:
        return _of_anything
    if schema.type is Type.STRUCT:
        return _union_reader(schema, settings) if schema.name == UNION else _struct_reader(schema, settings)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return _each(_nullable(value_reader(schema.value_schema, settings)))
    if schema.type is Type.MAP:
        return _map_reader(schema, settings)
    return (lambda value: logical.from_primitive(schema, value)) if schema.name in logical.PYTHON_TYPES else None


def _of_anything(datum: Mapping[str, Any]) -> Any:
    for field, value in datum.items():
        if value is None:
            continue
        if field == "array":
            return [_of_anything(part) for part in value]
        if field == "map":
            return {_of_anything(entry[KEY]): _of_anything(entry[VALUE]) for entry in value}
        return value
    return None


def _struct_reader(schema: Schema, settings: AvroSettings) -> Convert:
    names = [field.name for field in schema.fields]
    readers = [(field.index, value_reader(field.schema, settings)) for field in schema.fields]
    converts = [(at, convert) for at, convert in readers if convert is not None]

    def read(datum: Mapping[str, Any]) -> Struct:
        values = [datum[name] for name in names]
        for at, convert in converts:
            if values[at] is not None:
                values[at] = convert(values[at])
        return Struct.of_checked(schema, values)

    return read


def _map_reader(schema: Schema, settings: AvroSettings) -> Convert | None:
    keys, values = schema.key_schema, schema.value_schema
    if keys is None or values is None:
        return None
    value_of = _nullable(value_reader(values, settings))
    if keys.type is Type.STRING and not keys.optional:
        return None if value_of is None else lambda datum: {key: value_of(value) for key, value in datum.items()}
    key_of, item_of = _nullable(value_reader(keys, settings)) or _same, value_of or _same
    return lambda datum: {key_of(entry[KEY]): item_of(entry[VALUE]) for entry in datum}


def _union_reader(schema: Schema, settings: AvroSettings) -> Convert:
    readers = [value_reader(field.schema, settings) for field in schema.fields]

    def read(datum: Mapping[str, Any]) -> Struct:
        ((branch, value),) = datum.items()
        at = int(branch.removeprefix(_BRANCH))
        convert = readers[at]
        values: list[Any] = [None] * len(readers)
        values[at] = value if convert is None else convert(value)
        return Struct.of_checked(schema, values)

    return read


# fastavro at the edge: its parsed schemas, and its many errors as one.


_UNREADABLE = (EOFError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError)
NULLABLE = {0: b"\x00", 1: b"\x02"}
"""The branch of a union of null and one type, by its position, as written before a value."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How values of one schema are written."""

    frame: bytes  # with the branch, where the whole value may be null
    wire: Any  # fastavro's parsed schema
    convert: Convert
    raw: bool  # the whole value is bytes: they are the payload, without Avro's length, as Java's serializer writes them


@dataclass(frozen=True, slots=True)
class AvroReadPlan:
    """How payloads of one id are read."""

    schema: Schema | None
    wire: Any
    branch: bytes  # the bytes before a value that may be null; empty: the wire schema describes it
    convert: Convert | None
    raw: bool
    resolved: tuple[Any, Any] | None = None  # the schema to read as: plain, and with marked branches; None: as written


def parsed(tree: AvroTree, named: Mapping[str, AvroTree] | None = None, *, marked: bool = False) -> Any:
    """Return fastavro's schema. ``marked`` makes it report the branches of unions. Raises DataError: it is invalid."""
    schemas = library("fastavro.schema")
    known: dict[str, Any] = {}
    branches = itertools.count() if marked else None
    try:
        for definition in (named or {}).values():
            schemas.parse_schema(wire_schema(definition, branches), named_schemas=known)
        return schemas.parse_schema(wire_schema(tree, branches), named_schemas=known)
    except (schemas.SchemaParseException, schemas.UnknownType, KeyError, TypeError, ValueError) as error:
        raise DataError(f"not a valid Avro schema: {error}") from error


def write_datum(out: io.BytesIO, wire: Any, datum: Any) -> None:
    """Append one payload. Raises DataError."""
    try:
        library("fastavro").schemaless_writer(out, wire, datum)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DataError(f"the value does not fit its Avro schema: {error}") from error


def read_datum(data: bytes, start: int, plan: AvroReadPlan) -> Any:
    """Return the payload from ``start`` on. Raises DataError."""
    if plan.branch:
        if data[start : start + 1] != plan.branch:
            if data[start : start + 1] in NULLABLE.values():
                return None
            raise DataError("the payload does not fit its Avro schema: no such branch")
        start += 1
    payload = io.BytesIO(data)
    payload.seek(start)
    try:
        if plan.resolved is None:
            return library("fastavro").schemaless_reader(payload, plan.wire)
        return _resolved(payload, plan.wire, *plan.resolved)
    except _UNREADABLE as error:
        raise DataError(f"the payload does not fit its Avro schema: {type(error).__name__}: {error}") from error


def _resolved(payload: io.BytesIO, wire: Any, target: Any, marked: Any) -> Any:
    """Return a payload as another schema than its own. Records with marked branches cannot be resolved: two steps."""
    fastavro = library("fastavro")
    datum = fastavro.schemaless_reader(payload, wire, target, return_named_type=True)
    again = io.BytesIO()
    fastavro.schemaless_writer(again, target, datum)
    again.seek(0)
    return fastavro.schemaless_reader(again, marked)
