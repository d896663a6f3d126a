"""The column forms of TimestampConverter (numbers, dates and timestamps; text goes by rows) and of TimestampRouter."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.simple_date_format import PatternPart
from spark_connect_rt.api.records import B
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.routers import TimestampRouter
from spark_connect_rt.records.transforms.struct_columns import TIMESTAMP_TYPE, agrees, flat_columns, struct_column
from spark_connect_rt.records.transforms.timestamp_converter import TimestampConverter
from spark_connect_rt.records.transforms.timestamp_kinds import DATE, TIMESTAMP, UNIX, kind_of_schema, schema_of_kind

_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1_000, "milliseconds": 1}
_DAY_MS = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_LONG_MAX = (1 << 63) - 1
_TIME_LETTERS = "HkKhmsSa"


def convert_batch(converter: TimestampConverter, batch: B) -> B | None:
    """Return the batch with its moments in their new form."""
    schema, column = converter.batch_side(batch)
    if column is None or converter.kind not in (UNIX, DATE, TIMESTAMP):
        return None
    if not converter.field:
        converted = _converted(converter, schema, column) if agrees(schema, column) else None
        updated = None if schema is None else schema_of_kind(converter.kind, schema.optional)
        return None if converted is None else converter.changed_batch(batch, updated, converted)
    columns = flat_columns(schema, column)
    if columns is None or converter.field not in dict(columns) or (schema is not None and schema.default is not None):
        return None
    result = []
    for name, array in columns:
        member = schema.field(name) if schema is not None else None
        changed = array
        if name == converter.field:
            changed = _converted(converter, member.schema if member else None, array)
            if changed is None:
                return None
        result.append((name, changed))
    made = struct_column(result)
    return None if made is None else converter.changed_batch(batch, schema and converter.updated_schema(schema), made)


def _converted(converter: TimestampConverter, schema: Schema | None, array: pa.Array) -> pa.Array | None:
    try:
        kind = kind_of_schema(schema) if schema is not None else None
    except DataError:
        return None
    if array.type == pa.int64() and kind in (None, UNIX):
        ms = _unix_to_ms(array, converter.form.precision)
    elif array.type in (TIMESTAMP_TYPE, pa.date32()):
        ms = pc.cast(pc.cast(array, pa.timestamp("ms")), pa.int64())
    else:
        return None
    return None if ms is None or not _within(ms, _FIRST_MS, _LAST_MS) else _from_ms(converter, ms)


def _within(column: pa.Array, least: int, most: int) -> bool:
    limits = pc.min_max(column).as_py()
    return limits["min"] is None or (limits["min"] >= least and limits["max"] <= most)


def _unix_to_ms(column: pa.Array, precision: str) -> pa.Array | None:
    if precision == "seconds":
        return pc.multiply(column, 1000) if _within(column, -_LAST_MS, _LAST_MS) else None
    return pc.divide(column, _PER_MS[precision])  # cuts towards 0, as Java's TimeUnit


def _from_ms(converter: TimestampConverter, ms: pa.Array) -> pa.Array | None:
    if converter.kind == TIMESTAMP:
        return pc.cast(ms, TIMESTAMP_TYPE)
    if converter.kind == DATE:
        days = pc.cast(pc.floor(pc.divide(pc.cast(ms, pa.float64()), float(_DAY_MS))), pa.int32())
        return pc.cast(days, pa.date32())
    if converter.form.precision == "seconds":
        return pc.divide(ms, 1000)
    factor = _PER_MS[converter.form.precision]
    return pc.multiply(ms, factor) if _within(ms, -_LONG_MAX // factor + 1, _LONG_MAX // factor) else None


def timestamp_routed_batch(router: TimestampRouter, batch: B) -> B | None:
    """Return the batch for its new topic, if all its records are of the same."""
    ms = _common_ms(router.date_format, batch.timestamps_ms)
    return None if ms is None else replace(batch, topic=router.topic_for(batch.topic, ms))


def _common_ms(parts: tuple[PatternPart, ...], times: pa.Array | None) -> int | None:
    """Return a moment whose text is that of every record's timestamp, None where there is none."""
    if times is None or times.null_count or not len(times):
        return None
    limits = pc.min_max(times).as_py()
    same_day = limits["min"] // _DAY_MS == limits["max"] // _DAY_MS
    tells_time = any(part.letter and part.letter in _TIME_LETTERS for part in parts)
    if limits["min"] == limits["max"] or (same_day and not tells_time):
        return int(limits["min"])
    return None
