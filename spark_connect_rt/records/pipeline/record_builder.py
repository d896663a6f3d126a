"""Sink records of one partition by the batch, at less than half the price of making each by its constructor. Pure.

A frozen dataclass sets each field through ``object.__setattr__``: 1.9 us a record of nine fields, and a sink task has
half a million a second. These are filled as plain objects of the same slots and become SinkRecords after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkRecord


class _Filled:
    """A SinkRecord to be: its slots in its order, nothing else."""

    __slots__ = SinkRecord.__slots__  # type: ignore[attr-defined]  # made by the dataclass

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        value: Any,
        value_schema: Schema | None,
        key: Any,
        key_schema: Schema | None,
        timestamp_ms: int | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.value = value
        self.value_schema = value_schema
        self.key = key
        self.key_schema = key_schema
        self.timestamp_ms = timestamp_ms
        self.headers = ()


def build_sink_records(
    topic: str,
    partition: int,
    key_schema: Schema | None,
    key: Any,
    rows: Iterable[tuple[int, int | None, tuple[Schema | None, Any]]],
) -> list[SinkRecord]:
    """Return a record without headers for each (offset, timestamp, (value's schema, value)); all have the one key."""
    filled: list[Any] = [
        _Filled(topic, partition, offset, value, schema, key, key_schema, time_ms)
        for offset, time_ms, (schema, value) in rows
    ]
    for record in filled:
        record.__class__ = SinkRecord
    return cast(list[SinkRecord], filled)
