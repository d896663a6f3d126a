"""How Spark says how much a micro-batch of a stream may hold: from 4.2 on. Before, where it does not, the same names.

``OlderStreamReader`` is what such a Spark gets to see of a reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connect_rt.engine.startup.spark_version import STREAM_LIMITS, has

if has(STREAM_LIMITS):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class ReadLimit:  # type: ignore[no-redef]
        """How much a batch may hold."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef, misc]
        """The limit of a micro-batch that takes everything available."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef, misc]
        """At most so many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark before 4.2 ends such a query behind one batch."""


__all__ = ["OlderStreamReader", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]


class OlderStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """A stream's reader for Spark before 4.2: asked where a batch ends, not given where it begins. One thread."""

    def __init__(self, reader: Any) -> None:
        """Take a reader for Spark 4.2."""
        self.reader = reader
        self._initial: dict[str, Any] | None = None
        self._at: dict[str, Any] | None = None  # where the last batch ended

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts; asked of the reader once."""
        if self._initial is None:
            self._initial = self.reader.initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends. Raises as the reader."""
        begin = self.initialOffset() if self._at is None else self._at
        end: dict[str, Any] = self.reader.latestOffset(begin, self.reader.getDefaultReadLimit())
        self._at = end
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks that read a batch. Raises as the reader."""
        if self._at is None:  # a query that resumes: Spark begins with its last batch, or an empty one behind it
            self._at = end
        found: Sequence[InputPartition] = self.reader.partitions(start, end)
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one partition. Runs on an executor."""
        rows: Iterator[Any] = self.reader.read(partition)
        return rows

    def commit(self, end: dict[str, Any]) -> None:
        """Pass on to the reader that the batch up to ``end`` is done."""
        self.reader.commit(end)

    def stop(self) -> None:
        """Stop the wrapped reader at the end of the query."""
        self.reader.stop()
