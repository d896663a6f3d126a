"""The topic of replays as one worker follows it.

Owns: opening it when it is there or must be, opening it again when its reader ended, and when each replay was last
written: a replay whose worker is silent is taken over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from spark_connect_rt.errors import BadRequestError, ConnectError, TimedOutError
from spark_connect_rt.operations.dead_letters.replay_ledger import ReplayRecords
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord
from spark_connect_rt.topics.lazy_log import LogSource

READ_LIMIT_MS, LOOK_LIMIT_MS = 30_000, 3_000
log = logging.getLogger(__name__)
T = TypeVar("T")


class ReplayLog:
    """What is remembered of replays. Any thread."""

    def __init__(self, topic: str | None, source: LogSource | None) -> None:
        """``topic`` and where its log comes from; None: this worker has none, nothing can be replayed."""
        self._topic, self._source = topic, source
        self._opening = threading.Lock()
        self._changed = threading.Condition()
        self._records = ReplayRecords()
        self._seen_s: dict[str, tuple[int, float]] = {}  # replay -> records of it, monotonic time of the last
        self._log: CompactedLog | None = None
        self._ended = ""

    @property
    def topic(self) -> str:
        """Return the topic's name. Raises BadRequestError: there is none."""
        if self._topic is None:
            raise BadRequestError(
                "this worker has no topic for the state of replays. Set connectrt.replays.storage.topic in its file"
            )
        return self._topic

    def follow(self) -> bool:
        """Follow the topic if it is there; return whether it is followed. Raises ConnectError."""
        if self._source is None:
            return False
        with self._opening:
            if self._log is not None and not self._ended:
                return True
            if not self._source.exists():
                return False
        self._opened()
        return True

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records, and read them if that is possible now; the topic is made when it is not there.

        Raises ConnectError: they may not be there.
        """
        opened = self._opened()
        opened.append(records)
        opened.flush(READ_LIMIT_MS)
        self.look()

    def catch_up(self, limit_ms: int = READ_LIMIT_MS) -> None:
        """Read what is there by now. Raises ConnectError."""
        if self.follow() and self._log is not None:
            self._log.read_to_end(limit_ms)

    def look(self) -> None:
        """Read what is there by now, or can be soon: a transaction that a dead worker left open ends later."""
        try:
            self.catch_up(LOOK_LIMIT_MS)
        except TimedOutError as error:
            log.warning("replays are shown in their last known state: %s", error)

    def read(self, work: Callable[[ReplayRecords], T]) -> T:
        """Return what ``work`` finds, at once."""
        with self._changed:
            return work(self._records)

    def silent_s(self, replay_id: str, now_s: float) -> float:
        """Return for how long nothing of a replay came, seconds."""
        with self._changed:
            return now_s - self._seen_s.get(replay_id, (0, now_s))[1]

    def wait(self, limit_s: float) -> None:
        """Return when something changed, or after the limit."""
        with self._changed:
            self._changed.wait(limit_s)

    def wake(self) -> None:
        """Have ``wait`` return."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """Close the topic's clients."""
        with self._opening:
            opened, self._log = self._log, None
        if opened is not None:
            opened.stop()

    def _opened(self) -> CompactedLog:
        if self._source is None:
            raise BadRequestError(self.topic)  # raises by itself
        with self._opening:
            if self._log is not None and self._ended:
                ended, self._log = self._log, None
                ended.stop()
            if self._log is None:
                opened = self._source.open(self._on_end)
                with self._changed:
                    self._records, self._ended = ReplayRecords(), ""
                opened.start(self._on_records)
                self._log = opened
            return self._log

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        now_s = time.monotonic()
        with self._changed:
            for record in records:
                self._records.take(record.key, record.value)
            for standing in self._records.all():
                if self._seen_s.get(standing.replay.id, (0, 0.0))[0] != standing.changes:
                    self._seen_s[standing.replay.id] = (standing.changes, now_s)
            self._changed.notify_all()

    def _on_end(self, why: str) -> None:
        with self._changed:
            self._ended = why
            self._changed.notify_all()


def no_topic(name: str) -> ConnectError:
    """Return the error of a queue that is not there."""
    return BadRequestError(f"topic {name} does not exist, so there are no dead letters to replay")
