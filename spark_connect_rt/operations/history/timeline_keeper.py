"""Follows where the group's connectors are, and answers where they were.

Owns the leader's thread: once a minute it looks at the offsets of every connector and writes what changed. Sources are
read from the offset topic's fold. Sinks are read from Kafka one after another, for a part of the minute only. If they
are too many, the next round continues with the others. A worker that does not lead only reads, when it is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.operations.history.offset_timeline import (
    HOURS,
    MINUTES,
    TIERS,
    OffsetTimelineStore,
    merged,
    packed,
    state_of,
    with_point,
)
from spark_connect_rt.operations.history.store import CourseKey
from spark_connect_rt.rest.change_history import Course, CoursePoint
from spark_connect_rt.runtime.values import ConnectorOffset
from spark_connect_rt.topics.offset_changes import OffsetPair

PERIOD_S = 60.0
ROUND_S = 10.0  # of each period, at most, for asking Kafka about sinks
LEFT_ALONE_S = 600.0  # a sink whose cluster did not answer
READ_LIMIT_MS = 5_000
FORGET_EVERY_S = 3600.0
STALLED_ROUNDS = 5

log = logging.getLogger(__name__)


class OffsetTimelineKeeper:
    """Keeps and reads the offset history of all connectors. Any thread."""

    def __init__(
        self,
        store: OffsetTimelineStore,
        connectors: Callable[[], Sequence[str]],
        is_sink: Callable[[str], bool],
        offsets_of: Callable[[str], Sequence[OffsetPair]],
        is_leader: Callable[[], bool],
        now_ms: Callable[[], int],
        bytes_max: int,
        period_s: float = PERIOD_S,
    ) -> None:
        """``offsets_of`` may block, and raises ConnectError; ``bytes_max`` 0: nothing is kept."""
        self._store = store
        self._connectors = connectors
        self._is_sink = is_sink
        self._offsets_of = offsets_of
        self._is_leader = is_leader
        self._now_ms = now_ms
        self._bytes_max = bytes_max
        self._period_s = period_s
        self.rounds = Repeated(
            "offsets-course", self._round, lambda: self._period_s, "the offset history is not recorded any more"
        )
        self._last: dict[str, object] = {}  # connector -> what its offsets were when they were last written
        self._led = False
        self._first = 0  # sink to begin the next round with
        self._left_alone: dict[str, float] = {}  # sinks that could not be asked -> monotonic s until when
        self._hours: dict[str, int] = {}  # connector -> hour that has its point
        self._problem = ""
        self._too_large: set[str] = set()
        self._round_at = time.monotonic()
        self._forget_at = time.monotonic() + FORGET_EVERY_S

    def start(self) -> None:
        """Start the rounds, if a history is kept."""
        if self._bytes_max > 0:
            self.rounds.start()

    def stop(self) -> None:
        """Look no more, and close the topic."""
        self.rounds.stop(join_s=2.0)
        self._store.close()

    def read(self, connector: str, from_ms: int, to_ms: int) -> Course:
        """Return the points within these times, and the last one before them."""
        if self._bytes_max <= 0:
            return Course(
                (), "this worker keeps no offset history: connectrt.history.course.max.bytes or .changes.max is 0"
            )
        self._refresh()
        points = merged(self._store.parts(connector), from_ms, to_ms)
        shown = [CoursePoint(at_ms, [ConnectorOffset(*pair) for pair in pairs]) for at_ms, pairs in points]
        return Course(shown, self._problem_of(connector))

    def offsets_at(self, connector: str, time_ms: int) -> tuple[int, Sequence[OffsetPair]] | None:
        """Return the last point at or before a time; None: there is none."""
        self._refresh()
        points = merged(self._store.parts(connector), time_ms + 1, time_ms)
        return points[-1] if points else None

    def look(self) -> int:
        """Write what changed since the last round; return how many connectors had moved. Raises ConnectError."""
        if not self._led:
            self._store.refresh(READ_LIMIT_MS)  # the earlier leader's parts are continued here
            self._led = True
        at_ms, moved, states = self._now_ms(), dict[CourseKey, bytes](), dict[str, object]()
        for name, pairs in self._looked_at():
            state = state_of(pairs)
            if (self._last.get(name) == state) or (name not in self._last and not pairs):
                continue
            parts = self._parts_with(name, at_ms, pairs)
            if any(key.tier == MINUTES.name for key in parts) or name in self._too_large:
                states[name] = (
                    state  # else its step has a point already: where it came to rest is written with the next
                )
            moved |= parts
        self._store.write(moved)
        self._last |= states
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_EVERY_S
            self._store.forget_old(at_ms)
            there = set(self._connectors())
            self._last = {name: state for name, state in self._last.items() if name in there}
            self._hours = {name: hour for name, hour in self._hours.items() if name in there}
        return len(states)

    def _looked_at(self) -> Sequence[tuple[str, Sequence[OffsetPair]]]:
        names = list(self._connectors())
        sinks = [name for name in names if self._is_sink(name)]
        found, failed = [], ""
        start, end_s = self._first % max(1, len(sinks)), time.monotonic() + min(ROUND_S, self._period_s)
        self._left_alone = {name: until for name, until in self._left_alone.items() if until > time.monotonic()}
        for name in [*(set(names) - set(sinks)), *sinks[start:], *sinks[:start]]:
            is_sink = self._is_sink(name)
            if self.rounds.stopped or (is_sink and time.monotonic() > end_s):
                break
            self._first += is_sink
            if name in self._left_alone:
                continue
            try:
                found.append((name, self._offsets_of(name)))
            except NotFoundError:
                continue  # it was deleted meanwhile
            except ConnectError as error:
                failed = failed or f"{name}: {error}"
                self._left_alone |= {name: time.monotonic() + LEFT_ALONE_S} if is_sink else {}
        self._problem = f"offsets of {failed} cannot be read" if failed else ""
        return found

    def _parts_with(self, name: str, at_ms: int, pairs: Sequence[OffsetPair]) -> dict[CourseKey, bytes]:
        written: dict[CourseKey, bytes] = {}
        for tier in TIERS.values():
            if tier is HOURS and self._hours.get(name) == at_ms // tier.step_ms:
                continue
            part = with_point(self._store.part(name, tier, at_ms), tier, (at_ms, pairs))
            value = None if part is None else packed(part, tier, tier.bytes_max(self._bytes_max))
            if value is not None:
                written[CourseKey(tier.name, tier.slot(at_ms), name)] = value
                self._hours |= {name: at_ms // tier.step_ms} if tier is HOURS else {}
            elif part is not None and tier is MINUTES:
                self._too_large.add(name)
        return written

    def _refresh(self) -> None:
        try:
            self._store.refresh(READ_LIMIT_MS)
        except ConnectError as error:
            log.debug("the offset history is returned as far as it was read: %s", error)

    def _problem_of(self, connector: str) -> str:
        lines = [self._store.problem, self._problem]
        if connector in self._too_large:
            lines.append("some points are missing because they exceed connectrt.history.course.max.bytes")
        if self._bytes_max > 0 and time.monotonic() - self._round_at > STALLED_ROUNDS * self._period_s:
            lines.append(f"the offsets have not been read for {time.monotonic() - self._round_at:.0f} s")
        return "; ".join(filter(None, lines))

    def _round(self) -> None:
        try:
            if self._is_leader():
                self.look()
            else:
                self._led, self._last, self._hours = False, {}, {}
        except Exception as error:
            self._problem = (
                f"the offset history cannot be written: {error if isinstance(error, ConnectError) else repr(error)}"
            )
            raise
        finally:
            self._round_at = time.monotonic()
