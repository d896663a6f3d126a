"""From the headers of a whole batch to those of its rows in produce form: the bytes that record by record would give.

Headers cost a call of the converter for each value that differs, not for each record, where the converter is known to
give the same bytes for the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.converter import HeaderConverter
from spark_connect_rt.api.data.schema import BYTES, Schema
from spark_connect_rt.api.records import BatchHeader, HeaderColumn, SourceBatch
from spark_connect_rt.records.converters.header_and_value import HeaderAndValueConverter
from spark_connect_rt.records.converters.plain import ByteArrayConverter
from spark_connect_rt.records.converters.simple_header import SimpleHeaderConverter
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE

_ENTRY_TYPE = HEADERS_TYPE.value_type
_AS_TEXT = (pa.types.is_string, pa.types.is_signed_integer, pa.types.is_boolean)


def written_headers(batch: SourceBatch, converter: HeaderConverter) -> pa.Array:
    """Return lists of {key, value}, one a record. Raises what the converter raises at a value."""
    own = batch.headers
    if own is not None and not isinstance(converter, ByteArrayConverter):
        own = _own(batch.topic, own, converter)
    if not batch.more_headers:
        return own
    added = [_entries(batch, header, converter) for header in batch.more_headers]
    return _joined(own, added, len(batch.values))


def _own(topic: str, headers: pa.Array, converter: HeaderConverter) -> pa.Array:
    """Return headers of bytes as the converter writes bytes."""
    entries, lengths = pc.list_flatten(headers), pc.fill_null(pc.list_value_length(headers), 0)
    names = pc.struct_field(entries, "key")
    written: dict[Any, bytes | None] = {}
    values = []
    for entry in zip(names.to_pylist(), pc.struct_field(entries, "value").to_pylist(), strict=True):
        if entry not in written or not _gives_the_same(converter):
            written[entry] = converter.from_connect_header(topic, entry[0], BYTES, entry[1])
        values.append(written[entry])
    made = _entry_column(names, pa.array(values, pa.binary()))
    return pa.ListArray.from_arrays(pa.array(_ends(lengths), pa.int32()), made)


def _entries(batch: SourceBatch, header: BatchHeader, converter: HeaderConverter) -> pa.Array:
    """Return one header of each record."""
    count = len(batch.values)
    if isinstance(header, HeaderColumn):
        values = _column(batch.topic, header, converter)
    else:
        calls = min(count, 1) if _gives_the_same(converter) else count
        written = [
            converter.from_connect_header(batch.topic, header.key, header.schema, header.value) for _ in range(calls)
        ]
        values = pa.array(written * (count if calls == 1 else 1), pa.binary())
    return _entry_column(pa.repeat(pa.scalar(header.key, pa.string()), count), values)


def _column(topic: str, header: HeaderColumn, converter: HeaderConverter) -> pa.Array:
    """Return the bytes of a header's values."""
    values, schema = header.values, header.schema
    made = _column_form(topic, schema, values, converter)
    if made is not None:
        return made.cast(pa.binary())

    def write(some: Sequence[Any]) -> pa.Array:
        return pa.array(
            [converter.from_connect_header(topic, header.key, schema, value) for value in some], pa.binary()
        )

    if not _gives_the_same(converter) or pa.types.is_floating(values.type):  # 0.0 and -0.0 are equal, and are not
        return write(values.to_pylist())
    found = pc.dictionary_encode(values, null_encoding="encode")
    return write(found.dictionary.to_pylist()).take(found.indices)


def _column_form(topic: str, schema: Schema | None, values: pa.Array, converter: HeaderConverter) -> pa.Array | None:
    if type(converter) is SimpleHeaderConverter:
        plain = schema is None or schema.name is None
        return pc.cast(values, pa.string()) if plain and any(test(values.type) for test in _AS_TEXT) else None
    if not isinstance(converter, HeaderAndValueConverter):
        return None
    same = type(converter).from_connect_header is HeaderAndValueConverter.from_connect_header
    return converter.column_from_connect_data(topic, schema, values) if same else None


def _gives_the_same(converter: HeaderConverter) -> bool:
    return isinstance(converter, HeaderAndValueConverter | SimpleHeaderConverter)


def _entry_column(names: pa.Array, values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([names.cast(pa.string()), values], fields=list(_ENTRY_TYPE))


def _ends(lengths: pa.Array) -> Any:
    return np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False))))


def _joined(own: pa.Array | None, added: Sequence[pa.Array], count: int) -> pa.Array:
    """Return for each record its own headers, then one of each of ``added``."""
    entries = pa.array([], _ENTRY_TYPE) if own is None else pc.list_flatten(own).cast(_ENTRY_TYPE)
    lengths = np.zeros(count, np.int64)
    if own is not None:
        lengths = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(lengths + len(added))))
    places = np.empty(ends[-1], np.int64)  # of each header made, among the records' own and then the added ones
    records = np.arange(count)
    places[np.arange(len(entries)) + np.repeat(records, lengths) * len(added)] = np.arange(len(entries))
    for number in range(len(added)):
        places[ends[:-1] + lengths + number] = len(entries) + number * count + records
    made = pa.concat_arrays([entries, *added]).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), made)
