"""From an assignment to the work that this worker holds, and from the configuration to the work it wants to run.

Owns: adopting eager and incremental assignments, the rule that work starts only on the very config offset the leader
assigned from, which changes need a rebalance. Java ``WorkerCoordinator.onJoinComplete``,
``DistributedHerder.handleRebalanceCompleted``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.subprotocol import Assignment
from spark_connect_rt.group.work_plan import TargetWork
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import EMPTY, ClusterConfigState
from spark_connect_rt.topics.status_records import State


class Adoption(Enum):
    """The reaction to an assignment: adopt it, read further, or rejoin."""

    READ_CONFIG = "read the config topic up to the assignment's offset"
    REJOIN = "rejoin"
    START_WORK = "start work"


def held_after(held: ConnectorsAndTasks | None, assignment: Assignment, incremental: bool) -> ConnectorsAndTasks:
    """Return the work that this worker holds after the assignment; eager assignments replace everything."""
    given = ConnectorsAndTasks(assignment.connectors, assignment.tasks)
    if not incremental or held is None:
        return given
    revoked = ConnectorsAndTasks(assignment.revoked_connectors, assignment.revoked_tasks)
    return given | (held - revoked)


def allocation_of(held: ConnectorsAndTasks | None, last: Assignment | None) -> Assignment | None:
    """Return the work that the next JoinGroup reports; None when this worker holds no assignment."""
    if held is None or last is None:
        return None
    return replace(last, connectors=held.connectors, tasks=held.tasks, revoked_connectors=(), revoked_tasks=())


def adoption(assignment: Assignment, own_offset: int, is_leader: bool, read_already: bool) -> Adoption:
    """Decide about an assignment made at ``assignment.config_offset`` by a worker at ``own_offset``.

    A difference in EITHER direction means a worker decides on other facts than the leader did: rejoin.
    """
    behind = own_offset < assignment.config_offset
    if not read_already and (behind or (assignment.failed and is_leader)):
        return Adoption.READ_CONFIG
    if assignment.failed or own_offset != assignment.config_offset:
        return Adoption.REJOIN
    return Adoption.START_WORK


def configured_work(snapshot: ClusterConfigState) -> ConnectorsAndTasks:
    """Return everything the group must run."""
    names, counts = snapshot.connectors(), snapshot.task_counts
    with_tasks = [name for name in names if name in counts]
    return ConnectorsAndTasks(names, tuple(task for name in with_tasks for task in snapshot.tasks(name)))


def needs_rebalance(adopted: ClusterConfigState, current: ClusterConfigState) -> str | None:
    """Return why work must be assigned again since ``adopted``, None if it need not be.

    Changed task configurations need a rebalance even when their number is the same. Every worker stops its old tasks
    before it rejoins, so no new task reads records whose offsets an old one has not committed yet.
    """
    if adopted is current:
        return None
    if adopted.connector_configs.keys() != current.connector_configs.keys():
        return "connectors were created or deleted"
    if (
        adopted.generations != current.generations
        or adopted.task_counts != current.task_counts
        or adopted.inconsistent != current.inconsistent
    ):
        return "task configurations changed"
    return None


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often each connector (name) and task was restarted by request; part of the work's key."""

    counts: Mapping[str | ConnectorTaskId, int]

    def of(self, item: str | ConnectorTaskId) -> int:
        """Return the number of restarts so far."""
        return self.counts.get(item, 0)

    def plus(self, *items: str | ConnectorTaskId) -> Restarts:
        """Return the same with one more for each item."""
        return Restarts({**self.counts, **{item: self.of(item) + 1 for item in items}})


def wanted_connectors(
    held: ConnectorsAndTasks | None,
    snapshot: ClusterConfigState,
    restarts: Restarts,
    before: Mapping[str, TargetWork] = MappingProxyType({}),
) -> dict[str, TargetWork]:
    """Return the connectors that this worker ought to run; the mode is whether it is paused.

    ``before`` is the previous result: usually only one of thousands of connectors has changed.

    A connector whose configuration is written again is restarted, even with the same content. Users do so to restart a
    FAILED connector, and Java restarts it at each such record.
    """
    wanted = {}
    configs, offsets, targets = snapshot.connector_configs, snapshot.configured_at, snapshot.target_states
    for name in held.connectors if held else ():
        config = configs.get(name)
        if config is not None:
            target = targets.get(name)
            key = (config, offsets.get(name), target is TargetState.STOPPED, restarts.of(name))
            paused, known = target is TargetState.PAUSED, before.get(name)
            if known is None or known.mode is not paused or known.key != key:
                known = TargetWork(key, paused)
            wanted[name] = known
    return wanted


