"""The writer half of a slot: deals super-rows to one writer per host.

Owns the table of writers, which the reader's process has, too, for hosts that are fused. Decides nothing: rows say what
begins and ends, the driver is sent what became of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.control_wire import Message, decode_launch
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, unpacked
from spark_connect_rt.engine.executor.freed_memory import FreedMemory
from spark_connect_rt.engine.executor.hosting import is_shortage, text_of, trace_of
from spark_connect_rt.engine.executor.joint_reports import JointReports
from spark_connect_rt.engine.executor.sink_task import SinkTaskRunner
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.executor.task_logs import hide_secrets
from spark_connect_rt.engine.executor.task_meter import TELL_EACH_S
from spark_connect_rt.engine.executor.task_writer import Report, TaskWriter, Totals
from spark_connect_rt.engine.executor.transactional_task_writer import TransactionalTaskWriter
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import FencedError, ShuttingDownError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)


class TaskWriters:
    """The writers of one process, by host; wherever their rows come from."""

    def __init__(self, clients: ExecutorClients, report: Report, joint: JointReports | None = None) -> None:
        """``joint``: sends what writers report together."""
        self._joint = joint
        self._clients = clients
        self._report = report
        self._writers: dict[int, TaskWriter] = {}
        self._refused: set[int] = set()  # hosts that got no writer, until they end
        self._ended: set[int] = set()  # hosts whose ENDED row was seen; the writer may still drain
        self.abandoned = False
        self.totals: dict[int, Totals] = {}

    def open(self, host: int, launch: TaskLaunch, *, fused: bool = False) -> None:
        """Begin a writer. ``fused``: the reader is in this process and does not report when it runs out of rows.

        Raises ShuttingDownError: the slice is over. After any other error, there is no writer.
        """
        if self.abandoned:
            raise ShuttingDownError("the slice is over, so nothing is started")
        for gone in [h for h in list(self._ended) if not self._writers[h].is_alive()]:
            self._ended.discard(gone)
            del self._writers[gone]
        writer = _writer_class(launch)(host, launch, self._report, self._clients)
        writer.sees_idle, writer.joint = fused, self._joint
        self._writers[host] = writer
        try:
            writer.start()
        except BaseException:
            del self._writers[host]
            raise
        self.totals[host] = writer.totals

    def refuse(self, host: int, error: BaseException) -> None:
        """Report why a host got no writer, and its end once its rows have ended; the others continue."""
        log.error("host=%d cannot be started", host, exc_info=error)
        self._refused.add(host)
        self._report(not_hosted(host, error))

    def give(self, row: Row) -> None:
        """Hand a row to its host's writer; none: it is dropped."""
        writer = self._writers.get(row.host)
        if writer is None:
            if row.kind is RowKind.ENDED and row.host in self._refused:
                self._refused.discard(row.host)
                self._report({"op": "ended", "host": row.host})
            return
        if row.kind is RowKind.ENDED:  # not joined here: a slow drain must not hold up the neighbours
            self._ended.add(row.host)
        writer.give(row)

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """See ``TaskWriter.serve_at_once``; False: no such host, too."""
        writer = self._writers.get(host)
        return writer is not None and writer.serve_at_once(head, batch)

    def hint_idle(self) -> None:
        """Say that nothing more is on the way right now."""
        for writer in self._writers.values():
            writer.hint_idle()

    def tell_measures(self, report: Report | None = None) -> None:
        """Report the work of the writers to the driver, or to ``report``."""
        for writer in list(self._writers.values()):
            writer.tell_measures(report)

    def batches(self) -> int:
        """Return how many batches the writers reported durable."""
        return sum(total.batches for total in self.totals.values())

    def unended(self) -> list[int]:
        """Return the hosts that have not ended."""
        return sorted(self._refused | set(self._writers) - self._ended)

    def join(self) -> None:
        """Wait for the writers to end, but not for abandoned ones: one may hang in its task, and its process ends."""
        for writer in list(self._writers.values()):
            if self.abandoned:
                break
            writer.join()

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that have a writer now. Any thread."""
        return [writer.launch.task for writer in list(self._writers.values()) if writer.is_alive()]

    def abandon(self) -> None:
        """The slice is over: no writer may report any more."""
        self.abandoned = True
        for writer in list(self._writers.values()):
            writer.abandon()


class WriterSide:
    """All hosts of one slice, on the writing side."""

    def __init__(
        self,
        clients: ExecutorClients,
        report: Report,
        freed: FreedMemory | None = None,
        joint: JointReports | None = None,
    ) -> None:
        """``freed``: of a process that is this slice's alone; ``joint``: see TaskWriters."""
        self._freed = freed
        self._writers = TaskWriters(clients, report, joint)
        self._fused: dict[int, Totals] = {}  # of hosts whose writer was in the reader's process
        self._reported_s = 0.0

    def run(self, rows: Iterator[Row]) -> dict[int, Totals]:
        """Serve rows until the reader ends; return host -> what was reported durable."""
        try:
            for row in unpacked(rows):
                if row.kind is not RowKind.MARKER:
                    self._serve(row)
                if row.last:
                    self._writers.hint_idle()
                self._tell_measures(time.monotonic())
        except BaseException:
            self.abandon()
            raise
        self._refuse_truncation()
        self._writers.join()
        return self._writers.totals | self._fused

    def _tell_measures(self, now_s: float) -> None:
        """Report the work of the writers to the driver, about once a second; the reader's heartbeats call it."""
        if now_s - self._reported_s < TELL_EACH_S:
            return
        self._reported_s = now_s
        self._writers.tell_measures()
        if self._freed is not None:
            self._freed.look(now_s, self._writers.batches())

    def _refuse_truncation(self) -> None:
        """Fail when rows stopped though a host never said ENDED: its reader died, which looks like a normal end here.

        E1: only the reader says that a host ended; reporting it for the reader would end a task that must be recovered.
        """
        cut_off = self._writers.unended()
        if cut_off and not self._writers.abandoned:
            self.abandon()
            raise FencedError(f"the reader's rows ended within hosts {cut_off}")

    def _serve(self, row: Row) -> None:
        match row.kind:
            case RowKind.LAUNCH:
                try:
                    launch = decode_launch(orjson.loads(row.head))
                    hide_secrets(launch)
                    self._writers.open(row.host, launch)
                except ShuttingDownError:
                    raise
                except BaseException as error:  # noqa: BLE001 - the task's own settings: its failure, not its neighbours'
                    self._writers.refuse(row.host, error)
            case RowKind.TOTALS:
                self._fused = {host: Totals(*counts) for host, *counts in orjson.loads(row.head)}
            case _:
                self._writers.give(row)

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that are hosted now. Any thread."""
        return self._writers.tasks()

    def abandon(self) -> None:
        """The slice is over: no writer may report any more."""
        self._writers.abandon()


def not_hosted(host: int, error: BaseException) -> Message:
    """Return the report of a host that could not begin: its task failed, or, for want of resources, is tried again."""
    if is_shortage(error):
        return {"op": "lost", "host": host, "why": text_of(error)}
    return {"op": "failed", "host": host, "trace": trace_of(error)}


def _writer_class(launch: TaskLaunch) -> type[SourceTaskWriter] | type[TransactionalTaskWriter] | type[SinkTaskRunner]:
    if launch.kind is not TaskKind.SOURCE:
        return SinkTaskRunner
    return TransactionalTaskWriter if launch.offsets_topic else SourceTaskWriter
