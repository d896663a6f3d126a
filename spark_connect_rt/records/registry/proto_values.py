"""Connect values <-> Protobuf messages, field by field along the message's own descriptor."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_names import scrubbed
from spark_connect_rt.records.registry.proto_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    UNION,
    WRAPPERS,
    ProtoSettings,
    real_oneof,
    union_field,
)

_LOGICAL = (DECIMAL, DATE, TIME, TIMESTAMP)


def fill_message(message: Any, struct: Struct, settings: ProtoSettings) -> None:
    """Set a message's fields of a struct's. Raises DataError: a value does not fit."""
    fields = message.DESCRIPTOR.fields_by_name
    for member, value in zip(struct.schema.fields, struct.values(), strict=True):
        if value is None:
            continue
        if (member.schema.name or "").startswith(UNION) and isinstance(value, Struct):
            fill_message(message, value, settings)
            continue
        name = scrubbed(member.name) if settings.scrub_names else member.name
        if name not in fields:
            continue  # the latest schema may have no such field
        try:
            _set(message, fields[name], member.schema, value, settings)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"field {member.name}: {error}") from error


def _set(message: Any, field: Any, schema: Schema, value: Any, settings: ProtoSettings) -> None:
    target = getattr(message, field.name)
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        values = field.message_type.fields_by_name["value"]
        for key, part in value.items():
            if values.message_type is None:
                target[key] = _scalar(values, part)
            else:
                _put(target[key], schema.value_schema, part, settings)
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        if field.message_type is None:
            target.extend(_scalar(field, part) for part in value)
        else:
            for part in value:
                _put(target.add(), schema.value_schema, part, settings)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    else:
        target.SetInParent()
        _put(target, schema, value, settings)


def _scalar(field: Any, value: Any) -> Any:
    if value is None:
        raise DataError("null has no Protobuf form in an array or map")
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _put(message: Any, schema: Schema, value: Any, settings: ProtoSettings) -> None:
    """Put a value into a message: well-known ones have their own form."""
    kind = message.DESCRIPTOR.full_name
    if value is None:
        raise DataError("null has no Protobuf form in an array or map")
    if kind == DECIMAL:
        message.value, message.scale = logical.decimal_to_bytes(schema, value), logical.scale_of(schema)
    elif kind == DATE:
        message.year, message.month, message.day = value.year, value.month, value.day
    elif kind == TIME:
        message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
        message.nanos = value.microsecond // 1000 * 1_000_000
    elif kind == TIMESTAMP:
        message.seconds, ms = divmod(logical.ms_of(value), 1000)
        message.nanos = ms * 1_000_000
    elif message.DESCRIPTOR.file.name == WRAPPERS:
        message.value = value
    else:
        if isinstance(value, Mapping):
            value = Struct.from_mapping(schema, value)
        fill_message(message, value, settings)


def value_of(message: Any, schema: Schema) -> Any:
    """Return the Connect value of a message. Raises DataError: outside of what a logical type holds."""
    kind = message.DESCRIPTOR.full_name
    try:
        if kind in _LOGICAL and schema.type is not Type.STRUCT:
            return _logical_value(kind, message, schema)
    except (OverflowError, ValueError) as error:
        raise DataError(f"{kind} outside of what Connect holds: {error}") from error
    if message.DESCRIPTOR.file.name == WRAPPERS and schema.type is not Type.STRUCT:
        return message.value
    return _struct_of(message, schema)


def _logical_value(kind: str, message: Any, schema: Schema) -> Any:
    if kind == DECIMAL:
        return logical.decimal_from_bytes(schema, message.value)
    if kind == DATE:
        return dt.date(message.year, message.month, message.day)
    if kind == TIME:
        return dt.time(message.hours, message.minutes, message.seconds, message.nanos // 1_000_000 * 1000)
    return logical.from_ms(logical.TIMESTAMP, message.seconds * 1000 + message.nanos // 1_000_000)


def _struct_of(message: Any, schema: Schema) -> Struct:
    values: list[Any] = [None] * len(schema.fields)
    for field in message.DESCRIPTOR.fields:
        oneof = real_oneof(field)
        if field.has_presence and not message.HasField(field.name):
            continue
        if oneof is None:
            member = schema.field(field.name)
            if member is not None:
                values[member.index] = _get(message, field, member.schema)
            continue
        union = schema.field(union_field(oneof))
        chosen = None if union is None else union.schema.field(field.name)
        if union is not None and chosen is not None:
            struct = Struct(union.schema)
            values[union.index] = struct.put(field.name, _get(message, field, chosen.schema))
    return Struct.of_checked(schema, values)


def _get(message: Any, field: Any, schema: Schema) -> Any:
    value = getattr(message, field.name)
    if schema.type is Type.MAP and schema.value_schema is not None:
        of = field.message_type.fields_by_name["value"]
        return {key: _one(value[key], of, schema.value_schema) for key in value}
    if field.is_repeated and schema.value_schema is not None:
        return [_one(part, field, schema.value_schema) for part in value]
    return _one(value, field, schema)


def _one(value: Any, field: Any, schema: Schema) -> Any:
    if field.message_type is not None:
        return value_of(value, schema)
    if field.enum_type is not None and schema.type is Type.STRING:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
