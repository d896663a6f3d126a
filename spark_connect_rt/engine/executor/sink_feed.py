"""Reads the partitions of one sink task in a thread of a slot's reader process.

Owns a consumer whose partitions are assigned by hand; it belongs to no group and commits nothing (the member is in the
driver). Every change of partitions is a row in the stream, so the sink side opens, flushes and closes in order.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.executor.control_wire import encode_offsets
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, Rows, encode_partitions
from spark_connect_rt.engine.executor.hosting import Switches, trace_of
from spark_connect_rt.engine.executor.task_meter import TELL_EACH_S, TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import RetriableError, ShuttingDownError
from spark_connect_rt.kafka.cluster_contact import listen
from spark_connect_rt.kafka.executor_clients import BatchConsumer, ExecutorClients
from spark_connect_rt.kafka.reading.consumers import polled_views

_POLL_TIMEOUT_MS = 100  # also how late a revocation may be noticed
_DEFAULT_POLL_RECORDS = 5_000  # unless max.poll.records says otherwise
log = logging.getLogger(__name__)


class SinkFeed(threading.Thread):
    """The reading half of one sink task."""

    def __init__(self, host: int, launch: TaskLaunch, rows: Rows, clients: ExecutorClients) -> None:
        super().__init__(name=f"sink-feed-{launch.task}", daemon=True)
        self.switches = Switches(paused=launch.paused)
        self.meter = TaskMeter("reader")
        self._positions: Mapping[TopicPartition, int] = {}  # next to read, as of the last second; replaced whole
        self._reported_positions: Mapping[TopicPartition, int] = {}
        self._looked_s = 0.0
        self._host = host
        self._launch = launch
        self.task = launch.task
        self._rows = rows
        self._clients = clients
        self._changes: deque[Callable[[], None]] = deque()  # from the channel's thread, run on this one
        self._consumer: BatchConsumer | None = None
        self._assigned: set[TopicPartition] = set()
        self._held: dict[TopicPartition, int] = {}  # paused by the task -> where to read on
        self._max_records = _DEFAULT_POLL_RECORDS

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these too (channel thread)."""
        self._changes.append(lambda: self._assign(offsets))
        self.switches.nudge()

    def note_generation(self, message: Mapping[str, Any]) -> None:
        """The task's group member has joined a generation (channel thread)."""
        head = orjson.dumps({name: value for name, value in message.items() if name not in ("op", "host")})
        self._changes.append(lambda: self._rows.put(Row(self._host, RowKind.GENERATION, head)))
        self.switches.nudge()

    def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these no more (channel thread)."""
        self._changes.append(lambda: self._revoke(partitions))
        self.switches.nudge()

    def news(self, now_s: float, *, last: bool = False) -> Mapping[str, Any] | None:
        """Return what this half has not reported to the driver yet, None: nothing. The reader's own thread."""
        positions = self._positions
        fields = self.meter.news(now_s, anyway=last or positions != self._reported_positions)
        if fields is not None:
            self._reported_positions = positions
            fields["positions"] = encode_offsets(positions)
        return fields

    def run(self) -> None:
        """Thread body: nothing escapes but rows."""
        working_for(self.task)
        listen(self.meter.contact)
        try:
            try:
                self._feed_until_stopped()
            except ShuttingDownError:
                raise
            except BaseException as error:  # SystemExit, too: a thread that ends untold leaves its task RUNNING
                log.exception("task=%s run=%d FAILED", self._launch.task, self._launch.run)
                self._rows.put(Row(self._host, RowKind.FAILED, trace_of(error).encode()))
            finally:
                self._close()
            self._rows.put(Row(self._host, RowKind.ENDED))
        except ShuttingDownError:
            log.info("task=%s run=%d: the slice is over", self._launch.task, self._launch.run)

    def _close(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close()
        except BaseException:
            log.exception("task=%s: closing the consumer failed, ignored", self._launch.task)

    def _feed_until_stopped(self) -> None:
        was_paused = self.switches.paused
        if was_paused:
            self._rows.put(Row(self._host, RowKind.PAUSED))
        while not self.switches.stopping:
            while self._changes:
                self._changes.popleft()()
            if self.switches.paused != was_paused:
                was_paused = not was_paused
                self._rows.put(Row(self._host, RowKind.PAUSED if was_paused else RowKind.RUNNING))
            elif was_paused or self.switches.throttled or not self._assigned:
                self.switches.wait(None)
            else:
                self._read_some()

    def _read_some(self) -> None:
        assert self._consumer is not None
        try:
            batch = polled_views(self._consumer, self._max_records, _POLL_TIMEOUT_MS)
        except RetriableError as error:
            log.warning("task=%s: reading will be retried: %s", self._launch.task, error)
            self.switches.wait(_POLL_TIMEOUT_MS / 1000)
            return
        if batch is not None and batch.num_rows:
            self.meter.moved("read", batch.num_rows)
            self._send(batch)
        now_s = time.monotonic()
        if now_s - self._looked_s >= TELL_EACH_S:
            self._looked_s = now_s
            self._positions = {
                partition: self._consumer.position(partition)
                for partition in self._assigned
                if partition not in self._held
            }

    def _send(self, batch: pa.RecordBatch) -> None:
        head = BatchHead(batch.num_rows).encode()
        self._rows.put(Row.of_batch(self._host, head, batch))

    def _assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._consumer is None:
            config = self._clients.resolve(self._launch.client_config, self._launch.worker_config)
            self._max_records = int(config.get("max.poll.records", _DEFAULT_POLL_RECORDS))
            self._consumer = self._clients.consumer(config)
        # The row goes first: nothing may be put of a partition that is not open.
        starts = [(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]
        self._rows.put(Row(self._host, RowKind.ASSIGNED, encode_partitions(starts)))
        self._consumer.assign(offsets)
        self._assigned.update(offsets)
        for partition in offsets:
            self._held.pop(partition, None)

    def steer(self, hold: Sequence[TopicPartition], seek: Mapping[TopicPartition, int | None]) -> None:
        """Hold some, read others on from elsewhere, or from where they were held (channel thread)."""
        self._changes.append(lambda: self._steer(hold, seek))
        self.switches.nudge()

    def _steer(self, hold: Sequence[TopicPartition], seek: Mapping[TopicPartition, int | None]) -> None:
        if self._consumer is None:
            return
        newly = [place for place in hold if place in self._assigned and place not in self._held]
        self._held.update({place: self._consumer.position(place) for place in newly})
        self._consumer.unassign(newly)
        for partition, offset in seek.items():
            if partition not in self._assigned:
                continue  # it was revoked meanwhile
            stood = self._held.pop(partition, None)
            if offset is not None:
                # The row goes first, as of any assignment: rows after it start at the new offset.
                self._rows.put(Row(self._host, RowKind.ASSIGNED, _heads([partition])))
                self._consumer.assign({partition: offset})
            elif stood is not None:
                self._consumer.assign({partition: stood})

    def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        held = [partition for partition in partitions if partition in self._assigned]
        if self._consumer is not None and held:
            self._consumer.unassign([partition for partition in held if partition not in self._held])
        self._assigned.difference_update(held)
        for partition in held:
            self._held.pop(partition, None)
        self._rows.put(Row(self._host, RowKind.REVOKED, _heads(partitions)))


def _heads(partitions: Sequence[TopicPartition]) -> bytes:
    return encode_partitions([(tp.topic, tp.partition) for tp in partitions])
