"""A value of a STRUCT schema (Java ``Struct``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.errors import DataError


class Struct:
    """One value a field, in the schema's order; a field that was not set reads as its default, else None."""

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        """Make a struct of ``schema``, with ``values`` put in. Raises DataError."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"a struct needs a STRUCT schema, not {schema.type.value}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    def put(self, name: str, value: Any) -> Struct:
        """Set a field and return the struct. Raises DataError: no such field."""
        self._values[self._index(name)] = value
        return self

    def get(self, name: str) -> Any:
        """Return a field's value, or the default of its schema. Raises DataError: no such field."""
        index = self._index(name)
        value = self._values[index]
        return self.schema.fields[index].schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        """Return a field's value as it was set. Raises DataError: no such field."""
        return self._values[self._index(name)]

    def _index(self, name: str) -> int:
        member = self.schema.field(name)
        if member is None:
            raise DataError(f"{name} is not a valid field name")
        return member.index

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
        # The form of Java's toString: what FileStreamSink and StringConverter write.
        named = zip(self.schema.fields, self._values, strict=True)
        return f"Struct{{{','.join(f'{m.name}={v}' for m, v in named if v is not None)}}}"