def wanted_tasks(
    held: ConnectorsAndTasks | None, snapshot: ClusterConfigState, restarts: Restarts, *, exactly_once: bool = False
) -> dict[ConnectorTaskId, TargetWork]:
    """Return the tasks that this worker ought to run; the mode is whether it is paused.

    Where sources are exactly-once, a task set that is committed again is restarted, even with the same content. Its
    fencing round fences the producers of the previous set, and no task of that set may start any more.
    """
    wanted = {}
    for task in held.tasks if held else ():
        if not is_configured(task, snapshot):
            continue
        config, applied = snapshot.task_config(task), applied_config(task.connector, snapshot)
        paused = snapshot.target_state(task.connector) is not TargetState.STARTED
        generation = snapshot.task_config_generation(task.connector) if exactly_once else None
        wanted[task] = TargetWork((config, applied, generation, restarts.of(task)), paused)
    return wanted


def applied_config(name: str, snapshot: ClusterConfigState) -> StoredConfig:
    """Return the connector configuration that the committed tasks were generated from."""
    return snapshot.applied_config(name) or snapshot.connector_config(name) or NO_SETTINGS


def is_configured(item: str | ConnectorTaskId, snapshot: ClusterConfigState) -> bool:
    """Return whether a connector or task is part of the configuration."""
    if isinstance(item, str):
        return snapshot.contains(item)
    return (
        snapshot.contains(item.connector)
        and item.connector not in snapshot.inconsistent
        and item.task < snapshot.task_count(item.connector)
    )


def status_after_stop(
    item: str | ConnectorTaskId, wanted: TargetWork | None, actual_key: object, snapshot: ClusterConfigState
) -> State | None:
    """Return the status to report after a stop. None: it is not configured any more, so remove its status.

    A connector that continues here in another form reports that form, so that its status never shows it without a
    worker. A task whose configuration changed may move. Its end must be visible before another worker runs it:
    UNASSIGNED, as in Java.
    """
    if wanted is None:
        return State.UNASSIGNED if is_configured(item, snapshot) else None
    if isinstance(item, str):
        return State.STOPPED if snapshot.target_state(item) is TargetState.STOPPED else State.RESTARTING
    restarted_only = isinstance(wanted.key, tuple) and isinstance(actual_key, tuple)
    if restarted_only and wanted.key[:-1] == actual_key[:-1]:  # type: ignore[index]
        return State.RESTARTING
    return State.UNASSIGNED


def sync_backoff_ms(attempt: int, incremental: bool, max_delay_ms: int, unsync_backoff_ms: int) -> int:
    """Return how long a worker that could not read the config topic stays out of the group.

    ``attempt`` counts from 0; incremental workers come back sooner: 6, 7.5, 10, 15, 30 s at the defaults.
    """
    if not incremental:
        return unsync_backoff_ms
    return max_delay_ms // 10 // max(1, 5 - attempt)


# When a change of the configuration leads to a rebalance: at once, or together with other changes.
#
# Pure. During a rebalance no request is served and nothing starts, and a rebalance covers everything that is
# configured. A script that creates one connector after another would wait for one rebalance each time. The first few
# changes are assigned at once. If changes are that frequent, later ones are collected and assigned together. The longer
# such a run lasts, the more are collected. Every worker goes by the same times after the same records, so members of a
# group rejoin at the same moment. Java rejoins for each change.


AT_ONCE, WITHIN_MS = 4, 3_000  # a connector's creation and its task set are two
QUIET_MS = 50  # no change for so long: a rebalance is due
QUIET_GAPS = 4  # ... or for so many times the pause before the last change, where changes come slowly
QUIET_MOST_MS = 250
MOST_MS = 500  # and that long after the first change at the latest
LONGER_MS, LONGEST_MS = 250, 2_000  # each time that comes in a row, it is later by so much


