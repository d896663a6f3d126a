"""Another name and version for a schema (Java ``SetSchemaMetadata``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, ConfigDef, ConfigKey, Type
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    fields_of,
    optional_text,
    rebuilt,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef(
    [
        optional_text("schema.name", "The schema's new name; not set: it keeps its own.", HIGH),
        ConfigKey("schema.version", Type.INT, None, HIGH, "The schema's new version; not set: it keeps its own."),
        REPLACE_NULL_KEY,
    ]
)


class SetSchemaMetadata(SideTransformation):
    """Sets the name and version of schemas."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError: neither name nor version."""
        values = CONFIG.parse(config)
        self._name, self._version = values["schema.name"], values["schema.version"]
        self.replace_null: bool = values[REPLACE_NULL]
        if self._name is None and self._version is None:
            raise BadConfigError({"schema.name": ["Neither schema name nor version configured"]})
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record with its new schema. Raises DataError: a value without a schema."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        updated = self.updated_schema(schema)
        if isinstance(value, Struct):
            value = rebuilt(updated, list(value.values(with_defaults=self.replace_null)))
        return self.changed(record, updated, value)

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        fields_of(schema)  # Java reads its fields, and so rejects a schema that is not a struct
        name = schema.name if self._name is None else self._name
        return replace(schema, name=name, version=schema.version if self._version is None else self._version)


class SetSchemaMetadataKey(SetSchemaMetadata, OfKey):
    """Works on the schemas of keys."""


class SetSchemaMetadataValue(SetSchemaMetadata, OfValue):
    """Works on the schemas of values."""
