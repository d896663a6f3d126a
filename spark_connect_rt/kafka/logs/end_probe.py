"""Looks whether only ends of transactions are left before a topic's end: librdkafka's consumers pass them silently.

A consumer that waits for more says that it is at the end when the broker answers its fetch, which is held for half a
second; Java's consumers know at once. So who waits for the end of a log asks a second consumer, which fetches only
then and whose fetches are not held.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.lost_brokers import CallWatch, has_broker, warn_replaced

LIMIT_S = 1.0
_STEP_S = 0.05
_SETTINGS = {"enable.partition.eof": True, "fetch.wait.max.ms": 1, "fetch.queue.backoff.ms": 1}

log = logging.getLogger(__name__)


class EndProbe:
    """Of one topic. Any thread; one asks at a time."""

    def __init__(self, topic: str, consumer: Mapping[str, str]) -> None:
        """``consumer``: the properties of the log's own, which say what it sees."""
        self._topic = topic
        self._properties = {"group.id": topic, **consumer}
        self._lock = threading.Lock()
        self._consumer: Any = None
        self._watch = CallWatch()
        self._closed = False

    def silent_until(self, positions: Mapping[int, int], limit_s: float) -> dict[int, int]:
        """Return partition -> offset before which a reader at its position will find nothing.

        Partitions of which that is not known, or that hold a record there, are left out; so are all when the broker
        does not answer in time.
        """
        end_s = time.monotonic() + min(limit_s, LIMIT_S)
        with self._lock:
            if self._closed:
                return {}
            begun_s = self._watch.now()
            try:
                found = self._asked(positions, end_s)
            except KafkaException as error:
                log.debug("topic %s: waiting for its end: %s", self._topic, error)
                found = {}
            if found:
                self._watch.succeeded()
            elif self._watch.failed(begun_s):
                self._replace_lost()
            return found

    def _asked(self, positions: Mapping[int, int], end_s: float) -> dict[int, int]:
        if self._consumer is None:
            self._consumer = make_consumer(self._properties, _SETTINGS)
        found, open_ones = dict[int, int](), set(positions)
        self._consumer.assign([_ClientPartition(self._topic, *position) for position in positions.items()])
        try:
            while open_ones and not self._closed and time.monotonic() < end_s:
                message = self._consumer.poll(_STEP_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    open_ones.discard(message.partition())
                elif error.code() == KafkaError._PARTITION_EOF:
                    if message.partition() in open_ones:
                        found[message.partition()] = message.offset()
                    open_ones.discard(message.partition())
            return found
        finally:
            self._consumer.unassign()

    def _replace_lost(self) -> None:
        """Have the next question make a new consumer, unless this one only met records or an open transaction."""
        if self._consumer is None or has_broker(self._consumer):
            self._watch.succeeded()
            return
        self._watch.replaced()
        warn_replaced(f"the consumer for the end of topic {self._topic}")
        lost, self._consumer = self._consumer, None
        lost.close()

    def close(self) -> None:
        """End it. May be called twice."""
        self._closed = True
        with self._lock, contextlib.suppress(KafkaException):
            if self._consumer is not None:
                self._consumer.close()
            self._consumer = None
