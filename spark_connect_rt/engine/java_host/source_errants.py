"""Errant records of a source task in a JVM: what its frames say, as the errants and dead letters of every source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.engine.java_host.wire import Frame
from spark_connect_rt.errors import JavaPluginError
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, Headers, Written
from spark_connect_rt.records.pipeline.errant_records import Errant, Stage
from spark_connect_rt.records.pipeline.produce_rows import ProduceRows
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, place_of


def errant_of(head: dict[str, Any]) -> Errant:
    """Return the errant record that an ERRANT frame's head tells of."""
    record = _record(head)
    said = head["error"] or {"class": "", "message": None, "trace": ""}
    error = JavaPluginError(said["class"], said["message"], said["trace"])
    return Errant(
        place_of(record), Stage(head["stage"]), error, head["executing_class"] or "", record, text=head["text"]
    )


def _record(head: dict[str, Any]) -> SourceRecord:
    return SourceRecord(
        _map(head["source_partition"]),
        _map(head["source_offset"]),
        head["topic"],
        partition=head["partition"],
        timestamp_ms=head["timestamp"],
    )


def _map(stored: Any) -> dict[str, Any]:
    """Return a source partition or offset; what has no JSON came as Java's text."""
    return stored if isinstance(stored, dict) else {} if stored is None else {"text": stored}


def given_up(frames: Sequence[Frame], letters: DeadLetters | None, *, tolerated: bool) -> ConvertedBatch:
    """Return the errant records of some ERRANT frames, and their dead letters, as one batch without offsets."""
    errants, rows = [], ProduceRows()
    for frame in frames:
        errant = errant_of(frame.head)
        errants.append(errant)
        if letters is not None and isinstance(errant.record, SourceRecord):
            key, value, headers = _contents(frame)
            rows.append(letters.of_written(errant, errant.record, key, value, headers))
    batch = rows.take() if len(rows) else produce_batch("", pa.array([], pa.binary()))
    return ConvertedBatch(batch, (), 0, len(errants) if tolerated else 0, (), tuple(errants))


def _contents(frame: Frame) -> tuple[Written, Written, Headers]:
    """Return key, value and headers of an ERRANT frame with data."""
    at = 0

    def part(size: int) -> bytes | None:
        nonlocal at
        if size < 0:
            return None
        at += size
        return bytes(frame.data[at - size : at])

    head = frame.head
    key, value = ((part(size), encoding) for size, encoding in (head["key"], head["value"]))
    return key, value, [(header["name"], part(header["value"][0])) for header in head["headers"]]
