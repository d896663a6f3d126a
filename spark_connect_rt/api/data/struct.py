"""A value of a STRUCT schema (Java ``Struct``), and whether a value fits its schema (``ConnectSchema.validateValue``).

Both are in one file because they call each other: a struct checks its values, and a check descends into structs. The
messages are Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.data.logical import PYTHON_TYPES, is_logical_value
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.errors import DataError


class Struct:
    """One value a field, in the schema's order; a field that was not set reads as its default, else None."""

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        """Make a struct of ``schema`` with these values. Raises DataError."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def of_checked(cls, schema: Schema, values: list[Any]) -> Struct:
        """Return a struct of values that are known to fit, one a field; the list is the struct's from now on."""
        struct = cls.__new__(cls)
        struct.schema = schema
        struct._values = values
        return struct

    @classmethod
    def all_of_checked(cls, schema: Schema, rows: Iterable[list[Any]]) -> list[Struct]:
        """Return a struct of each row, as ``of_checked`` does."""
        structs = []
        make = cls.__new__
        for values in rows:
            struct = make(cls)
            struct.schema = schema
            struct._values = values
            structs.append(struct)
        return structs

    @classmethod
    def from_mapping(cls, schema: Schema, values: Mapping[str, Any]) -> Struct:
        """Return the struct of a mapping, nested mappings of STRUCT fields turned into structs. Raises DataError."""
        struct = cls(schema)
        for member in schema.fields:
            value = values.get(member.name)
            if member.schema.type is Type.STRUCT and isinstance(value, Mapping):
                value = cls.from_mapping(member.schema, value)
            if value is not None:
                struct.put(member.name, value)
        return struct

    def put(self, name: str, value: Any) -> Struct:
        """Set a field and return the struct. Raises DataError: no such field, or the value does not fit it."""
        member = self._member(name)
        check_field(name, member.schema, value)
        self._values[member.index] = value
        return self

    def get(self, name: str) -> Any:
        """Return a field's value, or the default of its schema. Raises DataError: no such field."""
        member = self._member(name)
        value = self._values[member.index]
        return member.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """Return a field's value as it was set. Raises DataError: no such field."""
        return self._values[self._member(name).index]

    def get_typed(self, name: str, kind: Type) -> Any:
        """Return a field's value as it was set (Java ``getInt8`` ...). Raises DataError: it is of another type."""
        member = self._member(name)
        if member.schema.type is not kind:
            raise DataError(f"Field '{name}' is not of type {kind.value}")
        return self._values[member.index]

    def values(self, *, with_defaults: bool = True) -> Sequence[Any]:
        """Return the fields' values in the schema's order."""
        if not with_defaults or not self.schema.fields_have_defaults:
            return self._values
        pairs = zip(self.schema.fields, self._values, strict=True)
        return [member.schema.default if value is None else value for member, value in pairs]

    def check(self) -> None:
        """Return when every field fits, a null with a default included (Java ``validate``). Raises DataError."""
        for member, value in zip(self.schema.fields, self._values, strict=True):
            check_field(member.name, member.schema, value, has_default=True)

    def _member(self, name: str) -> Field:
        member = self.schema.field(name)
        if member is None:
            raise DataError(f"{name} is not a valid field name")
        return member

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping, defaults filled in; nested structs stay structs."""
        return {member.name: self.get(member.name) for member in self.schema.fields}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self._values == other._values

    def __hash__(self) -> int:
        return hash((self.schema, tuple(map(repr, self._values))))

    def __repr__(self) -> str:
        # The form of Java's toString, which FileStreamSink and StringConverter write.
        named = zip(self.schema.fields, self._values, strict=True)
        return f"Struct{{{','.join(f'{m.name}={v}' for m, v in named if v is not None)}}}"


_INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_PYTHON_TYPES: dict[Type, tuple[type[Any], ...]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (Mapping,),
    Type.STRUCT: (Struct, Mapping),
}


def check_value(schema: Schema, value: Any, place: str = "value") -> None:
    """Return when ``value`` fits ``schema``, all the way down. Raises DataError naming the place inside.

    A STRUCT may be a mapping, as the elements of an Arrow column are.
    """
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {place}, schema type: {schema.type.value}")
        return
    if not _fits(schema, value):
        named = f' "{schema.name}"' if schema.name else ""
        raise DataError(
            f"Invalid object for schema{named} with type {schema.type.value}: {_shown(schema, value)} for {place}"
        )
    _check_parts(schema, value, place)


def _shown(schema: Schema, value: Any) -> str:
    if schema.type in _INTEGER_BITS and isinstance(value, int) and not isinstance(value, bool):
        return f"{value}, which is out of range,"
    return type(value).__name__


def _fits(schema: Schema, value: Any) -> bool:
    if schema.name in PYTHON_TYPES:
        return is_logical_value(schema.name, value)
    bits = _INTEGER_BITS.get(schema.type)
    if isinstance(value, bool) or bits is None:
        return isinstance(value, _PYTHON_TYPES.get(schema.type, ())) and (
            schema.type is Type.BOOLEAN or not isinstance(value, bool)
        )
    return isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1


def _check_parts(schema: Schema, value: Any, place: str) -> None:
    if schema.type is Type.STRUCT:
        _check_struct(schema, value)
    elif schema.type is Type.ARRAY:
        element = f"element of array {place}"
        elements = _known(schema.value_schema, element)
        for part in value:
            check_value(elements, part, element)
    elif schema.type is Type.MAP:
        key_place, value_place = f"key of map {place}", f"value of map {place}"
        keys, values = _known(schema.key_schema, key_place), _known(schema.value_schema, value_place)
        for key, part in value.items():
            check_value(keys, key, key_place)
            check_value(values, part, value_place)


def _known(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema


def _check_struct(schema: Schema, value: Struct | Mapping[str, Any]) -> None:
    if isinstance(value, Struct):
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.check()
        return
    for member in schema.fields:
        check_field(member.name, member.schema, value.get(member.name), has_default=True)


def check_field(name: str, schema: Schema, value: Any, *, has_default: bool = False) -> None:
    """Check a struct's member. ``has_default``: a null that a default stands for is right. Raises DataError."""
    if value is None and has_default and schema.default is not None:
        return
    check_value(schema, value, f'field: "{name}"')
