"""Writes the offset syncs of one MirrorSource task (Java ``OffsetSyncWriter``)."""

from __future__ import annotations

import logging
import time
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun, OffsetSyncQueue
from spark_connect_rt.kafka.client_factory import make_producer
from spark_connect_rt.kafka.client_lifetime import close_producer
from spark_connect_rt.kafka.lost_brokers import BrokerWatch

PROMOTE_EACH_S = 5.0  # Java: offset.flush.interval.ms, a minute
SYNCS_IN_FLIGHT = 10
LAST_FLUSH_S = 5.0
log = logging.getLogger(__name__)


class OffsetSyncWriter:
    """Writes offset syncs: a few at a time, none of them waited for, as in Java. One thread."""

    def __init__(self, flow: Flow, max_lag: int) -> None:
        """Take the flow and ``offset.lag.max``."""
        side, self._topic = flow.offset_syncs()
        self._properties = flow.client(side, "producer", f"offset-syncs-{side}-producer")
        self._watch = BrokerWatch(f"the producer of topic {self._topic}")
        self._producer = self._new_producer()
        self._queue = OffsetSyncQueue(max_lag)
        self._in_flight = 0
        self._promote_at_s = time.monotonic() + PROMOTE_EACH_S

    def take_in(self, partition: TopicPartition, run: OffsetRun) -> None:
        """Note records that arrived, and write what is due at once."""
        for _ in self._queue.take_in(partition, run):
            self._write()

    def write_due(self) -> None:
        """Write what waited for room, and now and then what low traffic leaves out of date."""
        if time.monotonic() >= self._promote_at_s:
            self._promote_at_s = time.monotonic() + PROMOTE_EACH_S
            self._queue.promote()
        self._write()

    def close(self) -> None:
        """Write everything there is, for a short while."""
        self._queue.promote()
        self._write(SYNCS_IN_FLIGHT + len(self._queue))
        self._producer.flush(LAST_FLUSH_S)
        close_producer(self._producer)

    def _write(self, room: int = SYNCS_IN_FLIGHT) -> None:
        self._producer.poll(0)
        if self._watch.is_lost():
            self._watch.replaced()
            close_producer(self._producer)
            self._producer = self._new_producer()
        while self._in_flight < room and (sync := self._queue.take()) is not None:
            self._producer.produce(self._topic, sync.value(), sync.key(), 0)
            self._in_flight += 1

    def _new_producer(self) -> Any:
        return make_producer(self._properties, {**self._watch.settings(), "on_delivery": self._reported})

    def _reported(self, error: Any, message: Any) -> None:
        self._in_flight -= 1
        if error is not None:
            log.error("an offset sync cannot be written to %s: %s", self._topic, error.str())
