"""One field in place of the whole (Java ``ExtractField``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import MEDIUM, ConfigDef
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.field_path import (
    SYNTAX,
    SYNTAX_KEY,
    field_at,
    path_steps,
    value_in_map,
    value_in_struct,
)
from spark_connect_rt.records.transforms.record_side import (
    OfKey,
    OfValue,
    SideTransformation,
    require_map,
    require_struct,
)
from spark_connect_rt.records.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, required_text

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef([required_text("field", "Field to extract.", MEDIUM), REPLACE_NULL_KEY, SYNTAX_KEY])
_PURPOSE = "field extraction"


class ExtractField(SideTransformation):
    """Takes a field out of a struct or a map; null stays null."""

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self.path: str = values["field"]
        self.replace_null: bool = values[REPLACE_NULL]
        try:
            self.steps = path_steps(self.path, values[SYNTAX])
        except ValueError as error:
            raise BadConfigError({"field": [str(error)]}) from error

    def apply(self, record: R) -> R | None:
        """Return the record with the field. Raises DataError: the schema has no such field."""
        schema, value = self.schema_of(record), self.value_of(record)
        if not self.steps and (schema is not None or value is not None):
            raise DataError("must not be empty")
        if schema is None:
            found = None if value is None else value_in_map(require_map(value, _PURPOSE), self.steps)
            return self.changed(record, None, found)
        struct = None if value is None else require_struct(schema, value, _PURPOSE)
        member = field_at(schema, self.steps)
        if member is None:
            raise DataError(f"Unknown field: {self.path}")
        part = struct and value_in_struct(struct, self.steps, with_default=self.replace_null)
        return self.changed(record, member.schema, part)


class ExtractFieldKey(ExtractField, OfKey):
    """Extracts from keys."""


class ExtractFieldValue(ExtractField, OfValue):
    """Extracts from values."""
