"""Where the records of one producer came to lie, as its delivery reports say: what is to be read back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.base.ids import TopicPartition


class OwnRecords:
    """Any thread."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._ends: dict[TopicPartition, int] = {}
        self._some_unknown = False

    def acknowledged(self, message: Any) -> None:
        """Take the report of a record; a retry that the broker recognized is acknowledged without its offset."""
        offset = message.offset() if message is not None else None
        with self._lock:
            if offset is None or offset < 0:
                self._some_unknown = True
            else:
                where = TopicPartition(self._topic, message.partition())
                self._ends[where] = max(offset + 1, self._ends.get(where, 0))

    def end_is_asked(self) -> None:
        """Take that the topic's end is asked for now: it lies behind every record acknowledged so far."""
        with self._lock:
            self._some_unknown = False

    def ends(self) -> Mapping[TopicPartition, int] | None:
        """Return the offset behind the last of them, by partition; None: not every report said where."""
        with self._lock:
            return None if self._some_unknown else dict(self._ends)
