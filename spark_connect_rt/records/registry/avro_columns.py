"""The column form of Avro: flat Arrow structs to payloads, without a Struct or a record each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_values import Writing, write_datum
from spark_connect_rt.records.transforms.struct_columns import flat_columns

_UNITS = {logical.DATE: pa.int32(), logical.TIMESTAMP: pa.int64()}


def flat_rows(schema: Schema, values: pa.Array) -> list[dict[str, Any]] | None:
    """Return Avro's values for each struct of a column, None if the column does not fit its schema exactly."""
    if schema.type is not Type.STRUCT:
        return None
    columns = flat_columns(schema, values)
    if columns is None:
        return None
    plain = []
    for (name, array), member in zip(columns, schema.fields, strict=True):
        unit = _UNITS.get(member.schema.name or "")
        plain.append((name, array if unit is None else array.cast(unit)))
    lists = [array.to_pylist() for _, array in plain]
    names = [name for name, _ in plain]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def framed_column(plan: Writing, rows: Sequence[dict[str, Any]]) -> pa.Array | None:
    """Return frames and payloads as one binary column; None: a row does not fit, and rows show which."""
    out = io.BytesIO()
    ends = np.zeros(len(rows) + 1, np.int32)
    try:
        for at, row in enumerate(rows, start=1):
            out.write(plan.frame)
            write_datum(out, plan.wire, row)
            ends[at] = out.tell()
    except DataError:
        return None
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(out.getvalue())])
