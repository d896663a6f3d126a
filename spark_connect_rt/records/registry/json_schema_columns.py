"""The column form of JSON with a JSON Schema: JsonConverter's columns after a frame, where both give the same text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.records.converters.json_columns import column_json
from spark_connect_rt.records.converters.json_read_columns import value_column
from spark_connect_rt.records.converters.json_values import ONE_OF

__all__ = ["framed_column", "json_text", "value_column"]


def json_text(schema: Schema | None, values: pa.Array, numeric_decimals: bool) -> pa.Array | None:
    """Return the JSON of each element, null where it is null; None: no exact column form, or nothing but nulls."""
    if values.null_count == len(values) or (schema is not None and _has_union(schema)):
        return None
    return column_json(schema, values, numeric_decimals)


def framed_column(frame: bytes, text: pa.Array) -> pa.Array:
    """Return a frame and the text of each element, null where there is no text."""
    data = text.cast(pa.binary())
    return pc.binary_join_element_wise(pa.scalar(frame, pa.binary()), data, pa.scalar(b"", pa.binary()))


def _has_union(schema: Schema) -> bool:
    """Return whether the schema contains a struct that represents one of its fields: JSON has only that field."""
    return schema.name == ONE_OF or any(_has_union(member.schema) for member in schema.fields)
