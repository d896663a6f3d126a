"""JSON with a JSON Schema in a Schema Registry (``io.confluent.connect.json.JsonSchemaConverter``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import orjson

from spark_connect_rt.api.data.schema import Schema, SchemaAndValue
from spark_connect_rt.config.config_def import ConfigDef, Importance
from spark_connect_rt.config.keys import text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.records.converters.json_bytes import dump_json, load_json, load_json_with_decimals
from spark_connect_rt.records.converters.json_choice import ONE_OF
from spark_connect_rt.records.converters.json_rows import structs_of
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, to_tree
from spark_connect_rt.records.registry.draft_schema import DraftSettings, connect_schema_of, draft_schema
from spark_connect_rt.records.registry.framing import LENGTH, framed, schema_id_of
from spark_connect_rt.records.registry.registry_client import StoredSchema, library
from spark_connect_rt.records.registry.registry_converter import RegistryConverter
from spark_connect_rt.records.registry.registry_settings import BASE, switch

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = one_of("NUMERIC", "BASE64", ignore_case=True)
_OWN = ConfigDef(
    [
        switch("object.additional.properties", "Whether to allow properties that are not in the schema.", True),
        switch("use.optional.for.non.required", "Whether properties that are not required may be null."),
        switch(
            "json.fail.invalid.schema",
            "Whether to reject values that do not match their JSON Schema (needs the package jsonschema).",
        ),
        text("decimal.format", "Decimals as base64 of their bytes, or as numbers.", "BASE64", Importance.LOW, _FORMATS),
        switch(
            "replace.null.with.default", "Whether to write a field's default instead of null.", True, Importance.LOW
        ),
    ]
)
CONFIG = BASE + _OWN


@dataclass(frozen=True, slots=True)
class Plan:
    """How values of one schema are written and read."""

    frame: bytes
    schema: Schema | None
    validate: Callable[[Any], None] | None


class JsonSchemaConverter(RegistryConverter[Plan, Plan]):
    """Writes and reads JSON whose schemas a Schema Registry keeps."""

    schema_type = "JSON"

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take what is this format's own."""
        numeric = values["decimal.format"].upper() == "NUMERIC"
        self._values = JsonSettings(numeric, values["replace.null.with.default"], map_entries=True, union_name=ONE_OF)
        additional, required = values["object.additional.properties"], values["use.optional.for.non.required"]
        self._draft = DraftSettings(self._values, additional, required)
        self._validates: bool = values["json.fail.invalid.schema"]

    def plan_writing(self, topic: str, schema: Schema | None) -> Plan:
        """Return how values of a schema are written; without one they need ``use.schema.id`` or a latest version."""
        tree = {} if schema is None else draft_schema(schema, self._draft)
        subject = self.subject(topic, schema.name if schema is not None else None)
        stored = self.registry.id_for(subject, StoredSchema(dump_json(tree).decode()))
        return Plan(framed(stored.id or 0), schema, self._validator(json.loads(stored.text)))

    def plan_reading(self, topic: str, schema_id: int) -> Plan:
        """Return how payloads of an id are read."""
        stored = self.registry.by_id(schema_id)
        tree = load_json(stored.text.encode())
        subject = self.subject(topic, tree.get("title") if isinstance(tree, dict) else None)
        if self.uses_latest():
            stored = self.registry.latest(subject)
            tree = load_json(stored.text.encode())
        version = stored.version or self.registry.version_of(subject, stored)
        others = {
            name: load_json(stored_schema.text.encode())
            for name, stored_schema in self.registry.referenced(stored).items()
        }
        schema = connect_schema_of(tree, self._draft, version, others) if tree else None
        return Plan(b"", schema, self._validator(tree))

    def _validator(self, tree: Any) -> Callable[[Any], None] | None:
        return library("jsonschema").Draft7Validator(tree).validate if self._validates else None

    def write(self, plan: Plan, value: Any) -> bytes:
        """Return frame and JSON. Raises DataError."""
        payload = dump_json(to_tree(plan.schema, value, self._values))
        if plan.validate is not None:
            self._check(plan.validate, load_json(payload))
        return plan.frame + payload

    def read(self, plan: Plan, data: bytes, start: int) -> SchemaAndValue:
        """Return schema and value. Raises DataError."""
        payload = data[start:]
        tree = load_json_with_decimals(payload) if self._values.numeric_decimals else load_json(payload)
        if plan.validate is not None:
            self._check(plan.validate, tree)
        return SchemaAndValue(plan.schema, from_tree(plan.schema, tree, self._values))

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return frames and JSON of a column of primitives or structs of them; a null stays one."""
        # Arrow is imported where batches are.
        from spark_connect_rt.records.registry.json_schema_columns import framed_column, json_text

        text = json_text(schema, values, self._values.numeric_decimals)
        if text is None:
            return None
        plan = self._plan_of(topic, schema)
        return framed_column(plan.frame, text) if plan.validate is None else None

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return payloads of one schema, flat objects or plain values, as a column."""
        from spark_connect_rt.records.registry.json_schema_columns import value_column

        found = self._trees(topic, data.to_pylist())
        column = None if found is None else value_column(*found, self._values)
        return None if found is None or column is None else (found[0], column)

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the structs of payloads of one schema."""
        found = self._trees(topic, data)
        structs = None if found is None else structs_of(*found, self._values)
        return None if found is None or structs is None else (found[0], structs)

    def _trees(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema, list[Any]] | None:
        """Return the one schema and the JSON trees of payloads, None: some of them need a closer look."""
        first = next(iter(data), None)
        if first is None or self._values.numeric_decimals:
            return None
        try:
            plan = self._plan_for(topic, schema_id_of(first))
        except ConnectError:  # by rows: the same again, with the record's name
            return None
        present = [payload for payload in data if payload is not None]
        if len(present) < len(data) or not all(map(bytes.startswith, present, repeat(first[:LENGTH]))):
            return None
        if plan.schema is None or plan.schema.name == ONE_OF or plan.validate is not None:
            return None
        try:
            return plan.schema, [orjson.loads(payload[LENGTH:]) for payload in present]
        except orjson.JSONDecodeError:
            return None

    def _check(self, validate: Callable[[Any], None], tree: Any) -> None:
        try:
            validate(tree)
        except library("jsonschema").ValidationError as error:
            raise DataError(f"the value does not fit its JSON Schema: {error.message}") from error
