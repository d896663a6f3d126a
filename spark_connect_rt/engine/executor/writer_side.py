"""The writer half of a slot: deals super-rows to one lane per host.

Owns the table of lanes, which the reader's process has, too, for hosts that are fused. Decides nothing: rows say what
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
from spark_connect_rt.engine.executor.source_lane import SourceLane
from spark_connect_rt.engine.executor.task_logs import hide_secrets
from spark_connect_rt.engine.executor.task_meter import TELL_EACH_S
from spark_connect_rt.engine.executor.task_writer import Lane, Report, Totals
from spark_connect_rt.engine.executor.transactional_lane import TransactionalLane
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import FencedError, ShuttingDownError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)


class LaneTable:
    """The lanes of one process, by host; wherever their rows come from."""

    def __init__(self, clients: ExecutorClients, report: Report, joint: JointReports | None = None) -> None:
        """``joint``: sends what lanes report together."""
        self._joint = joint
        self._clients = clients
        self._report = report
        self._lanes: dict[int, Lane] = {}
        self._refused: set[int] = set()  # hosts that got no lane, until they end
        self._ended: set[int] = set()  # hosts whose ENDED row was seen; the lane may still drain
        self.abandoned = False
        self.totals: dict[int, Totals] = {}

    def open(self, host: int, launch: TaskLaunch, *, fused: bool = False) -> None:
        """Begin a lane. ``fused``: what reads is in this process and says nothing of running out.

        Raises ShuttingDownError: the slice is over. Whatever else: there is no lane.
        """
        if self.abandoned:
            raise ShuttingDownError("the slice is over, so nothing is started")
        for gone in [h for h in list(self._ended) if not self._lanes[h].is_alive()]:
            self._ended.discard(gone)
            del self._lanes[gone]
        lane = _lane_of(launch)(host, launch, self._report, self._clients)
        lane.sees_idle, lane.joint = fused, self._joint
        self._lanes[host] = lane
        try:
            lane.start()
        except BaseException:
            del self._lanes[host]
            raise
        self.totals[host] = lane.totals

    def refuse(self, host: int, error: BaseException) -> None:
        """Say why a host got no lane, and that it ended once its rows do; the others go on."""
        log.error("host=%d cannot be started", host, exc_info=error)
        self._refused.add(host)
        self._report(not_hosted(host, error))

    def give(self, row: Row) -> None:
        """Hand a row to its host's lane; none: it is dropped."""
        lane = self._lanes.get(row.host)
        if lane is None:
            if row.kind is RowKind.ENDED and row.host in self._refused:
                self._refused.discard(row.host)
                self._report({"op": "ended", "host": row.host})
            return
        if row.kind is RowKind.ENDED:  # not joined here: a slow drain must not hold up the neighbours
            self._ended.add(row.host)
        lane.give(row)

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """See ``Lane.serve_at_once``; False: no such host, too."""
        lane = self._lanes.get(host)
        return lane is not None and lane.serve_at_once(head, batch)

    def hint_idle(self) -> None:
        """Say that nothing more is on the way right now."""
        for lane in self._lanes.values():
            lane.hint_idle()

    def tell_measures(self, report: Report | None = None) -> None:
        """Tell the driver, or ``report``, what the lanes did."""
        for lane in list(self._lanes.values()):
            lane.tell_measures(report)

    def batches(self) -> int:
        """Return how many batches the lanes reported durable."""
        return sum(total.batches for total in self.totals.values())

    def unended(self) -> list[int]:
        """Return the hosts that have not ended."""
        return sorted(self._refused | set(self._lanes) - self._ended)

    def join(self) -> None:
        """Wait for the lanes to end; not if they are abandoned: one may be stuck in its task, its process is to die."""
        for lane in list(self._lanes.values()):
            if self.abandoned:
                break
            lane.join()

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that have a lane now. Any thread."""
        return [lane.launch.task for lane in list(self._lanes.values()) if lane.is_alive()]

    def abandon(self) -> None:
        """The slice is over: no lane may report any more."""
        self.abandoned = True
        for lane in list(self._lanes.values()):
            lane.abandon()


class WriterSide:
    """All hosts of one slice, on the writing side."""

    def __init__(
        self,
        clients: ExecutorClients,
        report: Report,
        freed: FreedMemory | None = None,
        joint: JointReports | None = None,
    ) -> None:
        """``freed``: of a process that is this slice's alone; ``joint``: see LaneTable."""
        self._freed = freed
        self._lanes = LaneTable(clients, report, joint)
        self._fused: dict[int, Totals] = {}  # of hosts whose lane was in the reader's process
        self._reported_s = 0.0

    def run(self, rows: Iterator[Row]) -> dict[int, Totals]:
        """Serve rows until the reader ends; return host -> what was reported durable."""
        try:
            for row in unpacked(rows):
                if row.kind is not RowKind.MARKER:
                    self._serve(row)
                if row.last:
                    self._lanes.hint_idle()
                self._tell_measures(time.monotonic())
        except BaseException:
            self.abandon()
            raise
        self._refuse_truncation()
        self._lanes.join()
        return self._lanes.totals | self._fused

    def _tell_measures(self, now_s: float) -> None:
        """Tell the driver what the lanes did, about once a second; the reader's heartbeats see to that."""
        if now_s - self._reported_s < TELL_EACH_S:
            return
        self._reported_s = now_s
        self._lanes.tell_measures()
        if self._freed is not None:
            self._freed.look(now_s, self._lanes.batches())

    def _refuse_truncation(self) -> None:
        """Fail when rows stopped though a host never said ENDED: its reader died, which looks like a normal end here.

        E1: only the reader says that a host ended; reporting it for the reader would end a task that must be recovered.
        """
        cut_off = self._lanes.unended()
        if cut_off and not self._lanes.abandoned:
            self.abandon()
            raise FencedError(f"the reader's rows ended within hosts {cut_off}")

    def _serve(self, row: Row) -> None:
        match row.kind:
            case RowKind.LAUNCH:
                try:
                    launch = decode_launch(orjson.loads(row.head))
                    hide_secrets(launch)
                    self._lanes.open(row.host, launch)
                except ShuttingDownError:
                    raise
                except BaseException as error:  # noqa: BLE001 - the task's own settings: its failure, not its neighbours'
                    self._lanes.refuse(row.host, error)
            case RowKind.TOTALS:
                self._fused = {host: Totals(*counts) for host, *counts in orjson.loads(row.head)}
            case _:
                self._lanes.give(row)

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that are hosted now. Any thread."""
        return self._lanes.tasks()

    def abandon(self) -> None:
        """The slice is over: no lane may report any more."""
        self._lanes.abandon()


def not_hosted(host: int, error: BaseException) -> Message:
    """Return the report of a host that could not begin: its task failed, or, for want of resources, is tried again."""
    if is_shortage(error):
        return {"op": "lost", "host": host, "why": text_of(error)}
    return {"op": "failed", "host": host, "trace": trace_of(error)}


def _lane_of(launch: TaskLaunch) -> type[SourceLane] | type[TransactionalLane] | type[SinkTaskRunner]:
    if launch.kind is not TaskKind.SOURCE:
        return SinkTaskRunner
    return TransactionalLane if launch.offsets_topic else SourceLane
