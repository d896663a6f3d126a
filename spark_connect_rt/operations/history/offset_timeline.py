"""The topic of the course of offsets as a store: packed parts by connector, tier and slot. The leader writes.

Owns: what is kept of each connector, what is too old. What a part means is operations/history/course.py.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from spark_connect_rt.errors import DataError
from spark_connect_rt.operations.history.course import TIERS, Part, Tier, unpacked
from spark_connect_rt.operations.history.history_records import CourseKey, course_key, decode_course_key
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.lazy_log import LazyLog, LogSource

BATCH = 500  # records of one append

log = logging.getLogger(__name__)


class CourseStore:
    """Any thread. What blocks raises ConnectError."""

    def __init__(self, source: LogSource) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, dict[CourseKey, bytes]] = defaultdict(dict)
        self._damaged, self._damage = 0, ""
        self._log = LazyLog("the offset history", source, self._on_records, self._on_new)

    @property
    def problem(self) -> str:
        """Return why points may be missing; empty: nothing is wrong."""
        damage = f"{self._damaged} parts of the offset history cannot be read: {self._damage}" if self._damaged else ""
        return "; ".join(filter(None, (self._log.problem, damage)))

    def refresh(self, timeout_ms: int) -> bool:
        """Read to the end; return whether there is a course at all. Raises ConnectError."""
        return self._log.refresh(timeout_ms)

    def part(self, connector: str, tier: Tier, at_ms: int) -> Part:
        """Return the part that a time is in, as far as was read; an empty one where there is none."""
        key = CourseKey(tier.name, tier.slot(at_ms), connector)
        with self._lock:
            value = self._parts.get(connector, {}).get(key)
        found = None if value is None else self._unpacked(value)
        start_ms = tier.start_ms(at_ms)
        return found if found is not None and found.start_ms == start_ms else Part(start_ms)

    def parts(self, connector: str) -> list[Part]:
        """Return every part of a connector's course."""
        with self._lock:
            values = list(self._parts.get(connector, {}).values())
        return [part for part in map(self._unpacked, values) if part is not None]

    def write(self, parts: Mapping[CourseKey, bytes]) -> None:
        """Write parts. Raises ConnectError."""
        records: list[tuple[bytes, bytes | None]] = [(course_key(key), value) for key, value in parts.items()]
        self._append(records)

    def forget_old(self, now_ms: int) -> int:
        """Forget parts that no slot of a living connector will replace; return how many. Raises ConnectError."""
        with self._lock:
            held = [(key, value) for parts in self._parts.values() for key, value in parts.items()]
        old = [key for key, value in held if self._is_over(key, value, now_ms)]
        self._append([(course_key(key), None) for key in old])
        return len(old)

    def close(self) -> None:
        """Close the topic."""
        self._log.close()

    def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for start in range(0, len(records), BATCH):
            self._log.append(records[start : start + BATCH])

    def _is_over(self, key: CourseKey, value: bytes, now_ms: int) -> bool:
        part = self._unpacked(value)
        return part is None or TIERS[key.tier].is_over(part.start_ms, now_ms)

    def _unpacked(self, value: bytes) -> Part | None:
        try:
            return unpacked(value)
        except DataError as error:
            self._note_damage(error)
            return None

    def _on_new(self) -> None:
        with self._lock:
            self._parts = defaultdict(dict)
            self._damaged, self._damage = 0, ""

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            try:
                key = decode_course_key(record.key)
            except DataError as error:
                self._note_damage(error)
                continue
            with self._lock:
                if record.value is not None:
                    self._parts[key.connector][key] = record.value
                elif self._parts.get(key.connector, {}).pop(key, None) and not self._parts[key.connector]:
                    del self._parts[key.connector]

    def _note_damage(self, error: Exception) -> None:
        self._damaged += 1
        self._damage = self._damage or str(error)
        log.warning("the offset history: %s", error)
