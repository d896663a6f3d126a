"""A moment in another form (Java ``TimestampConverter``)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.data.simple_date_format import PatternPart, format_ms, pattern_doubt, pattern_parts
from spark_connect_rt.api.data.simple_date_parse import NOT_READ, parse_prefix
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    rebuilt,
    require_map,
    require_struct,
    required_text,
)

# A moment in its five forms: text, Unix time, Date, Time, Timestamp (inside Java ``TimestampConverter``).


TEXT, UNIX, DATE, TIME, TIMESTAMP = KINDS = ("string", "unix", "Date", "Time", "Timestamp")
PRECISIONS = ("nanoseconds", "microseconds", "milliseconds", "seconds")
LOGICAL = {DATE: logical.DATE, TIME: logical.TIME, TIMESTAMP: logical.TIMESTAMP}
_SCHEMAS = {
    TEXT: schemas.STRING,
    UNIX: schemas.INT64,
    DATE: logical.date_schema(),
    TIME: logical.time_schema(),
    TIMESTAMP: logical.timestamp_schema(),
}
_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1_000}
_DAY_MS = 86_400_000
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampForm:
    """How text and Unix times are written and read; ``parts`` None: there is no pattern."""

    pattern: str
    parts: tuple[PatternPart, ...] | None
    precision: str
    century_start: tuple[int, int, int]


def schema_of_kind(kind: str, optional: bool) -> Schema:
    """Return the schema of a form."""
    return _SCHEMAS[kind].as_optional(optional)


def kind_of_schema(schema: Schema) -> str:
    """Return the form of values of a schema. Raises DataError: its values are not moments."""
    for kind, name in LOGICAL.items():
        if schema.name == name:
            return kind
    if schema.type in (Type.STRING, Type.INT64):
        return TEXT if schema.type is Type.STRING else UNIX
    raise DataError(f"Schema {schema} does not correspond to a known timestamp type format")


def kind_of_value(value: Any) -> str:
    """Return the form of a value without a schema. Raises DataError: it is not a moment."""
    if isinstance(value, dt.date | dt.time):
        return TIMESTAMP
    if isinstance(value, int) and not isinstance(value, bool):
        return UNIX
    if isinstance(value, str):
        return TEXT
    raise DataError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")


def to_ms(kind: str, value: Any, form: TimestampForm) -> int:
    """Return ms since the epoch of a value in one of the forms. Raises DataError."""
    if kind == TEXT:
        return _text_ms(value, form)
    if kind == UNIX:
        if not isinstance(value, int) or isinstance(value, bool):
            raise DataError(f"Expected Unix timestamp to be a int, but found {type(value).__name__}")
        return unix_to_ms(value, form.precision)
    if not isinstance(value, dt.date | dt.time):
        raise DataError(f"Expected {kind} to be a datetime, but found {type(value).__name__}")
    return logical.ms_of(value)


def _text_ms(value: Any, form: TimestampForm) -> int:
    if not isinstance(value, str):
        raise DataError(f"Expected string timestamp to be a str, but found {type(value).__name__}")
    if form.parts is None:
        raise DataError(f"format is not set, so the timestamp ({value}) cannot be read")
    found = parse_prefix(form.parts, value, form.century_start)
    if found is None or found[1] == 0:
        raise DataError(f"Could not parse timestamp: value ({value}) does not match pattern ({form.pattern})")
    return found[0]


def from_ms(kind: str, ms: int, form: TimestampForm) -> Any:
    """Return a moment in one of the forms. Raises DataError: a year that Python has no date for."""
    if kind == TEXT:
        return format_ms(form.parts or (), ms)
    if kind == UNIX:
        return ms_to_unix(ms, form.precision)
    return logical.from_ms(LOGICAL[kind], ms)


def unix_to_ms(value: int, precision: str) -> int:
    """Return ms. Parts of a ms are dropped (towards the epoch); a number that is too large becomes the largest."""
    if precision == "seconds":
        return min(max(value * 1000, _LONG_MIN), _LONG_MAX)
    return _cut(value, _PER_MS.get(precision, 1))


def ms_to_unix(ms: int, precision: str) -> int:
    """Return the Unix time of ms. Parts of a second are dropped (towards the epoch)."""
    if precision == "seconds":
        return _cut(ms, 1000)
    return min(max(ms * _PER_MS.get(precision, 1), _LONG_MIN), _LONG_MAX)


def _cut(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


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
_CENTURY_YEARS = 80  # years of two digits belong to the 100 years that begin 80 years before the start


class TimestampConverter(SideTransformation):
    """Converts a moment between text, Unix time, date, time and timestamp; null stays null."""

    def __init__(self, today: Callable[[], dt.date] = dt.date.today) -> None:
        """Take the clock, which determines the century of years with two digits, as in Java."""
        self._today = today

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
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
        """Return the record with the moment in its new form. Raises DataError: the value is not a moment."""
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
        """Return the schema of the result for an input schema."""
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
    """Converts a moment in a record's key, or the whole key."""


class TimestampConverterValue(TimestampConverter, OfValue):
    """Converts a moment in a record's value, or the whole value."""
