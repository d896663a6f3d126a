"""A schema built step by step (Java ``SchemaBuilder``); a default is checked against the parts built so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.struct import check_value
from spark_connect_rt.errors import DataError


class SchemaBuilder:
    """Builds a schema step by step: ``SchemaBuilder.struct().field("a", INT32).optional().build()``."""

    def __init__(self, kind: Type, **parts: Any) -> None:
        """Start with a type; ``parts`` are attributes of Schema."""
        self._type = kind
        self._parts: dict[str, Any] = parts
        self._fields: list[Field] = []

    @staticmethod
    def struct() -> SchemaBuilder:
        """Return a builder of a STRUCT, without fields yet."""
        return SchemaBuilder(Type.STRUCT)

    @staticmethod
    def array(values: Schema) -> SchemaBuilder:
        """Start an ARRAY of ``values``."""
        return SchemaBuilder(Type.ARRAY, value_schema=values)

    @staticmethod
    def map(keys: Schema, values: Schema) -> SchemaBuilder:
        """Return a builder of a MAP schema with these keys and values."""
        return SchemaBuilder(Type.MAP, key_schema=keys, value_schema=values)

    def _set(self, part: str, value: Any) -> SchemaBuilder:
        given = self._parts.get(part)
        if given is not None and given is not value:
            raise DataError(f"Invalid SchemaBuilder call: {part} has already been set.")
        self._parts[part] = value
        return self

    def optional(self) -> SchemaBuilder:
        """Allow null for values of the schema."""
        return self._set("optional", True)

    def required(self) -> SchemaBuilder:
        """Forbid null for values of the schema (the default)."""
        return self._set("optional", False)

    def name(self, name: str | None) -> SchemaBuilder:
        """Name the schema (logical types are recognised by name)."""
        return self._set("name", name)

    def version(self, version: int | None) -> SchemaBuilder:
        """Set the schema's version, a whole number."""
        return self._set("version", version)

    def doc(self, doc: str | None) -> SchemaBuilder:
        """Set the schema's documentation text."""
        return self._set("doc", doc)

    def default(self, value: Any) -> SchemaBuilder:
        """Set the default for a missing value. Raises DataError: it does not fit the schema built so far."""
        try:
            check_value(self.build(), value)
        except DataError as error:
            raise DataError("Invalid default value") from error
        return self._set("default", value)

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Add one schema parameter and return this builder."""
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
        """Return the schema with all parts given so far."""
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
