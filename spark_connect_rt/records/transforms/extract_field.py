"""One field in place of the whole (Java ``ExtractField``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Field, Schema
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, MEDIUM, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SideTransformation,
    require_map,
    require_struct,
    required_text,
)

# The path to a field (Java ``SingleFieldPath``, KIP-821): V1 is one name, V2 is steps between dots.
#
# In V2 backticks quote a step that holds dots; a backslash before a backtick that ends a step takes its meaning away.


SYNTAX = "field.syntax.version"
_PATH_PURPOSE = "nested field access"


def _known_version(value: Any) -> str | None:
    if value is None or value.upper() in ("V1", "V2"):
        return None
    return "String must be one of (case insensitive): V1, V2"


SYNTAX_KEY = ConfigKey(
    SYNTAX,
    ConfigType.STRING,
    "V1",
    HIGH,
    "V1: a plain field name. V2: dots lead into nested fields, and backticks quote a name with dots.",
    _known_version,
)


def path_steps(text: str, version: str) -> tuple[str, ...]:
    """Return the steps of a path. Raises ValueError: a backtick is not closed."""
    if version.upper() == "V1":
        return (text,)
    steps: list[str] = []
    index = 0
    while index < len(text):
        step, index = _quoted_step(text, index) if text[index] == "`" else _plain_step(text, index)
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _plain_step(text: str, start: int) -> tuple[str, int]:
    step, dot, _ = text[start:].partition(".")
    return step, start + len(step) + len(dot)


def _quoted_step(text: str, opening: int) -> tuple[str, int]:
    """Return the step and where the next one begins; a backtick ends a step only before a dot or the end."""
    step, start, index = "", opening + 1, opening + 1
    while True:
        index = text.find("`", index)
        escaped = index > 0 and text[index - 1] == "\\"
        if index < 0 or (index == len(text) - 1 and escaped):
            raise ValueError(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick "
                f"at position {opening} to escape it"
            )
        if index == len(text) - 1:
            return step + text[start:index], index + 1
        if text[index + 1] != ".":
            index += 1
        elif escaped:
            step, start, index = step + text[start : index - 1] + "`", index + 1, index + 1
        else:
            return step + text[start:index], index + 2


def field_at(schema: Schema, steps: tuple[str, ...]) -> Field | None:
    """Return the field at the end of a path, None where there is none. Raises DataError: a step is not a struct."""
    for step in steps[:-1]:
        member = schema.field(step)
        if member is None:
            return None
        schema = member.schema
    return schema.field(steps[-1])


def value_in_struct(struct: Struct, steps: tuple[str, ...], *, with_default: bool) -> Any:
    """Return the value at the end of a path, None where something on the way is null or missing."""
    for step in steps[:-1]:
        member = struct.schema.field(step)
        inner = None if member is None else struct.get(step)
        if member is None or inner is None:
            return None
        struct = require_struct(member.schema, inner, _PATH_PURPOSE)
    if struct.schema.field(steps[-1]) is None:
        return None
    return struct.get(steps[-1]) if with_default else struct.get_without_default(steps[-1])


def value_in_map(value: Mapping[str, Any], steps: tuple[str, ...]) -> Any:
    """Return the value at the end of a path, None where something on the way is null or missing."""
    for step in steps[:-1]:
        inner = value.get(step)
        if inner is None:
            return None
        value = require_map(inner, _PATH_PURPOSE)
    return value.get(steps[-1])


R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef([required_text("field", "Field to extract.", MEDIUM), REPLACE_NULL_KEY, SYNTAX_KEY])
_PURPOSE = "field extraction"


class ExtractField(SideTransformation):
    """Takes a field out of a struct or a map; null stays null."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
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
    """Replaces a record's key by one of its fields."""


class ExtractFieldValue(ExtractField, OfValue):
    """Replaces a record's value by one of its fields."""
