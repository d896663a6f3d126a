"""Which side of a record a transformation works on (the ``$Key`` and ``$Value`` variants of a Java class)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.struct import Struct, check_field
from spark_connect_rt.api.records import B, SinkRecord, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import HIGH, MEDIUM, REQUIRED, ConfigKey, Importance
from spark_connect_rt.config.config_def import Type as SettingsType
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import Check, anything
from spark_connect_rt.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", SourceRecord, SinkRecord)
T = TypeVar("T")


class SideTransformation(Transformation):
    """A transformation of the key or of the value, as OfKey or OfValue decides."""

    def schema_of(self, record: R) -> Schema | None:
        """Return the schema of the side, None for schemaless."""
        raise NotImplementedError

    def value_of(self, record: R) -> Any:
        """Return the key or the value of a record."""
        raise NotImplementedError

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        """Return the record with another key or value."""
        raise NotImplementedError

    def batch_side(self, batch: B) -> tuple[Schema | None, pa.Array | None]:
        """Return schema and column of the side; no column: every record has null there."""
        raise NotImplementedError

    def changed_batch(self, batch: B, schema: Schema | None, column: pa.Array) -> B:
        """Return the batch with another key or value column."""
        raise NotImplementedError


class OfKey(SideTransformation):
    """The base class of transformations of a record's key."""

    side = "key"

    def schema_of(self, record: R) -> Schema | None:
        """Return the key's schema, None for schemaless."""
        return record.key_schema

    def value_of(self, record: R) -> Any:
        """Return the key of a record."""
        return record.key

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        """Return the record with another key."""
        return altered(record, key_schema=schema, key=value)

    def batch_side(self, batch: B) -> tuple[Schema | None, pa.Array | None]:
        """Return schema and column of the keys. No column: every key is null."""
        return batch.key_schema, batch.keys

    def changed_batch(self, batch: B, schema: Schema | None, column: pa.Array) -> B:
        """Return the batch with other keys."""
        return replace(batch, key_schema=schema, keys=column)


class OfValue(SideTransformation):
    """The base class of transformations of a record's value."""

    side = "value"

    def schema_of(self, record: R) -> Schema | None:
        """Return the value's schema, None for schemaless."""
        return record.value_schema

    def value_of(self, record: R) -> Any:
        """Return the value of a record."""
        return record.value

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        """Return the record with another value."""
        return altered(record, value_schema=schema, value=value)

    def batch_side(self, batch: B) -> tuple[Schema | None, pa.Array | None]:
        """Return schema and column of the values."""
        return batch.value_schema, batch.values

    def changed_batch(self, batch: B, schema: Schema | None, column: pa.Array) -> B:
        """Return the batch with other values."""
        return replace(batch, value_schema=schema, values=column)


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Return a schemaless value that must be a map. Raises DataError, in Java's words."""
    if isinstance(value, Mapping):
        return value
    raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {class_name(value)}")


def require_struct(schema: Schema, value: Any, purpose: str) -> Struct:
    """Return a value that must be a struct; the mapping of an Arrow column becomes one. Raises DataError."""
    if isinstance(value, Struct):
        return value
    if isinstance(value, Mapping) and schema.type is Type.STRUCT:
        return Struct.from_mapping(schema, value)
    raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_name(value)}")


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """Return the fields of a struct's schema. Raises DataError: it is another type's."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


_JAVA_CLASSES = {
    str: "java.lang.String",
    bool: "java.lang.Boolean",
    int: "java.lang.Long",  # the type of JSON numbers without a schema
    float: "java.lang.Double",
    list: "java.util.ArrayList",
    dict: "java.util.HashMap",
}


def class_name(value: Any) -> str:
    """Return the name of a value's class for messages, Java's where it has one."""
    return "null" if value is None else _JAVA_CLASSES.get(type(value)) or type(value).__name__


def rebuilt(schema: Schema, values: list[Any]) -> Struct:
    """Return the struct of values that fitted fields of the same schemas before; only nulls are checked again.

    Raises DataError: null in a required field.
    """
    if None in values:
        for member, value in zip(schema.fields, values, strict=True):
            if value is None and not member.schema.optional:
                check_field(member.name, member.schema, None)
    return Struct.of_checked(schema, values)


class SchemaCache(Generic[T]):
    """Results computed from the schemas seen last, keyed by identity: the records of a topic share theirs."""

    LIMIT = 16

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._made: dict[int, tuple[Schema, T]] = {}

    def get(self, schema: Schema, make: Callable[[Schema], T]) -> T:
        """Return the result of ``make`` for this very schema. It is computed once, while the cache has room."""
        known = self._made.get(id(schema))
        if known is not None:
            return known[1]  # the entry holds its schema, so the id is of no other
        if len(self._made) >= self.LIMIT:
            self._made.clear()
        made = make(schema)
        self._made[id(schema)] = (schema, made)
        return made


# Declarations that several transformations share: short forms of ConfigKey, and the checks of their settings.


REPLACE_NULL = "replace.null.with.default"
REPLACE_NULL_KEY = ConfigKey(
    REPLACE_NULL,
    SettingsType.BOOLEAN,
    True,
    MEDIUM,
    "Take a field's default where the field is null; false: leave the null.",
)


def required_text(name: str, doc: str, importance: Importance = HIGH, check: Check = anything) -> ConfigKey:
    """Return a setting without a default that is text."""
    return ConfigKey(name, SettingsType.STRING, REQUIRED, importance, doc, check)


def optional_text(name: str, doc: str, importance: Importance = MEDIUM, check: Check = anything) -> ConfigKey:
    """Return a setting that is text, or not set."""
    return ConfigKey(name, SettingsType.STRING, None, importance, doc, check)


def required_list(name: str, doc: str) -> ConfigKey:
    """Return a setting without a default that lists at least one word."""
    return ConfigKey(name, SettingsType.LIST, REQUIRED, HIGH, doc, non_empty_list)


def non_empty_list(value: Any) -> str | None:
    """Complain about an empty list."""
    return None if value else "Empty list"


def given(value: Any) -> str | None:
    """Complain about a setting that is not there."""
    return "entry must be non null" if value is None else None


def non_empty_text(value: Any) -> str | None:
    """Complain about a text without characters."""
    return "String must be non-empty" if value is not None and not value else None


def valid_regex(value: Any) -> str | None:
    """Complain about text that is not a regular expression."""
    if value is None:
        return None
    try:
        java_pattern(value)
    except ValueError as error:
        return f"Invalid regex: {error}"
    return None


def java_split(text: str, separator: str = ":") -> list[str]:
    """Return ``String.split``: empty parts at the end do not count."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
