"""Steps about the group: read its events, answer joins, ask for rebalances.

Runs on the tick thread. Owns no work: it says what is held, ``reconciling`` starts and stops. Java
``WorkerCoordinator`` and the rebalance half of ``DistributedHerder``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.group.compact.form import CompactAssignment, decode_compact, is_compact
from spark_connect_rt.group.compact.reported_work import ClaimRules, compact_offers
from spark_connect_rt.group.member import Assigned, AssignmentRequired, ContactLost, JoinRequired, MembershipEvent
from spark_connect_rt.group.rebalance_plan import ChangePace, allocation_of, held_after, needs_rebalance
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    is_own_group,
    join_protocols,
)
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.event_log import EventLog
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.runtime.herder.steps.assigning import assign_work
from spark_connect_rt.runtime.herder.steps.rebalance_events import RebalanceRecorder
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.worker import Worker

log = logging.getLogger(__name__)

UNREADABLE_BACKOFF_MS = 5_000  # before the group is asked again
WRITE_PATIENCE_MS = 1_000  # a rebalance waits so long for a write that is in progress
STOP_MARGIN_MS = 15_000  # beyond the graceful limit, until cancelled work is certainly dead


class Membership:
    """The steps ``read group events`` and ``keep membership``."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        worker: Worker,
        events: EventLog,
        story: RebalanceRecorder,
        calls: TopicCalls,
    ) -> None:
        self._deps = deps
        self._calls = calls
        self._story = story
        self._state = state
        self._worker = worker
        self._events = events
        self._received: deque[MembershipEvent] = deque()
        self._pace = ChangePace()

    def wait(self, limit_ms: int) -> None:
        """Wait for the group, a wakeup or the limit; the group's events are read in the next tick."""
        with self._events.stage(f"polling the group coordinator for up to {limit_ms}ms or until interrupted"):
            self.put(self._poll(limit_ms))

    def _poll(self, limit_ms: int) -> Sequence[MembershipEvent]:
        try:
            return self._deps.member.poll(limit_ms)
        except Exception as error:  # noqa: BLE001 - any error ends the membership
            part = SupervisedPart.REFUSED if isinstance(error, BadConfigError) else SupervisedPart.GROUP
            self._deps.supervisor.failed(part, error)
            return ()

    def put(self, events: Sequence[MembershipEvent]) -> None:
        """Queue events of the group for the next tick."""
        self._received.extend(events)

    def read_events(self, now_ms: int) -> Verdict:
        """Update the group state from the events received, in their order."""
        reasons = []
        while self._received:
            event = self._received.popleft()
            match event:
                case JoinRequired():
                    reasons.append(self._on_join_required(event, now_ms))
                case AssignmentRequired():
                    reasons.append(self._on_assignment_required(event, now_ms))
                case Assigned():
                    reasons.append(self._on_assigned(event, now_ms))
                case ContactLost():
                    reasons.append(self._on_contact_lost(event, now_ms))
            self._state.publish()
        return Verdict("; ".join(reasons))

    def _on_join_required(self, event: JoinRequired, now_ms: int) -> str:
        state = self._state
        self._story.began(event.reason, now_ms)
        if not state.protocol.is_incremental and state.held is not None:
            # Eager: no member keeps anything across a rebalance.
            state.give_up_work()
        state.resolved = state.to_adopt = state.rejoin_asked = False
        state.rejoin_when_stopped = state.rejoin_because = None
        state.member_id = ""
        state.owner_urls = {}
        state.join_reason = event.reason or "asked to"
        state.join_by_ms = now_ms + self._deps.settings.task_shutdown_graceful_timeout_ms + STOP_MARGIN_MS
        return f"rebalance: {state.join_reason}"

    def _on_assignment_required(self, event: AssignmentRequired, now_ms: int) -> str:
        state, settings = self._state, self._deps.settings
        placement = settings.worker.placement
        swaps = state.swaps if placement.by_load(is_own_group(event.protocol)) else ()
        answer = assign_work(
            event,
            joined_with=state.joined_with,
            fresh=self._deps.config_store.snapshot(),
            memory=state.memory,
            last_completed_generation=state.last_completed_generation,
            now_ms=now_ms,
            max_delay_ms=settings.scheduled_rebalance_max_delay_ms,
            lost_delay_ms=settings.lost_work_delay_ms,
            was_incremental=state.protocol.is_incremental,
            known=state.known,
            record_limit_bytes=placement.connectrt_group_record_max_bytes,
            swaps=swaps,
            bound_for=state.bound_for,
        )
        if swaps and not answer.again:
            state.bound_for = {swap.hot: swap.taker for swap in swaps} | {swap.cold: swap.giver for swap in swaps}
        if not answer.again:
            state.swaps = ()  # carried out, or not wanted in a group like this one
        state.memory, state.owner_urls, state.known = answer.memory, answer.owner_urls, answer.known
        state.rejoin_because = answer.again
        state.member_urls = answer.member_urls
        incremental = ConnectProtocol.of_name(event.protocol).is_incremental
        self._story.led(event.generation, answer.members, incremental=incremental)
        self._deps.member.sync(answer.blobs)
        return answer.sentence

    def _on_assigned(self, event: Assigned, now_ms: int) -> str:
        state = self._state
        was_incremental = state.protocol.is_incremental
        state.protocol = ConnectProtocol.of_name(event.protocol)
        state.own_group = is_own_group(event.protocol)
        state.generation = state.last_completed_generation = event.generation
        state.member_id = event.member_id
        self._worker.set_generation(event.generation)
        if event.leader_id != event.member_id:
            self._story.followed()
        try:
            assignment, received = self._decoded(event)
        except DataError as error:
            # Held work continues and is claimed again; Java's worker process ends by this.
            state.assignment = replace(state.assignment, leader_id=event.leader_id) if state.assignment else None
            state.to_adopt = state.resolved = False
            state.claim_rules = ClaimRules()
            state.scheduled_rebalance_ms = now_ms + UNREADABLE_BACKOFF_MS
            return f"generation {event.generation}: {event.leader_id} sent an assignment that cannot be read: {error}"
        state.assignment = assignment
        if not assignment.failed:
            state.held = held_after(state.held, assignment, state.protocol.is_incremental)
            state.rejoin_when_stopped = "revoked work has stopped" if assignment.revokes else None
            if was_incremental and not state.protocol.is_incremental and event.leader_id == event.member_id:
                state.rejoin_when_stopped = "the group fell back to the eager protocol and has stopped its work"
        state.claim_rules = state.claim_rules.after(received, state.held)
        # Else all members would rejoin at once and find the same leader as ignorant, as fast as a group can turn.
        state.read_first = assignment.failed and state.is_leader
        state.scheduled_rebalance_ms = now_ms + assignment.delay_ms if assignment.delay_ms > 0 else None
        state.to_adopt, state.resolved = True, False
        held = state.held
        return (
            f"generation {event.generation} ({event.protocol}): leader {assignment.leader_url}, "
            f"{len(held.connectors) if held else 0} connectors and {len(held.tasks) if held else 0} tasks here"
        )

    def _decoded(self, event: Assigned) -> tuple[Assignment, CompactAssignment | None]:
        if not is_compact(event.protocol):
            return decode_assignment(event.assignment), None
        state = self._state
        known_url = state.claim_rules.url_of(event.leader_id)
        received = decode_compact(event.assignment, state.joined_with.offset, event.leader_id, known_url)
        return received.assignment, received

    def _on_contact_lost(self, event: ContactLost, now_ms: int) -> str:
        # I2: the coordinator may have given our work away already; nothing of it may commit any more.
        self._worker.fence_all()
        self._deps.member.fenced()
        self._story.contact_lost(event.reason, now_ms)
        self._state.give_up_work()
        self._state.member_id = ""
        self._state.rejoin_asked = self._state.read_first = False
        self._state.owner_urls = {}
        return f"contact lost, all work stops: {event.reason}"

    def join(self, now_ms: int) -> Verdict:
        """Answer the group's wish for a JoinGroup, once everything that must stop has stopped."""
        state = self._state
        if state.stopping:
            return NOTHING
        if state.join_reason is None:
            return self._ask_rejoin(now_ms)
        if state.read_first:
            return Verdict("joins when the config topic is read")
        stopping = self._worker.stopping()
        if stopping and now_ms < state.join_by_ms:
            return Verdict(f"joins when {_named(stopping)} stopped", state.join_by_ms)
        if stopping and state.held is not None and state.protocol.is_incremental:
            # I1: work that did not end stays ours in the metadata, so no other worker gets it. It is revoked again.
            state.held = state.held | self._worker.unfinished()
        snapshot = self._deps.config_store.snapshot()
        state.joined_with = snapshot
        metadata = WorkerMetadata(
            self._deps.settings.worker_url, snapshot.offset, allocation_of(state.held, state.assignment)
        )
        state.join_reason = None
        with self._events.stage("ensuring membership in the cluster"):
            protocol = self._deps.settings.protocol
            compact = compact_offers(protocol, metadata, state.claim_rules)
            self._deps.member.join(compact + join_protocols(protocol, metadata))
        return Verdict(f"joins with config offset {snapshot.offset}")

    def _ask_rejoin(self, now_ms: int) -> Verdict:
        state = self._state
        if not state.member_id or state.rejoin_asked:
            return NOTHING
        if state.rejoin_because:
            return self.rejoin(state.rejoin_because)
        if state.scheduled_rebalance_ms is not None and now_ms >= state.scheduled_rebalance_ms:
            state.scheduled_rebalance_ms = None
            return self.rejoin("the scheduled rebalance is due")
        if state.rejoin_when_stopped and not state.to_adopt:
            if stopping := self._worker.stopping():
                return Verdict(f"rejoins when {_named(stopping)} stopped")
            return self.rejoin(state.rejoin_when_stopped)
        snapshot = self._deps.config_store.snapshot()
        why = needs_rebalance(state.adopted, snapshot) if state.resolved else None
        if why is None:
            self._pace.nothing_waits()
            return Verdict(wake_at_ms=state.scheduled_rebalance_ms)
        return self._deal_out(why, self._pace.due_ms(snapshot, now_ms), now_ms)

    def _deal_out(self, why: str, due_ms: int, now_ms: int) -> Verdict:
        if now_ms < due_ms:
            return Verdict(f"will ask to rejoin, with what else changes in a moment: {why}", due_ms)
        if self._calls.busy and now_ms < due_ms + WRITE_PATIENCE_MS:
            # A read in the middle of a rebalance makes the rebalance worthless (I6): another one would follow.
            return Verdict(f"will ask to rejoin when a write has ended: {why}", due_ms + WRITE_PATIENCE_MS)
        self._pace.dealt(now_ms)
        return self.rejoin(why)

    def rejoin(self, reason: str) -> Verdict:
        """Ask the group for a rebalance; ``reason`` goes to its coordinator."""
        self._state.rejoin_asked = True
        self._state.rejoin_when_stopped = self._state.rejoin_because = None
        self._deps.member.request_rejoin(reason)
        return Verdict(f"asks to rejoin: {reason}")


def _named(items: list[str]) -> str:
    shown = ", ".join(items[:5])
    return f"{shown} have" if len(items) <= 5 else f"{shown} and {len(items) - 5} more have"
