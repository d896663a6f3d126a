"""A source task's context for tests: stored offsets in, errant places out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import NoPluginMetrics, SourceTask
from spark_connect_rt.errors import DataError


class StoredOffset:
    def __init__(self, offset: Mapping[str, Any] | None) -> None:
        self.offset = offset
        self.asked: list[Mapping[str, Any]] = []

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        self.asked.extend(partitions)
        return [self.offset for _ in partitions]


class Context:
    def __init__(self, offset: Mapping[str, Any] | None = None, tolerant: bool = False) -> None:
        self.offset_reader = StoredOffset(offset)
        self.metrics = NoPluginMetrics()
        self.tolerant = tolerant
        self.previewed = False
        self.errant: list[tuple[str, str]] = []
        self.events: list[str] = []

    def record_event(self, summary: str, **details: str | int) -> None:
        self.events.append(summary)

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        if not self.tolerant:
            raise DataError(f"unreadable input at {place}: {error}") from error
        self.errant.append((place, str(error)))


def poll_all(task: SourceTask) -> list[SourceBatch]:
    """Poll until nothing comes."""
    batches: list[SourceBatch] = []
    while polled := task.poll():
        for batch in polled:
            assert isinstance(batch, SourceBatch)
            batches.append(batch)
    return batches


def values_of(batches: Sequence[SourceBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.values.to_pylist()]
