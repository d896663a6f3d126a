"""Records of Python connectors on their way through a JVM: columns, in which values are JSON with schema.

The other half is ``Rows.java``. Java's JsonConverter limits how much of a value survives: bytes without a schema
come back as base64 text, and a number without a schema as the widest of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import NULL, Schema
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord, altered
from spark_connect_rt.engine.java_host.wire import Frame, produce_batches
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE, TOPIC

AnyRecord = SourceRecord | SinkRecord


def json_with_schema() -> JsonConverter:
    """Return a converter as both sides use it."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true", "replace.null.with.default": "false"})
    return converter


class RowCodec:
    """Writes and reads rows of records; keeps the schemas seen last. One thread."""

    def __init__(self) -> None:
        """Start with no schema known."""
        self._keys, self._values, self._headers = json_with_schema(), json_with_schema(), json_with_schema()

    def batch(self, records: Sequence[AnyRecord]) -> pa.RecordBatch:
        """Return records in consume form. Raises DataError: a value is unlike its schema."""
        write_key, write_value = self._keys.from_connect_data, self._values.from_connect_data
        columns: dict[str, Any] = {
            "offset": pa.array(range(len(records)), pa.int64()),
            "partition": pa.array([-1 if r.partition is None else r.partition for r in records], pa.int32()),
            "timestamp": pa.array([r.timestamp_ms for r in records], pa.int64()),
            "key": pa.array([write_key("", r.key_schema, r.key) for r in records], pa.binary()),
            "value": pa.array([write_value("", r.value_schema, r.value) for r in records], pa.binary()),
        }
        if any(r.headers for r in records):
            columns["headers"] = pa.array([self._written(r.headers) for r in records], HEADERS_TYPE)
        topics = [r.topic for r in records]
        if len(set(topics)) == 1:
            return pa.record_batch(columns).replace_schema_metadata({TOPIC: topics[0].encode()})
        return pa.record_batch({"topic": pa.array(topics, pa.string()), **columns})

    def _written(self, headers: Iterable[Header]) -> list[dict[str, Any]]:
        write = self._headers.from_connect_data
        return [{"key": header.key, "value": write("", header.schema, header.value)} for header in headers]

    def records(self, answer: Frame, given: Sequence[AnyRecord]) -> list[AnyRecord | None]:
        """Return for each record given what became of it: None where it was dropped, or refused."""
        head = answer.head
        kept = head.get("kept", range(head["rows"]))
        columns = row_columns(answer)
        topics = head["topics"]
        topic_of = head.get("topic_of", [0] * len(kept))
        keys = read_all(self._keys, columns["key"])
        values = read_all(self._values, columns["value"])
        found: list[AnyRecord | None] = [None] * len(given)
        for at, row in enumerate(kept):
            changes = {
                "topic": topics[topic_of[at]],
                "partition": columns["partition"][at],
                "timestamp_ms": columns["timestamp"][at],
                "key_schema": keys[at][0],
                "key": keys[at][1],
                "value_schema": values[at][0],
                "value": values[at][1],
                "headers": tuple(self._header(header) for header in columns["headers"][at] or ()),
            }
            found[row] = altered(given[row], **changes)
        return found

    def _header(self, header: dict[str, Any]) -> Header:
        schema, value = self._headers.to_connect_data("", header["value"])
        return Header(header["key"], value, schema)


def read_all(converter: JsonConverter, data: Sequence[bytes | None]) -> list[tuple[Schema | None, Any]]:
    """Return (schema, value) of each. Raises DataError."""
    at_once = converter.values_to_connect_data("", data) if None not in data else None
    if at_once is not None:
        return [(at_once[0], value) for value in at_once[1]]
    return [NULL if text is None else converter.to_connect_data("", text) for text in data]


def row_columns(answer: Frame) -> dict[str, list[Any]]:
    """Return the columns of an answer's rows as lists; one that is absent is all None."""
    (batch,) = produce_batches([answer.head["section"]], answer.data)
    names = ("key", "value", "timestamp", "partition", "headers")
    nothing = [None] * batch.num_rows
    return {name: batch.column(name).to_pylist() if name in batch.schema.names else nothing for name in names}
