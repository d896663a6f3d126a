"""Avro with a Schema Registry (``io.confluent.connect.avro.AvroConverter``)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.data.schema import Schema, SchemaAndValue
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.records.registry.avro_connect_schema import connect_schema, full_name
from spark_connect_rt.records.registry.avro_schema import ANYTHING, AvroSettings, AvroTree, avro_schema
from spark_connect_rt.records.registry.avro_values import (
    NULLABLE,
    AvroReadPlan,
    Writing,
    datum_writer,
    is_nullable,
    parsed,
    read_datum,
    value_reader,
    wire_schema,
    write_datum,
)
from spark_connect_rt.records.registry.registry_client import StoredSchema
from spark_connect_rt.records.registry.registry_converter import LENGTH, RegistryConverter, framed, schema_id_of
from spark_connect_rt.records.registry.registry_settings import BASE, switch

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connect_rt.records.registry.avro_read_columns import ColumnReader

_OWN = ConfigDef(
    [
        switch(
            "enhanced.avro.schema.support",
            "Whether to keep enums and fixed, and to name union members by their full names.",
        ),
        switch(
            "connect.meta.data", "Whether to write and read Connect's own attributes as connect.* properties.", True
        ),
        switch("scrub.invalid.names", "Whether to replace characters in names that Avro does not allow."),
        switch("allow.optional.map.keys", "Whether to write maps with optional string keys as Avro maps."),
    ]
)
CONFIG = BASE + _OWN


_ANYTHING = wire_schema(ANYTHING)


class AvroConverter(RegistryConverter[Writing, AvroReadPlan]):
    """Writes and reads Avro whose schemas a Schema Registry keeps."""

    schema_type = "AVRO"

    def config_def(self) -> ConfigDef:
        """Return the declarations of this converter's settings."""
        return CONFIG

    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take the settings that only Avro has."""
        self._column_readers: dict[tuple[str, int], ColumnReader | None] = {}
        self._avro = AvroSettings(
            enhanced=values["enhanced.avro.schema.support"],
            meta_data=values["connect.meta.data"],
            scrub_names=values["scrub.invalid.names"],
            optional_map_keys=values["allow.optional.map.keys"],
        )

    def plan_writing(self, topic: str, schema: Schema | None) -> Writing:
        """Return how values of a schema are written, which the registry then knows."""
        own = avro_schema(schema, self._avro)
        text = json.dumps(own, separators=(",", ":"), ensure_ascii=False)
        parsed(own)  # the registry is asked only for schemas
        stored = self.registry.id_for(self.subject(topic, _record_name(own)), StoredSchema(text))
        tree, named = (own, {}) if stored.text == text else self._trees(stored)
        plain, branch = _without_null(tree)
        convert = datum_writer(schema and schema.as_optional(False), _without_null(own)[0], self._avro)
        raw = wire_schema(tree) == "bytes"
        return Writing(framed(stored.id or 0) + branch, parsed(plain, named), convert, raw)

    def plan_reading(self, topic: str, schema_id: int) -> AvroReadPlan:
        """Return how payloads of an id are read: with the schema they were written with, or the latest."""
        stored = self.registry.by_id(schema_id)
        tree, named = self._trees(stored)
        plain, branch = _without_null(tree)
        wire, resolved = parsed(plain, named, marked=not self.uses_latest()), None
        subject = self.subject(topic, _record_name(tree))
        if self.uses_latest():
            stored = self.registry.latest(subject)
            wire, branch = parsed(tree, named), b""
            tree, named = self._trees(stored)
            resolved = parsed(tree, named), parsed(tree, named, marked=True)
        if wire_schema(tree) == _ANYTHING:
            return AvroReadPlan(None, wire, branch, value_reader(None, self._avro), False, resolved)
        version = stored.version or self.registry.version_of(subject, stored)
        schema = connect_schema(tree, self._avro, version, named)
        raw = wire_schema(tree) == "bytes"
        return AvroReadPlan(schema, wire, branch, value_reader(schema, self._avro), raw, resolved)

    def _trees(self, stored: StoredSchema) -> tuple[AvroTree, dict[str, AvroTree]]:
        """Return a schema's tree, and the types that it refers to by their full names."""
        named: dict[str, AvroTree] = {}
        for name, stored_schema in self.registry.referenced(stored).items() if stored.references else ():
            tree = _tree_of(stored_schema.text)
            named[name] = tree
            if isinstance(tree, dict) and "name" in tree:
                named[full_name(tree, None)] = tree
        return _tree_of(stored.text), named

    def write(self, plan: Writing, value: Any) -> bytes:
        """Return frame and payload. Raises DataError."""
        datum = plan.convert(value)
        if plan.raw:
            return plan.frame + bytes(datum)
        out = io.BytesIO()
        out.write(plan.frame)
        write_datum(out, plan.wire, datum)
        return out.getvalue()

    def read(self, plan: AvroReadPlan, data: bytes, start: int) -> SchemaAndValue:
        """Return schema and value. Raises DataError."""
        datum = data[start:] if plan.raw else read_datum(data, start, plan)
        if plan.convert is not None and datum is not None:
            datum = plan.convert(datum)
        return SchemaAndValue(plan.schema, datum)

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return frames and payloads of a column of flat structs."""
        # Arrow is imported where batches are.
        from spark_connect_rt.records.registry.avro_columns import flat_rows, framed_column

        if schema is None or schema.optional or self._avro.scrub_names:
            return None
        rows = flat_rows(schema, values)
        return None if rows is None else framed_column(self._plan_of(topic, schema), rows)

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return payloads of one schema, records, as a column of structs."""
        reader = self._column_reader(topic, data[0].as_py() if len(data) else None)
        column = None if reader is None else reader.column(data)
        return None if reader is None or column is None else (reader.schema, column)

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the structs of payloads of one schema, flat records."""
        reader = self._column_reader(topic, data[0] if data else None)
        structs = None if reader is None else reader.structs(data)
        return None if reader is None or structs is None else (reader.schema, structs)

    def _column_reader(self, topic: str, first: bytes | None) -> ColumnReader | None:
        """Return the reader of payloads like the first, None: they need rows."""
        if first is None:
            return None
        # Arrow is imported where batches are.
        from spark_connect_rt.records.registry.avro_read_columns import column_reader

        try:
            key = topic, schema_id_of(first)
            if key not in self._column_readers:
                self._keep(self._column_readers, key, column_reader(first[:LENGTH], self._plan_for(*key)))
        except ConnectError:  # by rows: the same again, with the record's name
            return None
        return self._column_readers[key]


def _without_null(tree: AvroTree) -> tuple[AvroTree, bytes]:
    """Return the one type of a union with null, and the bytes that name it there; others as they are."""
    if not is_nullable(tree):
        return tree, b""
    at = 1 - tree.index("null")
    return tree[at], NULLABLE[at]


def _record_name(tree: AvroTree) -> str | None:
    kinds = [branch for branch in tree if branch != "null"] if isinstance(tree, list) else [tree]
    if len(kinds) == 1 and isinstance(kinds[0], dict) and kinds[0].get("type") == "record":
        return full_name(kinds[0], None)
    return None


def _tree_of(text: str) -> AvroTree:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()  # a name alone
