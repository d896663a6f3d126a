"""Steps between an assignment and its work: read the config topic far enough, then adopt, rejoin or leave.

Java ``DistributedHerder.handleRebalanceCompleted``, ``readConfigToEnd`` and ``backoff``. The reading itself happens
on another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from spark_connect_rt.group.rebalance_plan import Adoption, adoption, sync_backoff_ms
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.runtime.herder.steps.rebalance_events import RebalanceRecorder
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.worker import Worker

log = logging.getLogger(__name__)

READS_BEFORE_GIVING_UP_WORK = 5
OWN_READ_BACKOFF_MS = 1_000


class AdoptAssignment:
    """The steps ``catch up on config`` and ``adopt assignment``."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        worker: Worker,
        calls: TopicCalls,
        rejoin: Callable[[str], Verdict],
        story: RebalanceRecorder,
    ) -> None:
        self._deps = deps
        self._story = story
        self._state = state
        self._calls = calls
        self._rejoin = rejoin
        self._worker = worker
        self._reading = False
        self._read_for = -1  # the generation whose assignment asked for the last read that went well
        self._leaving = False  # once everything has stopped

    def catch_up(self, now_ms: int) -> Verdict:
        """After a failed read: stay out until the config topic can be read again."""
        state = self._state
        if state.stopping:
            return NOTHING
        if state.can_read_config:
            return self._read_first()
        if self._leaving:
            stopping = self._worker.stopping()
            if stopping:
                return Verdict(f"leaves the group when {len(stopping)} connectors and tasks have stopped", stop=True)
            self._leave()
        if now_ms < state.read_again_ms:
            return Verdict("waits before it reads the config topic again", state.read_again_ms, stop=True)
        self._begin_read()
        return Verdict("reads the config topic again", stop=True)

    def _read_first(self) -> Verdict:
        if not self._state.read_first:
            return NOTHING
        self._begin_read()
        return Verdict("reads the config topic: it led and knew less than a member")

    def adopt(self, now_ms: int) -> Verdict:
        """Check the assignment's config offset against this worker's; equal: work may start."""
        state = self._state
        if not state.to_adopt or state.assignment is None or state.stopping:
            return NOTHING
        if self._reading:
            return Verdict("reads the config topic before it adopts the assignment")
        if now_ms < state.read_again_ms:
            return Verdict("will read the config topic before it adopts the assignment", state.read_again_ms)
        snapshot = self._deps.config_store.snapshot()
        read_already = self._read_for == state.generation
        decision = adoption(state.assignment, snapshot.offset, state.is_leader, read_already)
        if decision is Adoption.READ_CONFIG:
            self._begin_read()
            return Verdict("reads the config topic before it adopts the assignment")
        state.to_adopt = False
        if decision is Adoption.REJOIN:
            return self._rejoin(f"config offset {snapshot.offset} here, {state.assignment.config_offset} assigned from")
        state.resolved, state.adopted = True, snapshot
        state.publish()
        self._story.adopted(now_ms)
        return Verdict(f"generation {state.generation} adopted", wake_at_ms=now_ms)

    def _begin_read(self) -> None:
        if self._reading or self._calls.busy:
            return  # the call in progress comes first; its end wakes the tick
        self._reading = True
        store, limit_ms, asked_by = (
            self._deps.config_store,
            self._deps.settings.worker_sync_timeout_ms,
            self._state.generation,
        )

        def done(error: Exception | None, now_ms: int) -> None:
            self._reading = False
            if error is not None:
                self._read_failed(error, now_ms)
                return
            self._read_for = asked_by
            self._state.can_read_config, self._state.read_failures = True, 0
            self._state.read_first = False

        self._calls.begin("reading to the end of the config topic", lambda: store.refresh(limit_ms), done)

    def _read_failed(self, error: Exception, now_ms: int) -> None:
        state, settings = self._state, self._deps.settings
        log.warning("worker=%s the config topic cannot be read: %s", settings.worker_id, error)
        last_try = state.read_failures >= READS_BEFORE_GIVING_UP_WORK
        state.read_failures += 1
        if state.own_group and state.member_id and not state.read_first and not last_try:
            # The group does not wait for a member that is behind: it keeps its place and its work, and reads again.
            state.read_again_ms = now_ms + OWN_READ_BACKOFF_MS
            return
        if last_try:
            state.give_up_work()
            state.read_failures = 1
        backoff_ms = sync_backoff_ms(
            state.read_failures - 1,
            state.protocol.is_incremental,
            settings.scheduled_rebalance_max_delay_ms,
            settings.worker_unsync_backoff_ms,
        )
        state.can_read_config = False
        state.read_again_ms = now_ms + backoff_ms
        in_group = bool(state.member_id) or state.read_first
        state.read_first = False
        if in_group and not state.stopping:
            self._begin_leaving()

    def _begin_leaving(self) -> None:
        state = self._state
        state.to_adopt = state.resolved = False
        self._leaving = True
        if state.own_group:
            # I1: lost work is not waited for in such a group, so nothing may run here when this worker is out.
            state.give_up_work()
        else:
            self._leave()  # as Java: its work waits for it, and continues here meanwhile

    def _leave(self) -> None:
        state = self._state
        self._leaving, state.member_id = False, ""
        self._deps.member.leave("taking too long to read the log")
        self._deps.member.request_rejoin("left to read the config topic")
        state.rejoin_asked = True
        state.publish()
