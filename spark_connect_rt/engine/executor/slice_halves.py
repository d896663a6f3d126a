"""The two halves of a slice as they run in executors: rows out of ReaderSide, rows into WriterSide.

Owns the glue between them and their driver, and the last line of defence: a process that lost its driver exits at
once, whatever its tasks are doing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from spark_connect_rt.engine.executor.control_client import ControlClient, ask_totals
from spark_connect_rt.engine.executor.frames import Row, from_arrow, to_arrow
from spark_connect_rt.engine.executor.freed_memory import FreedMemory
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.executor.joint_reports import JointReports
from spark_connect_rt.engine.executor.late_plugins import ask_this_driver
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.task_logs import EXECUTOR_LOGS, mask_logs
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.engine.executor.writer_side import WriterSide
from spark_connect_rt.errors import FencedError

LOST_EXIT_CODE = 75
Totals = dict[int, tuple[int, int]]  # host -> (records, batches)


def exit_when_lost(why: str) -> None:
    """End this process now: its tasks may already run elsewhere (E3)."""
    sys.stderr.write(f"connectrt slice process {os.getpid()} exits: {why}\n")
    sys.stderr.flush()
    os._exit(LOST_EXIT_CODE)


def read_slice(ticket: SliceTicket) -> Iterator[pa.RecordBatch]:
    """Run the reader's half; yields super-rows (``datasource.ROW_TYPE``) until the driver ends the slice."""
    mask_logs()
    ask_this_driver(ticket)
    clients = load_clients(ticket.clients)
    client = ControlClient(ticket, "reader", exit_when_lost)
    side = ReaderSide(clients, client.send, freed=FreedMemory(), joint=JointReports(client.send_encoded))
    EXECUTOR_LOGS.attach(side.tasks)
    # Only now, because the tasks that it starts send by the client at once.
    client.listen(side.handle, lambda: EXECUTOR_LOGS.flush_to(client.send_now))
    try:
        for row in side.rows():
            yield to_arrow(row)
    finally:
        side.abandon()
        client.close()


def write_slice(ticket: SliceTicket, batches: Iterator[pa.RecordBatch]) -> Totals:
    """Run the writer's half until the reader's rows end; return what it reported durable."""
    mask_logs()
    ask_this_driver(ticket)
    clients = load_clients(ticket.clients)
    client = ControlClient(ticket, "writer", exit_when_lost)
    side = WriterSide(clients, client.send, FreedMemory(), JointReports(client.send_encoded))
    EXECUTOR_LOGS.attach(side.tasks)
    client.listen(lambda message: None, lambda: EXECUTOR_LOGS.flush_to(client.send_now))
    try:
        totals = side.run(_rows(batches))
    finally:
        side.abandon()
        client.close()
    return {host: (total.records, total.batches) for host, total in totals.items()}


def close_books(ticket: SliceTicket, written: Sequence[Mapping[int, tuple[int, int]] | None]) -> None:
    """Ask the driver whether it received reports of all that was written (E4).

    Raises FencedError: a partition ended without totals, None, or the driver's books differ.
    """
    totals: Totals = {}
    for counts in written:
        if counts is None:
            raise FencedError(f"slice {ticket.slice_id}: a partition ended without totals")
        totals.update(counts)
    ask_totals(ticket, totals)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from from_arrow(batch)
