"""The column form of Protobuf: flat messages of numbers, booleans, text and bytes, without a Struct or a record each.

Google's library writes and reads one message at a time. This form saves all other work on each record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.records.registry.avro_schema import scrubbed
from spark_connect_rt.records.registry.proto_schema import real_oneof
from spark_connect_rt.records.transforms.struct_columns import agrees, arrow_type, flat_columns

Lists = Mapping[str, Sequence[Any]]
_REFUSED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


def lists_of(schema: Schema | None, values: pa.Array) -> Lists | None:
    """Return field name -> values, for a column of flat structs. None: it is something else, or empty."""
    if schema is None or schema.type is not Type.STRUCT or not len(values):
        return None
    columns = flat_columns(schema, values)
    return None if columns is None else {name: array.to_pylist() for name, array in columns}


def framed_messages(frame: bytes, message: type[Any], lists: Lists, scrub_names: bool) -> pa.Array | None:
    """Return frames and messages as a binary column; None: a field is a message or an enum, or a value does not fit."""
    fields = message.DESCRIPTOR.fields_by_name
    placed = {scrubbed(name) if scrub_names else name: values for name, values in lists.items()}
    kept = {name: values for name, values in placed.items() if name in fields}  # the latest schema may have fewer
    if len(placed) < len(lists) or not kept or not all(_is_plain(fields[name]) for name in kept):
        return None
    try:
        rows = [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]
        made = [frame + message(**row).SerializeToString(deterministic=True) for row in rows]
    except _REFUSED:  # rows show which
        return None
    return pa.array(made, pa.binary())


def struct_column(message: type[Any], schema: Schema, payloads: Sequence[bytes]) -> pa.Array | None:
    """Return messages as a column of flat structs, None if they need rows. Raises their parser's errors."""
    fields = message.DESCRIPTOR.fields_by_name
    if schema.type is not Type.STRUCT or not schema.fields:
        return None
    if {field.name for field in schema.fields} != set(fields) or not all(map(_is_plain, fields.values())):
        return None
    read = [message.FromString(payload) for payload in payloads]
    columns = []
    for member in schema.fields:
        name, kind = member.name, arrow_type(member.schema)
        if fields[name].has_presence:
            values = [getattr(parsed, name) if parsed.HasField(name) else None for parsed in read]
        else:
            values = [getattr(parsed, name) for parsed in read]
        try:
            column = None if kind is None else pa.array(values, kind)
        except (pa.ArrowException, OverflowError):  # more than the field's Connect type holds
            return None
        if column is None or not agrees(member.schema, column):
            return None
        columns.append(column)
    return pa.StructArray.from_arrays(columns, names=[field.name for field in schema.fields])


def _is_plain(field: Any) -> bool:
    return (
        field.message_type is None and field.enum_type is None and not field.is_repeated and real_oneof(field) is None
    )
