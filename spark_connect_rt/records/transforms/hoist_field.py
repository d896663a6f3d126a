"""The whole as the one field of a struct or a map (Java ``HoistField``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import MEDIUM, ConfigDef
from spark_connect_rt.records.transforms.key_or_value import (
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    required_text,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef([required_text("field", "Name of the new field.", MEDIUM)])


class HoistField(SideTransformation):
    """Wraps the whole into a struct or a map of one field, also if it is null."""

    def config_def(self) -> ConfigDef:
        """Return the declaration of the field name's setting."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the setting. Raises BadConfigError."""
        self.field: str = CONFIG.parse(config)["field"]
        self._schemas = SchemaCache[Schema]()

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema."""
        return self._schemas.get(schema, lambda given: SchemaBuilder.struct().field(self.field, given).build())

    def apply(self, record: R) -> R | None:
        """Return the record with the field. Raises DataError: null for a required schema."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, {self.field: value})
        updated = self.updated_schema(schema)
        return self.changed(record, updated, Struct(updated).put(self.field, value))


class HoistFieldKey(HoistField, OfKey):
    """Wraps a record's key into a struct or a map of one field."""


class HoistFieldValue(HoistField, OfValue):
    """Wraps a record's value into a struct or a map of one field."""
