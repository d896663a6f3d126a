"""One append to a compacted topic: its records are handed over, and the last of their delivery reports answers it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.error_mapping import connect_error, is_code
from spark_connect_rt.kafka.logs.key_places import Write
from spark_connect_rt.kafka.logs.own_records import OwnRecords

ROOM_WAIT_S = 0.05


class AppendReports:
    """Counts the reports, which any thread may serve."""

    __slots__ = ("_done", "_error", "_left", "_lock", "_own", "_topic")

    def __init__(self, topic: str, count: int, own: OwnRecords, done: Callable[[Exception | None], None]) -> None:
        """``done`` is called once: with the first error, None when all ``count`` records are durable."""
        self._topic = topic
        self._left = count
        self._own = own
        self._done = done
        self._lock = threading.Lock()
        self._error: Exception | None = None

    def __call__(self, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None and self._error is None:
                self._error = _append_error(error, f"appending to {self._topic}")
            self._left -= 1
            is_last = self._left == 0
        if error is None:
            self._own.acknowledged(message)
        if is_last:
            self._done(self._error)


def _append_error(error: Any, doing: str) -> ConnectError:
    """Return the error of a record. One that a producer gave up when it was replaced or closed may be sent again."""
    found = connect_error(error, doing)
    return RetriableError(str(found)) if is_code(error, "_PURGE_QUEUE", "_PURGE_INFLIGHT") else found


def produced(producer: Any, topic: str, write: Write, answer: AppendReports, until_s: float) -> bool:
    """Hand over one record; return False when there was no room until then (s, monotonic): it is answered so."""
    key, value, partition, at_ms = write
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=answer, timestamp=at_ms)
        except BufferError:
            if time.monotonic() >= until_s:
                answer(KafkaError(KafkaError._QUEUE_FULL), None)
                return False
            producer.poll(ROOM_WAIT_S)
        except KafkaException as error:
            answer(error, None)
            return True
        else:
            return True
