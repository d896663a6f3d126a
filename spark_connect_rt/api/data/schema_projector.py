"""A value of one schema as a value of another, compatible one (Java ``SchemaProjector``).

Numbers may become wider; a field may be left out, or come with a default. The messages are Java's.
"""

from __future__ import annotations

from typing import Any

from spark_connect_rt.api.data.java_numbers import to_single
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError

_PROMOTABLE = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)


def project(source: Schema, value: Any, target: Schema) -> Any:
    """Return ``value`` as ``target`` has it. Raises DataError: the schemas are incompatible."""
    _check_compatible(source, target)
    if source.optional and not target.optional and target.default is None:
        raise DataError("Writer schema is optional, however, target schema does not provide a default value.")
    if value is None:
        return target.default if source.optional and not target.optional else None
    if target.type is Type.STRUCT:
        return _project_struct(source, value, target)
    if target.type is Type.ARRAY and source.value_schema and target.value_schema:
        return [project(source.value_schema, part, target.value_schema) for part in value]
    if target.type is Type.MAP:
        return {
            _project_part(source.key_schema, key, target.key_schema): _project_part(
                source.value_schema, part, target.value_schema
            )
            for key, part in value.items()
        }
    return _project_number(value, target)


def _project_part(source: Schema | None, value: Any, target: Schema | None) -> Any:
    return value if source is None or target is None else project(source, value, target)


def _project_number(value: Any, target: Schema) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if target.type is Type.FLOAT32:
        return to_single(float(value))
    return float(value) if target.type is Type.FLOAT64 else value


def _project_struct(source: Schema, value: Struct, target: Schema) -> Struct:
    projected = Struct(target)
    for member in target.fields:
        written = source.field(member.name)
        if written is not None:
            try:
                projected.put(member.name, project(written.schema, value.get(member.name), member.schema))
            except DataError as error:
                raise DataError(f"Error projecting {member.name}") from error
        elif member.schema.optional:
            continue
        elif member.schema.default is not None:
            projected.put(member.name, member.schema.default)
        else:
            raise DataError(f"Required field `{member.name}` is missing from source schema: {source}")
    return projected


def _check_compatible(source: Schema, target: Schema) -> None:
    if source.type is not target.type and not _promotable(source.type, target.type):
        raise DataError(f"Schema type mismatch. source type: {source.type.value} and target type: {target.type.value}")
    if source.name != target.name:
        raise DataError(f"Schema name mismatch. source name: {source.name} and target name: {target.name}")
    if dict(source.parameters) != dict(target.parameters):
        raise DataError(
            f"Schema parameters not equal. source parameters: {_shown(source)} and target parameters: {_shown(target)}"
        )


def _shown(schema: Schema) -> str:
    pairs = ", ".join(f"{name}={text}" for name, text in schema.parameters)
    return f"{{{pairs}}}" if schema.parameters else "null"


def _promotable(source: Type, target: Type) -> bool:
    if source not in _PROMOTABLE or target not in _PROMOTABLE:
        return False
    return _PROMOTABLE.index(source) <= _PROMOTABLE.index(target)
