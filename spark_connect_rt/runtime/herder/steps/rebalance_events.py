"""Records each rebalance, as this worker saw it, for the group's event log (``/admin/events``).

Owns the times and what was held before. Decides nothing; group.rebalance_facts has the texts. Tick thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.rebalance_facts import (
    Item,
    Members,
    OwnView,
    details_of,
    items_of,
    members_of,
    sentence,
    worker_of,
)
from spark_connect_rt.group.subprotocol import WorkerMetadata
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.topics.status_records import ConnectorStatus, State

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _UnderWay:
    """The rebalance that is not over yet."""

    began_ms: int
    before: ConnectorsAndTasks | None
    reasons: list[str] = field(default_factory=list)
    rounds: int = 0
    led: tuple[int, Members] | None = None  # generation, who was in it


class RebalanceRecorder:
    """Given each turn of a rebalance by the steps that take it; says it all once the assignment is adopted."""

    def __init__(self, deps: HerderDependencies, state: GroupState) -> None:
        self._deps = deps
        self._state = state
        self._under_way: _UnderWay | None = None
        self._members: Mapping[str, str] | None = None  # worker id -> member id of the last round led here

    def began(self, reason: str, now_ms: int) -> None:
        """Take note of a round, before anything is given up for it."""
        if self._under_way is None:
            self._under_way = _UnderWay(now_ms, self._state.held)
        self._under_way.rounds += 1
        self._under_way.reasons.append(reason)

    def contact_lost(self, reason: str, now_ms: int) -> None:
        """Take note that all work stops because the group is out of reach; back in it, a rebalance will have ended."""
        self._deps.record_event("worker", f"contact to the group lost, all work stops: {reason}")
        self._members = None
        self.began(reason, now_ms)

    def led(self, generation: int, members: Mapping[str, WorkerMetadata], *, incremental: bool) -> None:
        """Take note of who is in a round that this worker leads."""
        if self._under_way is None or not members:
            return
        now = {worker_of(its.url): member for member, its in members.items()}
        fresh = [worker_of(its.url) for its in members.values() if its.allocation is None] if incremental else None
        with_work = self._seen_with_work() if self._members is None else ()
        self._under_way.led = (generation, members_of(now, self._members, with_work, fresh))
        self._members = now

    def followed(self) -> None:
        """Take note that another worker led the round, so the known metadata of the members is outdated."""
        self._members = None

    def adopted(self, now_ms: int) -> None:
        """The assignment is adopted: the rebalance is over for this worker."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        try:
            details = details_of(self._view(under_way, now_ms))
            key = f"rebalance-{details['generation']}-{_short(self._state)}"
            self._deps.record_event("rebalance", sentence(details), details=details, key=key)
        except Exception:  # the work continues, even if its event cannot be written
            log.exception("worker=%s a rebalance cannot be described", self._deps.settings.worker_id)

    def _view(self, under_way: _UnderWay, now_ms: int) -> OwnView:
        state, assignment = self._state, self._state.assignment
        came = (state.held or ConnectorsAndTasks()) - (under_way.before or ConnectorsAndTasks())
        owners: dict[Item, str] = {}
        for item in items_of(came):
            status = self._status(item)
            if status is not None:
                owners[item] = status.worker_id
        return OwnView(
            worker_id=self._deps.settings.worker_id,
            generation=state.generation,
            protocol=state.protocol.name,
            leader=worker_of(assignment.leader_url) if assignment else "",
            reasons=under_way.reasons,
            rounds=under_way.rounds,
            took_ms=now_ms - under_way.began_ms,
            before=under_way.before,
            after=state.held,
            owners=owners,
            members=under_way.led[1] if under_way.led is not None and under_way.led[0] == state.generation else None,
        )

    def _status(self, item: Item) -> ConnectorStatus | None:
        store = self._deps.status_store
        return store.connector(item) if isinstance(item, str) else store.task(item)

    def _seen_with_work(self) -> set[str]:
        """Return the workers that reported connectors and tasks whose last report is theirs."""
        store = self._deps.status_store
        found: set[str] = set()
        for name in store.connectors():
            statuses = [store.connector(name), *store.tasks(name).values()]
            found.update(
                status.worker_id for status in statuses if status is not None and status.state is not State.UNASSIGNED
            )
        return found


def _short(state: GroupState) -> str:
    """Return a text that differs between groups of one name that both count generations from the start."""
    return (state.assignment.leader_id if state.assignment else "")[-8:]
