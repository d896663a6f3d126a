"""Steps about the group: hear what happened, answer joins, adopt assignments, follow the config topic.

Runs on the tick thread. Owns no work: it says what is held, ``reconciling`` starts and stops. Java
``WorkerCoordinator`` and the rebalance half of ``DistributedHerder``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.planning.rebalance_plan import (
    Adoption,
    adoption,
    allocation_of,
    held_after,
    needs_rebalance,
    sync_backoff_ms,
)
from spark_connect_rt.ports.group_member import (
    Assigned,
    AssignmentRequired,
    ContactLost,
    JoinRequired,
    MembershipEvent,
)
from spark_connect_rt.protocol.subprotocol import (
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    join_protocols,
)
from spark_connect_rt.runtime.herder.assigning import assign_work
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.story import Story
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.worker import Worker

log = logging.getLogger(__name__)

STOP_MARGIN_MS = 15_000  # beyond the graceful limit, until cancelled work is certainly dead


class Membership:
    """The steps ``hear``, ``catch up``, ``join``, ``adopt``."""

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker, story: Story) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._story = story
        self._heard: deque[MembershipEvent] = deque()

    def wait(self, limit_ms: int) -> None:
        """Wait for the group, a wakeup or the limit; what the group said is heard in the next tick."""
        with self._story.stage(f"polling the group coordinator for up to {limit_ms}ms or until interrupted"):
            self.put(self._deps.member.poll(limit_ms))

    def put(self, events: Sequence[MembershipEvent]) -> None:
        """Queue what the group said."""
        self._heard.extend(events)

    def hear(self, now_ms: int) -> Verdict:
        """Take in what the group said."""
        reasons = []
        while self._heard:
            event = self._heard.popleft()
            match event:
                case JoinRequired():
                    reasons.append(self._hear_join_required(event, now_ms))
                case AssignmentRequired():
                    reasons.append(self._hear_assignment_required(event, now_ms))
                case Assigned():
                    reasons.append(self._hear_assigned(event, now_ms))
                case ContactLost():
                    reasons.append(self._hear_contact_lost(event))
            self._state.publish()
        return Verdict("; ".join(reasons))

    def _hear_join_required(self, event: JoinRequired, now_ms: int) -> str:
        state = self._state
        if not state.protocol.is_incremental and state.held is not None:
            # Eager: nobody keeps anything across a rebalance.
            state.give_up_work()
        state.resolved = state.to_adopt = state.rejoin_asked = False
        state.rejoin_when_stopped = None
        state.member_id = ""
        state.owner_urls = {}
        state.join_reason = event.reason or "asked to"
        state.join_by_ms = now_ms + self._deps.settings.task_shutdown_graceful_timeout_ms + STOP_MARGIN_MS
        return f"rebalance: {state.join_reason}"

    def _hear_assignment_required(self, event: AssignmentRequired, now_ms: int) -> str:
        state, settings = self._state, self._deps.settings
        answer = assign_work(
            event,
            joined_with=state.joined_with,
            fresh=self._deps.config_store.snapshot(),
            memory=state.memory,
            last_completed_generation=state.last_completed_generation,
            now_ms=now_ms,
            max_delay_ms=settings.scheduled_rebalance_max_delay_ms,
        )
        state.memory, state.owner_urls = answer.memory, answer.owner_urls
        self._deps.member.sync(answer.blobs)
        return answer.sentence

    def _hear_assigned(self, event: Assigned, now_ms: int) -> str:
        state = self._state
        assignment = decode_assignment(event.assignment)
        state.protocol = ConnectProtocol.of_name(event.protocol)
        state.assignment = assignment
        state.generation = state.last_completed_generation = event.generation
        state.member_id = event.member_id
        self._worker.set_generation(event.generation)
        if not assignment.failed:
            state.held = held_after(state.held, assignment, state.protocol.is_incremental)
            state.rejoin_when_stopped = "revoked work has stopped" if assignment.revokes else None
        state.scheduled_rebalance_ms = now_ms + assignment.delay_ms if assignment.delay_ms > 0 else None
        state.to_adopt, state.resolved = True, False
        held = state.held
        return (
            f"generation {event.generation} ({event.protocol}): leader {assignment.leader_url}, "
            f"{len(held.connectors) if held else 0} connectors and {len(held.tasks) if held else 0} tasks here"
        )

    def _hear_contact_lost(self, event: ContactLost) -> str:
        # I2: the coordinator may have given our work away already; nothing of it may commit any more.
        self._worker.fence_all()
        self._state.give_up_work()
        self._state.member_id = ""
        self._state.rejoin_asked = False
        self._state.owner_urls = {}
        return f"contact lost, all work stops: {event.reason}"

    def catch_up(self, now_ms: int) -> Verdict:
        """After a failed read: stay out until the config topic can be read again."""
        state = self._state
        if state.can_read_config or state.stopping:
            return NOTHING
        if now_ms < state.read_again_ms:
            return Verdict("waits before it reads the config topic again", state.read_again_ms, stop=True)
        if not self._read_config(now_ms):
            return Verdict("the config topic cannot be read", state.read_again_ms, stop=True)
        return Verdict("caught up with the config topic")

    def _read_config(self, now_ms: int) -> bool:
        state, settings = self._state, self._deps.settings
        with self._story.stage("reading to the end of the config topic"):
            try:
                self._deps.config_store.refresh(settings.worker_sync_timeout_ms)
            except RetriableError as error:
                log.warning("worker=%s config topic not read: %s", settings.worker_id, error)
                self._read_failed(now_ms)
                return False
        state.can_read_config, state.read_failures = True, 0
        return True

    def _read_failed(self, now_ms: int) -> None:
        state, settings = self._state, self._deps.settings
        if state.read_failures >= 5:
            state.give_up_work()
            state.read_failures = 0
        backoff_ms = sync_backoff_ms(
            state.read_failures,
            state.protocol.is_incremental,
            settings.scheduled_rebalance_max_delay_ms,
            settings.worker_unsync_backoff_ms,
        )
        state.can_read_config = False
        state.read_failures += 1
        state.read_again_ms = now_ms + backoff_ms

    def join(self, now_ms: int) -> Verdict:
        """Answer the group's wish for a JoinGroup, once everything that must stop has stopped."""
        state = self._state
        stopping = self._worker.stopping()
        if state.stopping:
            return NOTHING
        if state.join_reason is None:
            return self._ask_rejoin(stopping, now_ms)
        if stopping and now_ms < state.join_by_ms:
            return Verdict(f"joins when {_named(stopping)} stopped", state.join_by_ms)
        snapshot = self._deps.config_store.snapshot()
        state.joined_with = snapshot
        metadata = WorkerMetadata(
            self._deps.settings.worker_url, snapshot.offset, allocation_of(state.held, state.assignment)
        )
        state.join_reason = None
        with self._story.stage("ensuring membership in the cluster"):
            self._deps.member.join(join_protocols(self._deps.settings.protocol, metadata))
        return Verdict(f"joins with config offset {snapshot.offset}")

    def _ask_rejoin(self, stopping: list[str], now_ms: int) -> Verdict:
        state = self._state
        if not state.member_id or state.rejoin_asked:
            return NOTHING
        if state.scheduled_rebalance_ms is not None and now_ms >= state.scheduled_rebalance_ms:
            state.scheduled_rebalance_ms = None
            return self._rejoin("the scheduled rebalance is due")
        if state.rejoin_when_stopped and not state.to_adopt:
            if stopping:
                return Verdict(f"rejoins when {_named(stopping)} stopped")
            return self._rejoin(state.rejoin_when_stopped)
        why = needs_rebalance(state.adopted, self._deps.config_store.snapshot()) if state.resolved else None
        if why:
            return self._rejoin(why)
        return Verdict(wake_at_ms=state.scheduled_rebalance_ms)

    def _rejoin(self, reason: str) -> Verdict:
        self._state.rejoin_asked = True
        self._state.rejoin_when_stopped = None
        self._deps.member.request_rejoin(reason)
        return Verdict(f"asks to rejoin: {reason}")

    def adopt(self, now_ms: int) -> Verdict:
        """Check the assignment's config offset against this worker's; equal: work may start."""
        state = self._state
        if not state.to_adopt or state.assignment is None or state.stopping:
            return NOTHING
        store, read_already = self._deps.config_store, False
        while True:
            snapshot = store.snapshot()
            decision = adoption(state.assignment, snapshot.offset, state.is_leader, read_already)
            if decision is not Adoption.READ_CONFIG:
                break
            read_already = True
            if not self._read_config(now_ms):
                return self._leave_unread()
        state.to_adopt = False
        if decision is Adoption.REJOIN:
            reason = f"config offset {snapshot.offset} here, {state.assignment.config_offset} assigned from"
            return self._rejoin(reason)
        state.resolved, state.adopted = True, snapshot
        state.publish()
        return Verdict(f"generation {state.generation} adopted", wake_at_ms=now_ms)

    def _leave_unread(self) -> Verdict:
        state = self._state
        state.to_adopt, state.member_id = False, ""
        self._deps.member.leave("taking too long to read the log")
        self._deps.member.request_rejoin("left to read the config topic")
        state.rejoin_asked = True
        state.publish()
        return Verdict("left the group: the config topic cannot be read", state.read_again_ms, stop=True)


def _named(items: list[str]) -> str:
    shown = ", ".join(items[:5])
    return f"{shown} have" if len(items) <= 5 else f"{shown} and {len(items) - 5} more have"
