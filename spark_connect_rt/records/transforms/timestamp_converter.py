"""A moment in another form (Java ``TimestampConverter``)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.data.simple_date_format import pattern_doubt, pattern_parts
from spark_connect_rt.api.data.simple_date_parse import NOT_READ
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.records.transforms.record_side import (
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    rebuilt,
    require_map,
    require_struct,
)
from spark_connect_rt.records.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, required_text
from spark_connect_rt.records.transforms.timestamp_kinds import (
    KINDS,
    PRECISIONS,
    TEXT,
    TimestampForm,
    from_ms,
    kind_of_schema,
    kind_of_value,
    schema_of_kind,
    to_ms,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef(
    [
        ConfigKey("field", ConfigType.STRING, "", HIGH, "Field that holds the moment; empty: it is the whole."),
        required_text("target.type", "The form it gets.", HIGH, one_of(*KINDS)),
        ConfigKey(
            "format",
            ConfigType.STRING,
            "",
            MEDIUM,
            "How it is written as text: a pattern of SimpleDateFormat, UTC.",
            doubt=pattern_doubt,
        ),
        ConfigKey("unix.precision", ConfigType.STRING, "milliseconds", LOW, "Unit of Unix times.", one_of(*PRECISIONS)),
        REPLACE_NULL_KEY,
    ]
)
_PURPOSE = "converting timestamp formats"
_CENTURY_YEARS = 80  # years of two digits are read as of 80 years before the start on


class TimestampConverter(SideTransformation):
    """Converts; null stays null."""

    def __init__(self, today: Callable[[], dt.date] = dt.date.today) -> None:
        """Take the clock: it says what century years of two digits are of, as in Java."""
        self._today = today

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError: text without a pattern, or a bad pattern."""
        values = CONFIG.parse(config)
        self.field: str = values["field"]
        self.kind: str = values["target.type"]
        self.replace_null: bool = values[REPLACE_NULL]
        self.form = self._form(values["format"], values["unix.precision"])
        self._schemas = SchemaCache[Schema]()

    def _form(self, pattern: str, precision: str) -> TimestampForm:
        today = self._today()
        century_start = (today.year - _CENTURY_YEARS, today.month, today.day)
        if not pattern.strip():
            if self.kind == TEXT:
                why = "TimestampConverter requires format option to be specified when using string timestamps"
                raise BadConfigError({"format": [why]})
            return TimestampForm("", None, precision, century_start)
        try:
            parts = pattern_parts(pattern)
        except ValueError as error:
            why = "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps"
            raise BadConfigError({"format": [f"{why}: {pattern}"]}) from error
        if self.kind != TEXT and any(part.letter and part.letter in NOT_READ for part in parts):
            raise BadConfigError({"format": [f"{pattern}: weeks ({', '.join(NOT_READ)}) are written, but not read"]})
        return TimestampForm(pattern, parts, precision, century_start)

    def apply(self, record: R) -> R | None:
        """Return the record with the moment in its new form. Raises DataError: it is none."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is not None:
            return self._with_schema(record, schema, value)
        if value is None or not self.field:
            return self.changed(record, None, self._converted(None, value))
        given = require_map(value, _PURPOSE)
        return self.changed(record, None, {**given, self.field: self._converted(None, given.get(self.field))})

    def _with_schema(self, record: R, schema: Schema, value: Any) -> R:
        if not self.field:
            converted = self._converted(kind_of_schema(schema), value)
            return self.changed(record, schema_of_kind(self.kind, schema.optional), converted)
        struct = None if value is None else require_struct(schema, value, _PURPOSE)
        updated = self.updated_schema(schema)
        return self.changed(record, updated, None if struct is None else self._struct(struct, updated))

    def _struct(self, struct: Struct, updated: Schema) -> Struct:
        parts = list(struct.values(with_defaults=self.replace_null))
        member = struct.schema.field(self.field)
        if member is not None:
            parts[member.index] = self._converted(kind_of_schema(member.schema), parts[member.index])
        return rebuilt(updated, parts)

    def _converted(self, kind: str | None, value: Any) -> Any:
        if value is None:
            return None
        return from_ms(self.kind, to_ms(kind or kind_of_value(value), value, self.form), self.form)

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of what comes out."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        for member in schema.fields:
            named = member.name == self.field
            builder.field(member.name, schema_of_kind(self.kind, member.schema.optional) if named else member.schema)
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(self._struct(schema.default, builder.build()))
        return builder.build()


class TimestampConverterKey(TimestampConverter, OfKey):
    """Converts in keys."""


class TimestampConverterValue(TimestampConverter, OfValue):
    """Converts in values."""
