"""Fields left out, kept or renamed (Java ``ReplaceField``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import MEDIUM, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    java_split,
    rebuilt,
    require_map,
    require_struct,
)

R = TypeVar("R", SourceRecord, SinkRecord)
_PURPOSE = "field replacement"


def parse_renames(mappings: Sequence[str]) -> dict[str, str]:
    """Return old name -> new name. Raises ValueError."""
    renames = {}
    for mapping in mappings:
        parts = java_split(mapping)
        if len(parts) != 2:
            raise ValueError(f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


def _valid_renames(value: Any) -> str | None:
    try:
        parse_renames(value or [])
    except ValueError as error:
        return str(error)
    return None


CONFIG = ConfigDef(
    [
        ConfigKey("exclude", ConfigType.LIST, "", MEDIUM, "Fields to leave out, also of those to keep."),
        ConfigKey("include", ConfigType.LIST, "", MEDIUM, "Fields to keep; empty: all."),
        ConfigKey("renames", ConfigType.LIST, "", MEDIUM, "New names, old:new,old:new.", _valid_renames),
        REPLACE_NULL_KEY,
    ]
)


class ReplaceField(SideTransformation):
    """Drops, keeps or renames fields. A null key or value passes unchanged."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self._exclude, self._include = frozenset(values["exclude"]), frozenset(values["include"])
        self._renames = parse_renames(values["renames"])
        self._reverse = {new: old for old, new in self._renames.items()}
        self.replace_null: bool = values[REPLACE_NULL]
        self._plans = SchemaCache[tuple[Schema, list[int]]]()

    def keeps(self, name: str) -> bool:
        """Return whether the field stays in the record."""
        return name not in self._exclude and (not self._include or name in self._include)

    def renamed(self, name: str) -> str:
        """Return the field's new name."""
        return self._renames.get(name, name)

    def original(self, name: str) -> str:
        """Return the name of the field that is called ``name`` now."""
        return self._reverse.get(name, name)

    def apply(self, record: R) -> R | None:
        """Return the record with its fields replaced. Raises DataError: no map or struct."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            given = require_map(value, _PURPOSE)
            return self.changed(
                record, None, {self.renamed(name): part for name, part in given.items() if self.keeps(name)}
            )
        struct = require_struct(schema, value, _PURPOSE)
        updated, origins = self._plans.get(struct.schema, self._make_plan)
        parts = struct.values(with_defaults=self.replace_null)
        return self.changed(record, updated, rebuilt(updated, [parts[index] for index in origins]))

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema. Raises DataError: two fields of one name."""
        return self._plans.get(schema, self._make_plan)[0]

    def _make_plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        """Return the new schema, and the place in the old one of each of its fields."""
        updated = self._make_schema(schema)
        origins = [schema.field(self.original(member.name)) for member in updated.fields]
        if None in origins:
            missing = next(field.name for field, at in zip(updated.fields, origins, strict=True) if at is None)
            raise DataError(f"{self.original(missing)} is not a valid field name")
        return updated, [origin.index for origin in origins if origin is not None]

    def _make_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        for member in schema.fields:
            if self.keeps(member.name):
                builder.field(self.renamed(member.name), member.schema)
        return builder.build()


class ReplaceFieldKey(ReplaceField, OfKey):
    """Drops, keeps or renames fields of a record's key."""


class ReplaceFieldValue(ReplaceField, OfValue):
    """Drops, keeps or renames fields of a record's value."""
