"""Statuses of this worker's connectors and tasks on their way to the status topic.

RUNNING, PAUSED, STOPPED and RESTARTING are put. UNASSIGNED and FAILED are put safely, so that a late report of this
worker never replaces the status of a newer owner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.traces import error_of
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.worker.worker_connector import NO_NOTES, ReportStatus
from spark_connect_rt.topics.status_records import ConnectorStatus, State
from spark_connect_rt.topics.status_store import StatusStore

log = logging.getLogger(__name__)

_SAFELY = frozenset({State.UNASSIGNED, State.FAILED})
_TRACE_LIMIT = 6_000  # characters that an event keeps


class StatusReports:
    """Hands out one reporter per connector and task."""

    def __init__(
        self,
        worker_id: str,
        store: StatusStore,
        clock: Clock,
        topic_tracking: bool,
        record_event: RecordEvent = no_event,
    ) -> None:
        self.generation = -1
        self._worker_id = worker_id
        self._store = store
        self._clock = clock
        self._topic_tracking = topic_tracking
        self._record_event = record_event
        self._last: dict[str | ConnectorTaskId, tuple[State, str | None]] = {}  # the last report and its trace

    def of_connector(self, name: str) -> ReportStatus:
        """Return the reporter of one connector; None as state removes its status and its topics."""

        def report(
            state: State | None,
            trace: str | None = None,
            version: str | None = None,
            notes: Mapping[str, Any] = NO_NOTES,
        ) -> None:
            self._note_change(name, state, trace)
            if state is None:
                self._quietly(lambda: self._store.remove_connector(name))
                self._quietly(lambda: self._store.reset_topics(name))
                return
            status = self._status(state, trace, version, notes)
            self._quietly(lambda: self._store.put_connector(name, status, safe=state in _SAFELY))

        return report

    def of_task(self, task: ConnectorTaskId, its_version: str | None = None) -> ReportStatus:
        """Return the reporter of one task; None as state removes its status.

        A task that reports no version has its connector's (``its_version``).
        """

        def report(
            state: State | None,
            trace: str | None = None,
            version: str | None = None,
            notes: Mapping[str, Any] = NO_NOTES,
        ) -> None:
            self._note_change(task, state, trace)
            if state is None:
                self._quietly(lambda: self._store.remove_task(task))
                return
            status = self._status(state, trace, version or its_version, notes)
            self._quietly(lambda: self._store.put_task(task, status, safe=state in _SAFELY))

        return report

    def restarting(self, connector: str, task: ConnectorTaskId | None) -> None:
        """Mark a connector, or one of its tasks, as RESTARTING under the version it had."""
        known = self._store.task(task) if task else self._store.connector(connector)
        report = self.of_task(task) if task else self.of_connector(connector)
        report(State.RESTARTING, version=known.version if known else None)

    def topic_used(self, task: ConnectorTaskId, topic: str) -> None:
        """Remember that a task used a topic (KIP-558)."""
        if self._topic_tracking:
            self._quietly(lambda: self._store.put_topic(task.connector, topic, task.task))

    def _note_change(self, item: str | ConnectorTaskId, state: State | None, trace: str | None) -> None:
        """Record a change in the event log. The same state with other notes is not a change."""
        if state is None:
            self._last.pop(item, None)
            return
        if self._last.get(item) == (state, trace):
            return
        self._last[item] = (state, trace)
        whose = {"connector": item} if isinstance(item, str) else {"connector": item.connector, "task": item.task}
        what = f"connector {item}" if isinstance(item, str) else f"task {item}"
        if state is State.FAILED or (state is State.RUNNING and trace):
            error = error_of(trace or "").splitlines()[0]
            said = f"{what} FAILED: {error}" if state is State.FAILED else f"{what} cannot make its tasks: {error}"
            self._record_event("failure", said, details=_traced(trace), **whose)  # type: ignore[arg-type]
        else:
            self._record_event("state", f"{what} is {state.value}", details={"state": state.value}, **whose)  # type: ignore[arg-type]

    def _status(
        self, state: State, trace: str | None, version: str | None, notes: Mapping[str, Any]
    ) -> ConnectorStatus:
        shown = None if trace is None else without_secrets(trace)
        return ConnectorStatus(state, self._worker_id, self.generation, shown, version, notes)

    def _quietly(self, write: Callable[[], None]) -> None:
        # A status that cannot be written must not take the connector or the engine's thread down.
        try:
            write()
        except ConnectError as error:
            log.warning("worker=%s a status cannot be written: %s", self._worker_id, error)


def _traced(trace: str | None) -> Mapping[str, Any]:
    """Return a trace's end, where the error is (of a Java trace its beginning)."""
    text = trace or ""
    return {"trace": text if len(text) <= _TRACE_LIMIT else f"{text[:1_000]}\n...\n{text[1_000 - _TRACE_LIMIT :]}"}