@dataclass(slots=True)
class ChangePace:
    """The pace at which one worker rejoins for changes that it sees. Times are monotonic, ms."""

    _dealt_ms: deque[int] = field(default_factory=lambda: deque(maxlen=AT_ONCE))
    _first_ms: int | None = None  # of the changes that wait
    _last_ms: int = 0
    _last: object = None
    _quiet_ms: int = QUIET_MS
    _most_ms: int = MOST_MS

    def due_ms(self, changed: object, now_ms: int) -> int:
        """Return when the changes that wait are due; ``changed`` is the last one, another object each time."""
        if self._last is not changed or self._first_ms is None:
            if self._first_ms is not None:  # else a rebalance was between the two
                self._quiet_ms = max(QUIET_MS, min(QUIET_GAPS * (now_ms - self._last_ms), QUIET_MOST_MS))
            self._last, self._last_ms = changed, now_ms
            self._first_ms = now_ms if self._first_ms is None else self._first_ms
        if self._most_ms == MOST_MS and (len(self._dealt_ms) < AT_ONCE or now_ms - self._dealt_ms[0] >= WITHIN_MS):
            return now_ms
        return min(self._last_ms + self._quiet_ms, self._first_ms + self._most_ms)

    def dealt(self, now_ms: int) -> None:
        """Note that a rebalance now assigns all waiting changes."""
        in_a_run = self._first_ms is not None and now_ms >= self._first_ms + self._most_ms
        self._most_ms = min(self._most_ms + LONGER_MS, LONGEST_MS) if in_a_run else MOST_MS
        self._dealt_ms.append(now_ms)
        self._first_ms = None

    def nothing_waits(self) -> None:
        """Note that a rebalance with another reason assigned all waiting changes."""
        self._first_ms = None


# The work that this worker ought to run, computed again only for the connectors that changed.
#
# Pure. The rules are those of group.rebalance_plan. A record of the config topic is about one of thousands of
# connectors, often about none that is held here. The mappings then stay the very same objects.


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WantedWork:
    """The work that ought to run, and the facts it was computed from. Mappings are never changed."""

    held: ConnectorsAndTasks | None = None
    snapshot: ClusterConfigState = EMPTY
    restarts: Restarts = field(default_factory=lambda: Restarts({}))
    connectors: Mapping[str, TargetWork] = field(default_factory=dict)
    tasks: Mapping[ConnectorTaskId, TargetWork] = field(default_factory=dict)
    held_tasks: Mapping[str, Sequence[ConnectorTaskId]] = field(default_factory=dict)  # by connector, held or not

    def now(
        self,
        held: ConnectorsAndTasks | None,
        snapshot: ClusterConfigState,
        restarts: Restarts,
        *,
        exactly_once: bool = False,
    ) -> WantedWork:
        """Return the work that ought to run by these facts; ``self`` is the previous result."""
        if held is not self.held or restarts is not self.restarts:
            return self._worked_out(held, snapshot, restarts, exactly_once)
        if snapshot is self.snapshot:
            return self
        changed = snapshot.changed_since(self.snapshot.offset)
        if changed is None:
            return self._worked_out(held, snapshot, restarts, exactly_once)
        mine = changed & self.held_tasks.keys()
        return self._patched(mine, snapshot, exactly_once) if mine else replace(self, snapshot=snapshot)

    def _worked_out(
        self, held: ConnectorsAndTasks | None, snapshot: ClusterConfigState, restarts: Restarts, exactly_once: bool
    ) -> WantedWork:
        by_connector = self.held_tasks if held is self.held else _by_connector(held)
        connectors = wanted_connectors(held, snapshot, restarts, self.connectors)
        tasks = wanted_tasks(held, snapshot, restarts, exactly_once=exactly_once)
        return WantedWork(held, snapshot, restarts, connectors, tasks, by_connector)

    def _patched(self, names: Collection[str], snapshot: ClusterConfigState, exactly_once: bool) -> WantedWork:
        connectors, tasks = dict(self.connectors), dict(self.tasks)
        held = frozenset(self.held.connectors) if self.held else frozenset[str]()
        for name in names:
            part = ConnectorsAndTasks((name,) if name in held else (), tuple(self.held_tasks[name]))
            _put(connectors, part.connectors, wanted_connectors(part, snapshot, self.restarts, self.connectors))
            _put(tasks, part.tasks, wanted_tasks(part, snapshot, self.restarts, exactly_once=exactly_once))
        return replace(
            self,
            snapshot=snapshot,
            connectors=self.connectors if connectors == self.connectors else connectors,
            tasks=self.tasks if tasks == self.tasks else tasks,
        )


def _put(wanted: dict[Item, TargetWork], items: Sequence[Item], now: Mapping[Item, TargetWork]) -> None:
    for item in items:
        if item in now:
            wanted[item] = now[item]
        else:
            wanted.pop(item, None)


def _by_connector(held: ConnectorsAndTasks | None) -> dict[str, list[ConnectorTaskId]]:
    found: dict[str, list[ConnectorTaskId]] = {name: [] for name in held.connectors} if held else {}
    for task in held.tasks if held else ():
        found.setdefault(task.connector, []).append(task)
    return found
