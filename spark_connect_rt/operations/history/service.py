"""The history of one worker: answers the management API (port ``History``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.operations.history.recorder import ObservedChange, Recorder, RequestedBy, shown_safely
from spark_connect_rt.operations.history.store import HistoryStore
from spark_connect_rt.operations.history.timeline_keeper import OffsetTimelineKeeper
from spark_connect_rt.rest.change_history import CONFIG, LOGGER, Change, ChangePage, ChangeQuery, Course
from spark_connect_rt.runtime.herder.herder_requests import Request, SetLoggerLevel
from spark_connect_rt.topics.config_diff import DeclaredSettings, hidden_settings
from spark_connect_rt.topics.offset_changes import OffsetPair

READ_LIMIT_MS = 5_000
WRITTEN_LIMIT_S = 2.0
AGAIN_S = 1.0
ONLY_HERE = "of this worker only"

RangeProblems = Callable[[str, Sequence[OffsetPair]], Sequence[str]]

log = logging.getLogger(__name__)


class WorkerHistory:
    """Any thread. Reads wait for what this worker just served to be recorded, a few seconds at most."""

    def __init__(
        self,
        store: HistoryStore,
        recorder: Recorder,
        course: OffsetTimelineKeeper,
        declared: Callable[[Mapping[str, str]], DeclaredSettings],
        now_ms: Callable[[], int],
        range_problems: RangeProblems,
    ) -> None:
        self._store = store
        self._recorder = recorder
        self._course = course
        self._declared = declared
        self._now_ms = now_ms
        self._range_problems = range_problems
        self._again_at = 0.0  # monotonic s: when the topic is read again after it was away

    def start(self) -> None:
        """Begin to record and to follow."""
        self._recorder.start()
        self._course.start()

    def trouble(self) -> str:
        """Return why changes or courses may not be written down; empty: nothing is in the way."""
        return "; ".join(filter(None, (self._recorder.problem, self._course.rounds.trouble())))

    def stop(self) -> None:
        """Record what waits, then close the topics."""
        self._course.stop()
        self._recorder.stop()
        self._store.close()

    def served(self, request: Request[Any], who: str, note: str, *, here: bool) -> None:
        """Note the user of a request for the change that follows from it. Never raises."""
        try:
            asked = RequestedBy(who, note, here)
            if isinstance(request, SetLoggerLevel):
                after = {"logger": request.namespace, "level": request.level}
                note = "; ".join(filter(None, (note, ONLY_HERE)))
                self._recorder.record(
                    ObservedChange(LOGGER, "", "set", None, after, self._now_ms(), event_key=request.event_key),
                    RequestedBy(who, note, here),
                )
            else:
                self._recorder.served(request, asked)
        except Exception:
            log.exception("the user of a change cannot be recorded")

    def changes(self, query: ChangeQuery) -> ChangePage:
        """Return a page of changes, after a short wait for recent ones."""
        self._catch_up()
        return ChangePage(self._store.changes(query), self._problem())

    def change(self, connector: str, number: int) -> Change:
        """Return one change of a connector. Raises NotFoundError."""
        self._catch_up()
        found = self._store.change(number)
        if found is None or found.connector != connector:
            why = f": {problem}" if (problem := self._problem()) else ""
            raise NotFoundError(f"connector {connector} has no change {number} in the history{why}")
        return found

    def change_at(self, connector: str, version: int) -> Change | None:
        """Return the change that made this version of a configuration, None if it is unknown."""
        self._catch_up()
        return self._store.at(connector, CONFIG, version)

    def course(self, connector: str, from_ms: int, to_ms: int) -> Course:
        """Return the offset history of a connector between two times."""
        return self._course.read(connector, from_ms, to_ms)

    def offsets_at(self, connector: str, time_ms: int) -> tuple[int, Sequence[OffsetPair]] | None:
        """Return the last known offsets at a time and when they were recorded; None: there are none."""
        return self._course.offsets_at(connector, time_ms)

    def shown(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return a configuration with its secrets hidden."""
        return shown_safely(config, hidden_settings(config, self._declared(config)))

    def range_problems(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        """Return why a sink cannot continue at these offsets: records that are gone, or that never existed."""
        return self._range_problems(connector, pairs)

    def _catch_up(self) -> None:
        if time.monotonic() < self._again_at:  # a topic that is away must not hold many readers at once
            return
        self._recorder.await_written(WRITTEN_LIMIT_S)
        try:
            self._store.refresh(READ_LIMIT_MS)
        except ConnectError as error:
            self._again_at = time.monotonic() + AGAIN_S
            log.debug("the history is returned as far as it was read: %s", error)

    def _problem(self) -> str:
        return "; ".join(filter(None, (self._store.problem, self._recorder.problem)))
