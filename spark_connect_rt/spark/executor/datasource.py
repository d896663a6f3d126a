"""``format("connectrt-tasks")``: the pair of a slice's reader and writer, as Spark runs them.

Owns the glue between Spark's Python DataSource API and ReaderSide / WriterSide, and the last line of defence: a
process that lost its driver exits at once, whatever its tasks are doing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_connect_rt.errors import FencedError
from spark_connect_rt.spark.executor.control_client import ControlClient, ask_totals
from spark_connect_rt.spark.executor.frames import ROW_DDL, Row, from_arrow, to_arrow
from spark_connect_rt.spark.executor.hosting import load_clients
from spark_connect_rt.spark.executor.late_plugins import ask_this_driver
from spark_connect_rt.spark.executor.log_masking import mask_logs
from spark_connect_rt.spark.executor.reader_side import ReaderSide
from spark_connect_rt.spark.executor.task_logs import EXECUTOR_LOGS
from spark_connect_rt.spark.executor.ticket import SliceTicket
from spark_connect_rt.spark.executor.writer_side import WriterSide

FORMAT = "connectrt-tasks"
TICKET_OPTION = "ticket"  # path of the ticket file on the driver's host; the file holds the secret, not the option
LOST_EXIT_CODE = 75


@dataclass
class SlicePartition(InputPartition):  # type: ignore[misc]
    """The one partition of a slice."""

    ticket: SliceTicket


@dataclass
class SliceTotals(WriterCommitMessage):  # type: ignore[misc]
    """What the writer reported durable: host -> (records, batches)."""

    totals: dict[int, tuple[int, int]]


def exit_when_lost(why: str) -> None:
    """End this process now: its tasks may already run elsewhere (E3)."""
    sys.stderr.write(f"connectrt slice process {os.getpid()} exits: {why}\n")
    sys.stderr.flush()
    os._exit(LOST_EXIT_CODE)


class ConnectTasks(DataSource):  # type: ignore[misc]
    """The DataSource; Spark makes one in processes of its own, never in the driver's Python."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        gc.freeze()  # Spark runs gc.collect() after every call of such a process: 40 ms without this

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the super-row's schema."""
        return ROW_DDL

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
        assert isinstance(partition, SlicePartition)
        mask_logs()
        ticket = partition.ticket
        ask_this_driver(ticket)
        clients = load_clients(ticket.clients)
        client = ControlClient(ticket, "reader", exit_when_lost)
        side = ReaderSide(clients, client.send)
        EXECUTOR_LOGS.attach(side.tasks)
        # Only now: what it starts sends by the client at once.
        client.listen(side.handle, lambda: EXECUTOR_LOGS.flush_to(client.send_now))
        try:
            for row in side.rows():
                yield to_arrow(row)
        finally:
            side.abandon()
            client.close()


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, ticket: SliceTicket) -> None:
        self._ticket = ticket

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SliceTotals:
        mask_logs()
        ticket = self._ticket
        ask_this_driver(ticket)
        clients = load_clients(ticket.clients)
        client = ControlClient(ticket, "writer", exit_when_lost)
        side = WriterSide(clients, client.send)
        EXECUTOR_LOGS.attach(side.tasks)
        client.listen(lambda message: None, lambda: EXECUTOR_LOGS.flush_to(client.send_now))
        try:
            totals = side.run(_rows(iterator))
        finally:
            side.abandon()
            client.close()
        return SliceTotals({host: (one.records, one.batches) for host, one in totals.items()})

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the slice's books: what was written must be what the driver received reports of (E4)."""
        totals: dict[int, tuple[int, int]] = {}
        for message in messages:
            if not isinstance(message, SliceTotals):
                raise FencedError(f"slice {self._ticket.slice_id}: a partition ended without totals")
            totals.update(message.totals)
        ask_totals(self._ticket, totals)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: what is durable was reported, the rest is read again."""


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from from_arrow(batch)
