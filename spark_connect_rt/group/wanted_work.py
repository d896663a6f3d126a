"""What this worker ought to run, worked out again only for what changed.

Pure; owns no rule of its own: these are group.rebalance_plan's. Of thousands of connectors a record of the config
topic is about one, often about none that is held here, and then the mappings stay the very same objects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.rebalance_plan import Restarts, wanted_connectors, wanted_tasks
from spark_connect_rt.group.work_plan import Wanted
from spark_connect_rt.topics.config_state import EMPTY, ClusterConfigState

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WantedWork:
    """What ought to run, and the facts it was worked out from. Mappings are never changed."""

    held: ConnectorsAndTasks | None = None
    snapshot: ClusterConfigState = EMPTY
    restarts: Restarts = field(default_factory=lambda: Restarts({}))
    connectors: Mapping[str, Wanted] = field(default_factory=dict)
    tasks: Mapping[ConnectorTaskId, Wanted] = field(default_factory=dict)
    held_tasks: Mapping[str, Sequence[ConnectorTaskId]] = field(default_factory=dict)  # by connector, held or not

    def now(
        self,
        held: ConnectorsAndTasks | None,
        snapshot: ClusterConfigState,
        restarts: Restarts,
        *,
        exactly_once: bool = False,
    ) -> WantedWork:
        """Return what ought to run by these facts; ``self`` is what ought to run until now."""
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


def _put(wanted: dict[Item, Wanted], items: Sequence[Item], now: Mapping[Item, Wanted]) -> None:
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
