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
    _by_name: Mapping[str, Field] = field(init=False, repr=False, compare=False, default_factory=dict)
    fields_have_defaults: bool = field(init=False, repr=False, compare=False, default=False)

    def __post_init__(self) -> None:
        if isinstance(self.parameters, Mapping):
            object.__setattr__(self, "parameters", tuple(self.parameters.items()))
        object.__setattr__(self, "_by_name", {member.name: member for member in self.fields})
        has_defaults = any(member.schema.default is not None for member in self.fields)
        object.__setattr__(self, "fields_have_defaults", has_defaults)
        if len(self._by_name) != len(self.fields):
            names = [member.name for member in self.fields]
            raise DataError(f"struct {self.name or ''} has a field twice: {names}")

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.value}}}" if self.name else f"Schema{{{self.type.value}}}"

    def field(self, name: str) -> Field | None:
        """Return the struct's member of that name, None where there is none. Raises DataError: no struct."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

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
        given = self._parts.get(part)
        if given is not None and given is not value:
            raise DataError(f"Invalid SchemaBuilder call: {part} has already been set.")
        self._parts[part] = value
        return self

    def optional(self) -> SchemaBuilder:
        """Allow null."""
        return self._set("optional", True)

    def required(self) -> SchemaBuilder:
        """Forbid null."""
        return self._set("optional", False)

    def name(self, name: str | None) -> SchemaBuilder:
        """Name the schema (logical types are told by name)."""
        return self._set("name", name)

    def version(self, version: int | None) -> SchemaBuilder:
        """Number the schema."""
        return self._set("version", version)

    def doc(self, doc: str | None) -> SchemaBuilder:
        """Describe the schema."""
        return self._set("doc", doc)

    def default(self, value: Any) -> SchemaBuilder:
        """Say what stands for a missing value. Raises DataError: it does not fit what was built so far."""
        from spark_connect_rt.api.data.values_check import check_value  # a schema's check knows schemas

        try:
            check_value(self.build(), value)
        except DataError as error:
            raise DataError("Invalid default value") from error
        return self._set("default", value)

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Add one parameter."""
        return self.parameters({name: value})

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        """Add parameters; a name that is there already gets the new text."""
        self._parts["parameters"] = tuple({**dict(self._parts.get("parameters", ())), **parameters}.items())
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        """Add a member to a struct. Raises DataError: no struct, no name, or a name it has already."""
        if self._type is not Type.STRUCT:
            raise DataError(f"Cannot create fields on type {self._type.value}")
        if not name:
            raise DataError("fieldName cannot be null.")
        if any(member.name == name for member in self._fields):
            raise DataError(f"Cannot create field because of field name duplication {name}")
        self._fields.append(Field(name, len(self._fields), schema))
        return self

    def build(self) -> Schema:
        """Return the schema."""
        return Schema(self._type, fields=tuple(self._fields), **self._parts)


def copy_basics(source: Schema, kind: Type | None = None) -> SchemaBuilder:
    """Return a builder with the name, version, doc and parameters of ``source`` (Java ``SchemaUtil``).

    Without ``kind`` the type, and of an array the element, are the source's too.
    """
    builder = SchemaBuilder(kind) if kind else SchemaBuilder(source.type, **_container_parts(source))
    builder.name(source.name).version(source.version).doc(source.doc)
    return builder.parameters(dict(source.parameters)) if source.parameters else builder


def _container_parts(source: Schema) -> dict[str, Schema | None]:
    return {"value_schema": source.value_schema} if source.type is Type.ARRAY else {}


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
