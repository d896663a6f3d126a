"""What the statuses say of every connector, kept as rows are made of it, and made again only where something changed.

Owns the last error of each connector, which outlives the state it led to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.operations.overview.verdict import InstanceFacts, any_loud, last_line
from spark_connect_rt.runtime.herder.api import HerderViews
from spark_connect_rt.runtime.values import ConnectorStateInfo, InstanceState, RestartNote


@dataclass(frozen=True, slots=True, eq=False)
class LastError:
    """What went wrong last, and when; 0: unknown."""

    line: str
    at_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class KnownState:
    """One connector by its statuses and configuration."""

    mark: object
    name: str
    type: str
    class_name: str
    state: str
    worker_id: str
    tasks: Mapping[str, int]
    instances: tuple[InstanceFacts, ...]  # the connector, then its tasks
    workers: frozenset[str]  # that its statuses name
    restart: RestartNote | None
    stalled: str | None
    last_error: LastError | None
    loud: bool  # time alone may change what is said of it


class KnownStates:
    """Every connector's state. Not thread-safe."""

    def __init__(self, views: HerderViews) -> None:
        self._views = views
        self._mark: object = None
        self._known: dict[str, KnownState] = {}

    def refreshed(self, now_ms: int) -> Mapping[str, KnownState]:
        """Return every connector; of one that is as it was, the same object. The same mapping while nothing changed."""
        mark = self._views.states_mark()  # first: what changes meanwhile is seen the next time
        if mark == self._mark:
            return self._known
        found: dict[str, KnownState] = {}
        for name in self._views.list_connectors():
            try:
                found[name] = self._one(name, self._known.get(name), now_ms)
            except NotFoundError:
                continue  # deleted since the list was taken
        self._known, self._mark = found, mark
        return found

    def _one(self, name: str, before: KnownState | None, now_ms: int) -> KnownState:
        mark = self._views.connector_mark(name)
        if before is not None and before.mark == mark:
            return before
        status = self._views.connector_status(name)
        instances = self._facts(status, before, now_ms)
        notes = [instance.restart for instance in (status.connector, *status.tasks) if instance.restart is not None]
        return KnownState(
            mark,
            name,
            status.type,
            self._views.connector_config(name).written().get("connector.class", ""),
            status.connector.state,
            status.connector.worker_id,
            dict(sorted(Counter(task.state for task in status.tasks).items())),
            instances,
            frozenset(instance.worker_id for instance in instances if instance.worker_id),
            next((note for note in notes if note.stopped), notes[0] if notes else None),
            next((f"task {instance.task}: {instance.stalled}" for instance in instances if instance.stalled), None),
            _last_error(instances, before),
            any_loud(instances),
        )

    def _facts(self, status: ConnectorStateInfo, before: KnownState | None, now_ms: int) -> tuple[InstanceFacts, ...]:
        connector, tasks = status.connector, status.tasks
        loud = any(_is_loud(instance) for instance in (connector, *tasks))
        times = self._views.status_times(status.name) if loud else {}
        earlier = {instance.task: instance for instance in before.instances} if before else {}

        def facts(task: int | None, instance_state: InstanceState) -> InstanceFacts:
            known, written_ms = earlier.get(task), times.get(task) or 0
            same = known is not None and known.state == instance_state.state
            seen_ms = known.since_ms if known is not None and same and known.since_ms else now_ms
            return InstanceFacts(
                task,
                instance_state.state,
                instance_state.worker_id,
                last_line(instance_state.trace),
                _since_ms(instance_state.state, written_ms, seen_ms),
                instance_state.restart.next_attempt_ms if instance_state.restart else None,
                (instance_state.restart.stopped or "") if instance_state.restart else "",
                instance_state.progress.reason if instance_state.progress else "",
            )

        return (facts(None, connector), *(facts(task.id, task) for task in tasks))


def _since_ms(state: str, written_ms: int, seen_ms: int) -> int:
    """Return since when an instance is in its state; 0: that is of no interest.

    A failure counts from its last status: it may have been restarted, and failed again. Of the others a status that
    says the same once more is no new state.
    """
    if state == "FAILED":
        return written_ms or seen_ms
    return min(written_ms or seen_ms, seen_ms) if state in ("UNASSIGNED", "RESTARTING") else 0


def _is_loud(instance: InstanceState) -> bool:
    return instance.state in ("FAILED", "UNASSIGNED", "RESTARTING")


def _last_error(instances: tuple[InstanceFacts, ...], before: KnownState | None) -> LastError | None:
    """Return the error of what FAILED last, else the one that was there before."""
    failed = [instance for instance in instances if instance.state == "FAILED" and instance.error]
    if not failed:
        return before.last_error if before else None
    newest = max(failed, key=lambda instance: instance.since_ms)
    words = newest.error if newest.task is None else f"task {newest.task}: {newest.error}"
    return LastError(words, newest.since_ms)
