"""fastavro at the edge: its parsed schemas, and its many errors as one."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_schema import AvroTree
from spark_connect_rt.records.registry.avro_values import Convert, wire_schema
from spark_connect_rt.records.registry.registry_client import library

_UNREADABLE = (EOFError, IndexError, KeyError, MemoryError, OverflowError, TypeError, ValueError)
NULLABLE = {0: b"\x00", 1: b"\x02"}
"""The branch of a union of null and one type, by its place, as it stands before a value."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How values of one schema are written."""

    frame: bytes  # with the branch, where the whole value may be null
    wire: Any  # fastavro's parsed schema
    convert: Convert
    raw: bool  # the whole value is bytes: they are the payload, without Avro's length, as Java's serializer writes them


@dataclass(frozen=True, slots=True)
class Reading:
    """How payloads of one id are read."""

    schema: Schema | None
    wire: Any
    branch: bytes  # what stands before a value that may be null; empty: the wire schema says all
    convert: Convert | None
    raw: bool
    resolved: tuple[Any, Any] | None = None  # the schema to read as: plain, and with marked branches; None: as written


def parsed(tree: AvroTree, named: Mapping[str, AvroTree] | None = None, *, marked: bool = False) -> Any:
    """Return fastavro's schema; ``marked`` makes it tell the branches of unions. Raises DataError: it is none."""
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


def read_datum(data: bytes, start: int, plan: Reading) -> Any:
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
