"""The schema of a Connect value (Java ``Schema``, ``SchemaBuilder``, ``SchemaAndValue``).

Owns types and their description; values are checked in ``values_check``, logical types live in ``logical``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from spark_connect_rt.errors import DataError


class Type(Enum):
    """Connect's types; the value is the name in error messages."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"

    @property
    def is_primitive(self) -> bool:
        """Whether values of the type hold no other values."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a struct; ``index`` is its place."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """An immutable description of values. ``default`` None means no default, as in Java.

    ``fields`` is for STRUCT, ``value_schema`` for ARRAY and MAP, ``key_schema`` for MAP. ``parameters`` are
    (name, text) pairs in their order; a mapping is accepted.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Any = field(default=None, hash=False)
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    def __post_init__(self) -> None:
        if isinstance(self.parameters, Mapping):
            object.__setattr__(self, "parameters", tuple(self.parameters.items()))
        names = [member.name for member in self.fields]
        if len(set(names)) != len(names):
            raise DataError(f"struct {self.name or ''} has a field twice: {names}")

    def field(self, name: str) -> Field | None:
        """Return the struct's member of that name, None where there is none."""
        return next((member for member in self.fields if member.name == name), None)

    def parameter(self, name: str) -> str | None:
        """Return one parameter, None where there is none."""
        return dict(self.parameters).get(name)

    def as_optional(self, optional: bool = True) -> Schema:
        """Return the same schema, nullable or not."""
        return self if self.optional is optional else replace(self, optional=optional)


class SchemaAndValue(NamedTuple):
    """A value with its schema; schema None: schemaless."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)


class SchemaBuilder:
    """Builds a schema step by step: ``SchemaBuilder.struct().field("a", INT32).optional().build()``."""

    def __init__(self, kind: Type, **parts: Any) -> None:
        """Start with a type; ``parts`` are attributes of Schema."""
        self._type = kind
        self._parts: dict[str, Any] = parts
        self._fields: list[Field] = []

    @staticmethod
    def struct() -> SchemaBuilder:
        """Start a STRUCT."""
        return SchemaBuilder(Type.STRUCT)

    @staticmethod
    def array(values: Schema) -> SchemaBuilder:
        """Start an ARRAY of ``values``."""
        return SchemaBuilder(Type.ARRAY, value_schema=values)

    @staticmethod
    def map(keys: Schema, values: Schema) -> SchemaBuilder:
        """Start a MAP."""
        return SchemaBuilder(Type.MAP, key_schema=keys, value_schema=values)

    def _set(self, part: str, value: Any) -> SchemaBuilder:
        if part in self._parts:
            raise DataError(f"schema builder: {part} is set already")
        self._parts[part] = value
        return self

    def optional(self) -> SchemaBuilder:
        """Allow null."""
        return self._set("optional", True)

    def required(self) -> SchemaBuilder:
        """Forbid null."""
        return self._set("optional", False)

    def name(self, name: str) -> SchemaBuilder:
        """Name the schema (logical types are told by name)."""
        return self._set("name", name)

    def version(self, version: int) -> SchemaBuilder:
        """Number the schema."""
        return self._set("version", version)

    def doc(self, doc: str) -> SchemaBuilder:
        """Describe the schema."""
        return self._set("doc", doc)

    def default(self, value: Any) -> SchemaBuilder:
        """Say what stands for a missing value."""
        return self._set("default", value)

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Add one parameter."""
        self._parts["parameters"] = (*self._parts.get("parameters", ()), (name, value))
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        """Add a member to a struct."""
        if self._type is not Type.STRUCT:
            raise DataError(f"cannot add field {name} to a schema of type {self._type.value}")
        self._fields.append(Field(name, len(self._fields), schema))
        return self

    def build(self) -> Schema:
        """Return the schema."""
        return Schema(self._type, fields=tuple(self._fields), **self._parts)


def struct_of(members: Mapping[str, Schema] | Iterable[tuple[str, Schema]], optional: bool = False) -> Schema:
    """Return the STRUCT schema with these members in their order."""
    pairs = members.items() if isinstance(members, Mapping) else members
    return Schema(
        Type.STRUCT,
        optional=optional,
        fields=tuple(Field(name, index, schema) for index, (name, schema) in enumerate(pairs)),
    )


INT8, OPTIONAL_INT8 = Schema(Type.INT8), Schema(Type.INT8, optional=True)
INT16, OPTIONAL_INT16 = Schema(Type.INT16), Schema(Type.INT16, optional=True)
INT32, OPTIONAL_INT32 = Schema(Type.INT32), Schema(Type.INT32, optional=True)
INT64, OPTIONAL_INT64 = Schema(Type.INT64), Schema(Type.INT64, optional=True)
FLOAT32, OPTIONAL_FLOAT32 = Schema(Type.FLOAT32), Schema(Type.FLOAT32, optional=True)
FLOAT64, OPTIONAL_FLOAT64 = Schema(Type.FLOAT64), Schema(Type.FLOAT64, optional=True)
BOOLEAN, OPTIONAL_BOOLEAN = Schema(Type.BOOLEAN), Schema(Type.BOOLEAN, optional=True)
STRING, OPTIONAL_STRING = Schema(Type.STRING), Schema(Type.STRING, optional=True)
BYTES, OPTIONAL_BYTES = Schema(Type.BYTES), Schema(Type.BYTES, optional=True)
