"""``format("connectrt-tasks")``: the pair of a slice's reader and writer, as Spark runs them.

Owns what Spark plans a slice by. Spark does so in separate Python processes (docs/explanation/spark_costs.md) that
never run one: the halves of a slice, ``slice_halves.py``, are imported where they run. That is a third of a CPU second
for each of the processes that the first slice of a worker waits for.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from spark_connect_rt.engine.executor.ticket import SliceTicket

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "connectrt-tasks"
# frames.ROW_SCHEMA, as Spark reads it; no DDL, for which the JVM would first get its parser of SQL ready
ROW_TYPE = (
    StructType().add("host", LongType()).add("kind", IntegerType()).add("head", BinaryType()).add("data", BinaryType())
)
TICKET_OPTION = "ticket"  # path of the ticket file on the driver's host; the file holds the secret, not the option


@dataclass
class SlicePartition(InputPartition):  # type: ignore[misc]
    """The one partition of a slice."""

    ticket: SliceTicket


@dataclass
class SliceTotals(WriterCommitMessage):  # type: ignore[misc]
    """The totals that the writer reported durable: host -> (records, batches)."""

    totals: dict[int, tuple[int, int]]


class ConnectTasks(DataSource):  # type: ignore[misc]
    """The DataSource; Spark makes one in separate processes, never in the driver's Python."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        gc.freeze()  # Spark runs gc.collect() after every call of such a process: 40 ms without this

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark registers the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the super-row."""
        return ROW_TYPE

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the slice named by the ticket."""
        return _Reader(_ticket(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of the slice named by the ticket."""
        return _Writer(_ticket(self.options))


def _ticket(options: dict[str, str]) -> SliceTicket:
    return SliceTicket.load(Path(options[TICKET_OPTION]))


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, ticket: SliceTicket) -> None:
        self._ticket = ticket

    def partitions(self) -> Sequence[InputPartition]:
        return [SlicePartition(self._ticket)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from spark_connect_rt.engine.executor.slice_halves import read_slice

        assert isinstance(partition, SlicePartition)
        yield from read_slice(partition.ticket)


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, ticket: SliceTicket) -> None:
        self._ticket = ticket

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SliceTotals:
        from spark_connect_rt.engine.executor.slice_halves import write_slice

        return SliceTotals(write_slice(self._ticket, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the slice's books: the driver must have received reports of everything that was written (E4)."""
        from spark_connect_rt.engine.executor.slice_halves import close_books

        close_books(
            self._ticket, [message.totals if isinstance(message, SliceTotals) else None for message in messages]
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: durable records were reported, and the others are read again."""
