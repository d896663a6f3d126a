"""Facts about the record, or a fixed text, as fields (Java ``InsertField``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    class_name,
    optional_text,
    rebuilt,
    require_map,
    require_struct,
)

R = TypeVar("R", SourceRecord, SinkRecord)
_MARKS = "With ! at its end the field is required, with ? (or nothing) it is optional."
CONFIG = ConfigDef(
    [
        optional_text("topic.field", f"Field for the topic. {_MARKS}"),
        optional_text("partition.field", f"Field for the partition. {_MARKS}"),
        optional_text("offset.field", f"Field for the offset; sinks only. {_MARKS}"),
        optional_text("timestamp.field", f"Field for the record's timestamp. {_MARKS}"),
        optional_text("static.field", f"Field for the fixed text. {_MARKS}"),
        optional_text("static.value", "The fixed text."),
        REPLACE_NULL_KEY,
    ]
)
_PURPOSE = "field insertion"


@dataclass(frozen=True, slots=True)
class Insertion:
    """One field to insert: the source of its value, its name and its schema."""

    source: str
    name: str
    schema: Schema


_SCHEMAS = {
    "topic": schemas.STRING,
    "partition": schemas.INT32,
    "offset": schemas.INT64,
    "timestamp": logical.timestamp_schema(),
    "static": schemas.STRING,
}


def _insertion(source: str, spec: str) -> Insertion:
    marked = spec.endswith(("?", "!"))
    return Insertion(source, spec[:-1] if marked else spec, _SCHEMAS[source].as_optional(not spec.endswith("!")))


def _with_schema(insertion: Insertion, value: Any) -> Any:
    is_time = insertion.source == "timestamp" and value is not None
    return logical.from_ms(logical.TIMESTAMP, value) if is_time else value


class InsertField(SideTransformation):
    """Inserts fields; a null key or value passes unchanged."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError: nothing to insert, or a field without its value."""
        values = CONFIG.parse(config)
        specs = {source: values[f"{source}.field"] for source in _SCHEMAS}
        self.insertions = [_insertion(source, spec) for source, spec in specs.items() if spec is not None]
        self.static_value: str | None = values["static.value"]
        self.replace_null: bool = values[REPLACE_NULL]
        if not self.insertions:
            raise BadConfigError({"topic.field": ["No field insertion configured"]})
        if specs["static"] is not None and self.static_value is None:
            raise BadConfigError({"static.value": [f"No value specified for static field: {specs['static']}"]})
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record with the fields. Raises DataError: no map or struct, or an offset of a source."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            given = require_map(value, _PURPOSE)
            return self.changed(record, None, {**given, **dict(self._inserted(record))})
        struct = require_struct(schema, value, _PURPOSE)
        updated = self.updated_schema(struct.schema)
        parts = list(struct.values(with_defaults=self.replace_null))
        rebuilt(struct.schema, parts)  # the inserted values fit, or are null as in Java
        parts += [_with_schema(insertion, self._value(insertion.source, record)) for insertion in self.insertions]
        return self.changed(record, updated, Struct.of_checked(updated, parts))

    def _inserted(self, record: SourceRecord | SinkRecord) -> Iterator[tuple[str, Any]]:
        for insertion in self.insertions:
            value = self._value(insertion.source, record)
            if value is not None:
                yield insertion.name, value

    def _value(self, source: str, record: SourceRecord | SinkRecord) -> Any:
        if source == "offset":
            if not isinstance(record, SinkRecord):
                raise DataError(f"Only SinkRecord supported for [{_PURPOSE}], found: {class_name(record)}")
            return record.offset
        if source == "static":
            return self.static_value
        values = {"topic": record.topic, "partition": record.partition, "timestamp": record.timestamp_ms}
        return values[source]

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema. Raises DataError: a field is there already."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        for member in schema.fields:
            builder.field(member.name, member.schema)
        for insertion in self.insertions:
            builder.field(insertion.name, insertion.schema)
        return builder.build()


class InsertFieldKey(InsertField, OfKey):
    """Inserts fields into a record's key."""


class InsertFieldValue(InsertField, OfValue):
    """Inserts fields into a record's value."""
