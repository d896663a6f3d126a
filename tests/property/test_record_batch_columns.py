"""Columns laid out as a record batch: the bytes are those that aiokafka's builder makes of the rows, one by one."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.kafka.records import record_batch_columns
from spark_connect_rt.kafka.records.record_batch_columns import (
    BATCH_OVERHEAD,
    CODECS,
    MOST_SEQUENCE,
    Compression,
    laid_out_records,
    next_sequence,
    record_batch,
    record_bytes,
    value_records,
)
from spark_connect_rt.records.pipeline.columns import PRODUCE_FIELDS

NOW_MS = 1_700_000_000_000
NAMES = ("key", "value", "headers", "timestamp")
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]

some_bytes = st.none() | st.binary(max_size=80) | st.integers(60, 20_000).map(lambda size: b"x" * size)
some_headers = st.none() | st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=3)
some_times = st.none() | st.integers(0, 2**53) | st.integers(NOW_MS - 100, NOW_MS + 100)
rows_of_any_kind = st.lists(st.tuples(some_bytes, some_bytes, some_headers, some_times), min_size=1, max_size=40)


def columns(rows: list[Row], names: tuple[str, ...] = NAMES) -> pa.RecordBatch:
    """Return rows in produce form, after rows that are sliced away."""
    held = [(b"before", None, [("before", b"")], 5), *rows]
    values = {name: list(column) for name, column in zip(NAMES, zip(*held, strict=True), strict=True)}
    values["headers"] = [some and [{"key": key, "value": value} for key, value in some] for some in values["headers"]]
    schema = pa.schema([(name, PRODUCE_FIELDS[name]) for name in names])
    return pa.RecordBatch.from_pydict({name: values[name] for name in names}, schema=schema).slice(1)


def built_by_the_library(rows: list[Row]) -> bytes:
    """Return the batch that aiokafka makes."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 2**31 - 1)
    for offset, (key, value, headers, time_ms) in enumerate(rows):
        builder.append(offset, NOW_MS if time_ms is None else time_ms, key, value, headers or [])
    return bytes(builder.build())


def read(batch: bytes) -> list[tuple[Any, ...]]:
    """Return the records that aiokafka reads in one batch, its checksum checked."""
    records = MemoryRecords(batch)
    decoded = records.next_batch()
    assert decoded is not None
    assert decoded.validate_crc()
    found = [(r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in decoded]
    assert not records.has_next()
    return found


@settings(deadline=None, max_examples=150)
@given(rows_of_any_kind, st.sets(st.sampled_from(NAMES), min_size=1), st.sampled_from([0, 1 << 30]))
def test_the_bytes_are_the_library_s(rows: list[Row], named: set[str], few_bytes: int) -> None:
    names = tuple(name for name in NAMES if name in named)
    left = [tuple(x if name in named else None for name, x in zip(NAMES, row, strict=True)) for row in rows]
    with patch.object(record_batch_columns, "_FEW_BYTES", few_bytes):  # both ways of laying out
        made = record_batch(columns(rows, names), NOW_MS, Compression())
    assert made == built_by_the_library(left)  # type: ignore[arg-type]
    sizes = record_bytes(columns(rows, names))
    assert len(sizes) == len(rows)
    assert len(made) <= sizes.sum() + BATCH_OVERHEAD <= len(made) + sum(60 + 10 * len(row[2] or ()) for row in rows)


some_runs = st.lists(
    st.tuples(st.integers(0, 200) | st.integers(8_000, 9_000), st.integers(1, 150)), min_size=1, max_size=6
)
steps_ms = st.sampled_from([0, 1, 70, -70])


@settings(deadline=None, max_examples=80)
@given(some_runs, steps_ms, st.booleans(), st.booleans())
def test_values_alone_are_laid_out_in_runs(runs: list[tuple[int, int]], step: int, timed: bool, keyed: bool) -> None:
    """As most sources' are: lengths that grow from one byte of varint to two and more, offsets and times that do."""
    lengths = [length for length, count in runs for _ in range(count)]
    times = [NOW_MS + step * n for n in range(len(lengths))] if timed else [None] * len(lengths)
    rows: list[Row] = [
        (None, b"%d" % n * length, None, at) for n, (length, at) in enumerate(zip(lengths, times, strict=True))
    ]
    names = ("value", *(("timestamp",) if timed else ()), *(("key", "headers") if keyed else ()))
    batch = columns(rows, names)
    with patch.object(record_batch_columns, "_FEW_BYTES", 0):
        assert record_batch(batch, NOW_MS, Compression()) == built_by_the_library(rows)


@pytest.mark.parametrize("count", [1, 2, 64, 65, 8_192, 8_193, 20_000])
@pytest.mark.parametrize("spread", [1, 40])
def test_many_values_take_few_runs(count: int, spread: int) -> None:
    rows: list[Row] = [(None, b"x" * (100 + n % spread), None, None) for n in range(count)]
    batch = columns(rows, ("value",))
    pieces = value_records(batch.column("value"), np.zeros(count, np.int64))
    assert pieces is not None
    assert len(pieces) <= 9  # three runs
    assert b"".join(pieces) == built_by_the_library(rows)[BATCH_OVERHEAD:]


def test_lengths_that_change_all_the_time_and_nulls_are_laid_out_otherwise() -> None:
    for values in ([b"x", b"x" * 100] * 20, [b"x"] * 20 + [None]):
        column = pa.array(values, pa.binary())
        assert value_records(column, np.zeros(len(values), np.int64)) is None


@settings(deadline=None, max_examples=40)
@given(rows_of_any_kind, st.sampled_from(CODECS), st.sampled_from([None, 1]))
def test_every_codec_is_read_back(rows: list[Row], kind: str, level: int | None) -> None:
    made = record_batch(columns(rows), NOW_MS, Compression(kind, level))
    expected = [(n, k, v, h or [], NOW_MS if t is None else t) for n, (k, v, h, t) in enumerate(rows)]
    assert read(made) == expected


@pytest.mark.parametrize("kind", [codec for codec in CODECS if codec != "none"])
def test_compressed_is_smaller(kind: str) -> None:
    rows: list[Row] = [(b"k", b"x" * 100, None, NOW_MS)] * 1_000
    assert len(record_batch(columns(rows), NOW_MS, Compression(kind))) < len(built_by_the_library(rows)) / 5


@settings(deadline=None, max_examples=50)
@given(rows_of_any_kind, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, MOST_SEQUENCE))
def test_a_transaction_s_batch_is_the_library_s_too(rows: list[Row], producer: int, epoch: int, first: int) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer, epoch, first, 2**31 - 1)
    for offset, (key, value, headers, time_ms) in enumerate(rows):
        builder.append(offset, NOW_MS if time_ms is None else time_ms, key, value, headers or [])
    records = laid_out_records(columns(rows), NOW_MS, Compression())
    expected = bytes(builder.build())
    assert records.content((producer, epoch, first)) == expected
    assert (records.size, records.count) == (len(expected), len(rows))
    assert records.content() == built_by_the_library(rows)  # it can be written for another producer as well


def test_sequence_numbers_go_round() -> None:
    assert [next_sequence(first, 3) for first in (0, MOST_SEQUENCE - 3, MOST_SEQUENCE - 2, MOST_SEQUENCE)] == [
        3,
        MOST_SEQUENCE,
        0,
        2,
    ]
