"""The schema of a Connect value (Java ``Schema``, ``SchemaAndValue``).

Owns types and their description; ``schema_builder`` builds them step by step, ``struct`` checks values, logical types
live in ``logical``.
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

    @property
    def keeps_null(self) -> bool:
        """Return whether a null is allowed and stays null: there is no default for it."""
        return self.optional and self.default is None

    def as_optional(self, optional: bool = True) -> Schema:
        """Return the same schema, nullable or not."""
        return self if self.optional is optional else replace(self, optional=optional)


class SchemaAndValue(NamedTuple):
    """A value with its schema; schema None: schemaless."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)


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
