"""Fields of the value as the key (Java ``ValueToKey``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    SchemaCache,
    require_map,
    require_struct,
    required_list,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef([required_list("fields", "Fields of the value that make the key."), REPLACE_NULL_KEY])
_PURPOSE = "copying fields from value to key"


class ValueToKey(Transformation):
    """Makes the key a struct or map of some of the value's fields."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self.fields: list[str] = values["fields"]
        self.replace_null: bool = values[REPLACE_NULL]
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record with its new key. Raises DataError: no map or struct, or no such field."""
        if record.value_schema is None:
            given = require_map(record.value, _PURPOSE)
            return altered(record, key_schema=None, key={name: given.get(name) for name in self.fields})
        struct = require_struct(record.value_schema, record.value, _PURPOSE)
        schema = self.key_schema(struct.schema)
        key = Struct(schema)
        for name in self.fields:
            key.put(name, struct.get(name) if self.replace_null else struct.get_without_default(name))
        return altered(record, key_schema=schema, key=key, value_schema=struct.schema, value=struct)

    def key_schema(self, schema: Schema) -> Schema:
        """Return the schema of the keys. Raises DataError: no such field."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name in self.fields:
            member = schema.field(name)
            if member is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, member.schema)
        return builder.build()
