"""The writer half of a slot: deals super-rows to one lane per host.

Owns the table of lanes. Decides nothing: rows say what begins and ends, the driver is sent what became of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import orjson

from spark_connect_rt.errors import FencedError
from spark_connect_rt.ports.executor_clients import ExecutorClients
from spark_connect_rt.ports.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.spark.executor.control_wire import decode_launch
from spark_connect_rt.spark.executor.frames import Row, RowKind
from spark_connect_rt.spark.executor.lane import Lane, Report, Totals
from spark_connect_rt.spark.executor.log_masking import hide_secrets
from spark_connect_rt.spark.executor.row_packs import unpacked
from spark_connect_rt.spark.executor.sinks.sink_lane import SinkLane
from spark_connect_rt.spark.executor.sources.source_lane import SourceLane
from spark_connect_rt.spark.executor.sources.transactional_lane import TransactionalLane
from spark_connect_rt.spark.executor.task_meter import TELL_EACH_S


class WriterSide:
    """All hosts of one slice, on the writing side."""

    def __init__(self, clients: ExecutorClients, report: Report) -> None:
        self._clients = clients
        self._report = report
        self._lanes: dict[int, Lane] = {}
        self._ended: set[int] = set()  # hosts whose ENDED row was seen; the lane may still drain
        self._abandoned = False
        self._totals: dict[int, Totals] = {}
        self._reported_s = 0.0

    def run(self, rows: Iterator[Row]) -> dict[int, Totals]:
        """Serve rows until the reader ends; return host -> what was reported durable."""
        try:
            for row in unpacked(rows):
                if row.kind is not RowKind.MARKER:
                    self._serve(row)
                if row.last:
                    for lane in self._lanes.values():
                        lane.hint_idle()
                self._tell_measures(time.monotonic())
        except BaseException:
            self.abandon()
            raise
        self._refuse_truncation()
        for lane in self._lanes.values():
            if self._abandoned:
                break  # a lane may be stuck in its task; its process is about to die
            lane.join()
        return self._totals

    def _tell_measures(self, now_s: float) -> None:
        """Tell the driver what the lanes did, about once a second; the reader's heartbeats see to that."""
        if now_s - self._reported_s < TELL_EACH_S:
            return
        self._reported_s = now_s
        for lane in self._lanes.values():
            lane.tell_measures()

    def _refuse_truncation(self) -> None:
        """Fail when rows stopped though a host never said ENDED: its reader died, which looks like a normal end here.

        E1: only the reader says that a host ended; reporting it for the reader would end a task that must be recovered.
        """
        cut_off = sorted(set(self._lanes) - self._ended)
        if cut_off and not self._abandoned:
            self.abandon()
            raise FencedError(f"the reader's rows stopped in the middle of hosts {cut_off}")

    def _serve(self, row: Row) -> None:
        if row.kind is RowKind.LAUNCH:
            self._open(row)
        lane = self._lanes.get(row.host)
        if lane is None or row.kind is RowKind.LAUNCH:
            return
        lane.give(row)
        if row.kind is RowKind.ENDED:  # not joined here: a slow drain must not hold up the neighbours
            self._ended.add(row.host)

    def _open(self, row: Row) -> None:
        for host in [h for h in self._ended if not self._lanes[h].is_alive()]:
            self._ended.discard(host)
            del self._lanes[host]
        launch = decode_launch(orjson.loads(row.head))
        hide_secrets(launch)
        lane = _lane_of(launch)(row.host, launch, self._report, self._clients)
        self._lanes[row.host] = lane
        self._totals[row.host] = lane.totals
        lane.start()

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that are hosted now. Any thread."""
        return [lane.launch.task for lane in list(self._lanes.values()) if lane.is_alive()]

    def abandon(self) -> None:
        """The slice is over: no lane may report any more."""
        self._abandoned = True
        for lane in list(self._lanes.values()):
            lane.abandon()


def _lane_of(launch: TaskLaunch) -> type[SourceLane] | type[TransactionalLane] | type[SinkLane]:
    if launch.kind is not TaskKind.SOURCE:
        return SinkLane
    return TransactionalLane if launch.offsets_topic else SourceLane
