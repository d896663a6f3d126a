"""Guards removed from the product, one at a time, and the invariant whose violation the simulation must notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import Phase, Slot, TaskRun
from spark_connect_rt.engine.driver.slot_jobs import SliceGone
from spark_connect_rt.engine.driver.slot_table import SlotTable
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder.requests.connector_requests import ConnectorRequests
from spark_connect_rt.runtime.herder.steps.event_inbox import EventInbox
from spark_connect_rt.runtime.herder.steps.membership import Membership
from spark_connect_rt.runtime.herder.steps.publishing import PublishTaskConfigs
from spark_connect_rt.runtime.worker.worker import Worker
from spark_connect_rt.runtime.worker.worker_task import WorkerTask
from spark_connect_rt.topics.config_state import ConfigFold
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from tests.support.simulation import simulated_users
from tests.support.simulation.simulated_cluster import memory_source
from tests.support.simulation.simulated_faults import FAULTS, Faults
from tests.support.simulation.simulated_group import SimulatedMember
from tests.support.simulation.simulated_schedule import TROUBLE_MS
from tests.support.simulation.simulated_slices import HostedTask, SimulatedSlice

LONG = (20_000, 30_000)
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """One guard that is removed from the product."""

    what: str
    invariant: str
    remove: Callable[[Patch], None]
    faults: tuple[str, ...] = FAULTS
    trouble_ms: tuple[int, int] = TROUBLE_MS
    seeds: int = 300
    shown_by: int = 0  # the seed that is tried first: its schedule showed it when this was written


def work_lasts_as_long_as_the_session(patch: Patch) -> None:
    patch.setattr(Timing, "lease_ms", property(lambda timing: timing.session_ms))
    executors_live_on_without_contact(patch)  # E5 would cover for it
    patch.setattr(SimulatedSlice, "abort", _abort_slowly)


def _abort_slowly(slice_: SimulatedSlice) -> None:
    """Take the whole time that the lease leaves for killing."""
    if not slice_.cut_off:
        slice_.cut_off = True
        slice_.scheduler.later(slice_.times.kill_ms, lambda: slice_._end("killed"))


def rejoin_before_revoked_work_stopped(patch: Patch) -> None:
    patch.setattr(Worker, "stopping", lambda worker: [])


def fenced_runs_are_only_disbelieved(patch: Patch) -> None:
    def fence(task: WorkerTask) -> None:
        task._fenced = True

    patch.setattr(WorkerTask, "fence", fence)
    executors_live_on_without_contact(patch)  # E5 would cover for it


def offsets_are_written_without_contact(patch: Patch) -> None:
    init = OffsetStore.__init__

    def unguarded(store: OffsetStore, log: Any, threads: Any, may_write: Any) -> None:
        init(store, log, threads)

    patch.setattr(OffsetStore, "__init__", unguarded)


def _only_of(patch: Patch, log: int) -> None:
    """Let every refused append be one of this log of the worker (0 configs, 2 offsets): others show nothing here."""

    def refuse(faults: Faults) -> bool:
        victim = faults._victim()
        if victim is not None:
            victim.logs[log].refuse_next = True
        return victim is not None

    patch.setattr(Faults, "_refuse_append", refuse)


def failed_offsets_outlive_their_task(patch: Patch) -> None:
    _only_of(patch, 2)
    patch.setattr(WorkerTask, "_may_commit", lambda task: True)
    put = OffsetStore.put

    def impatient(store: OffsetStore, *put_of: Any, until_durable: bool = False) -> None:
        put(store, *put_of)

    patch.setattr(OffsetStore, "put", impatient)  # a run that waits for its last offsets (I5) would cover for it,
    patch.setattr("spark_connect_rt.topics.offset_store.RETRY_WAIT_MS", 15_000)  # and so would a prompt next try


def unsent_offsets_outlive_the_contact(patch: Patch) -> None:
    patch.setattr(OffsetStore, "give_up", lambda store: None)
    # it would hide the missing guard: after a lost contact no worker has the task any more
    failed_offsets_outlive_their_task(patch)


def a_run_ends_before_its_offsets_are_durable(patch: Patch) -> None:
    finish = WorkerTask._finish_if_over

    def hasty(task: WorkerTask) -> None:
        task._offsets_under_way, under_way = 0, task._offsets_under_way
        finish(task)
        task._offsets_under_way = under_way

    patch.setattr(WorkerTask, "_finish_if_over", hasty)


def new_task_configurations_need_no_rebalance(patch: Patch) -> None:
    patch.setattr("spark_connect_rt.runtime.herder.steps.membership.needs_rebalance", lambda adopted, current: None)


def handing_in_is_not_tried_again(patch: Patch) -> None:
    patch.setattr(PublishTaskConfigs, "_again", lambda self, name, pending, error, now_ms: None)


def task_sets_that_a_compaction_loses_are_left(patch: Patch) -> None:
    patch.setattr(ConfigFold, "_overtake", lambda fold, name: None)
    # Only a connector that is configured again as it was loses its set so: let the users do that often, and the leader
    # write it as one of Java's does.
    patch.setattr(ConnectorRequests, "_unchanged", lambda self, name, config: None)
    patch.setattr(simulated_users, "memory_source", lambda tasks, records: memory_source(tasks, records="5"))


def a_half_done_stop_is_left(patch: Patch) -> None:
    _only_of(patch, 0)
    patch.setattr(EventInbox, "_left_without_tasks", lambda changes, name: "")


def lost_contact_is_not_acted_upon(patch: Patch) -> None:
    patch.setattr(Membership, "_on_contact_lost", lambda self, event: "")
    # E5 would hide the missing guard: without a lease no ping is sent until the work was fenced
    executors_live_on_without_contact(patch)


def batches_are_reported_before_they_are_acknowledged(patch: Patch) -> None:
    report = HostedTask._report_durable
    patch.setattr(HostedTask, "_report_durable", lambda task, last: report(task, last + 1))


def killed_batches_are_reported(patch: Patch) -> None:
    die = HostedTask.die_torn

    def boast(task: HostedTask) -> None:
        task._place.cut_off = False
        task._report_durable(max(0, task._position) + 5)
        die(task)

    patch.setattr(HostedTask, "die_torn", boast)


def a_killed_slot_is_taken_for_dead(patch: Patch) -> None:
    kill = SlotTable._kill

    def hasty(slots: SlotTable, slot: Slot) -> None:
        kill(slots, slot)
        assert isinstance(slot.handle, SimulatedSlice)
        slot.handle.launcher.on_event(SliceGone(slot.number, "killed"))

    patch.setattr(SlotTable, "_kill", hasty)


def moved_runs_are_not_drained(patch: Patch) -> None:
    def hasty(engine: Engine, run: TaskRun, target: Slot | None, within_ms: float | None = None) -> None:
        if run.phase is Phase.HOSTED:
            engine._send(run, {"op": "stop"})
            engine._slots.leave(run)
            run.target = target
            engine._place_again(run)

    patch.setattr(Engine, "_move", hasty)


def lost_runs_are_left(patch: Patch) -> None:
    patch.setattr(Engine, "_recover", lambda engine, run, what, error, neighbours: None)


def failed_writes_answer_success(patch: Patch) -> None:
    def write(store: ConfigStore, changes: Any, deadline: Any) -> None:
        store._log.append(changes, lambda error: None)
        with contextlib.suppress(ConnectError):
            store._log.read_to_end(deadline.remaining_ms())

    patch.setattr(ConfigStore, "_write", write)


def executors_live_on_without_contact(patch: Patch) -> None:
    patch.setattr(SimulatedMember, "holds_lease", lambda member: True)


MUTATIONS = (
    Mutation(
        "work lasts as long as the session",
        "S1",
        work_lasts_as_long_as_the_session,
        ("coordinator unreachable",),
        shown_by=97,
    ),
    Mutation("rejoin before revoked work has stopped", "S1", rejoin_before_revoked_work_stopped, shown_by=55),
    Mutation(
        "fenced runs are disbelieved, but not ended",
        "S1",
        fenced_runs_are_only_disbelieved,
        ("coordinator unreachable", "slow batch"),
        shown_by=25,
    ),
    Mutation("lost contact is not acted upon", "S1", lost_contact_is_not_acted_upon, shown_by=84),
    Mutation(
        "a killed slot is taken for dead",
        "S1",
        a_killed_slot_is_taken_for_dead,
        ("slow batch", "orderly stop"),
        shown_by=1,
    ),
    Mutation("moved runs are not drained", "S1", moved_runs_are_not_drained, shown_by=11),
    Mutation(
        "executors live on without contact",
        "S1",
        executors_live_on_without_contact,
        ("partition", "freeze", "slow batch"),
        LONG,
        800,  # one schedule of a hundred shows it
        shown_by=372,
    ),
    Mutation(
        "offsets are written without contact", "S2", offsets_are_written_without_contact, ("freeze",), shown_by=17
    ),
    Mutation(
        "unsent offsets outlive the contact",
        "S2",
        unsent_offsets_outlive_the_contact,
        ("freeze", "partition"),
        shown_by=57,
    ),
    Mutation(
        "failed offsets outlive their task",
        "S2",
        failed_offsets_outlive_their_task,
        ("refused append", "new worker", "orderly stop"),
        LONG,
        shown_by=25,
    ),
    Mutation(
        "a run ends before its offsets are durable",
        "S2",
        a_run_ends_before_its_offsets_are_durable,
        ("slow topics", "new worker", "orderly stop"),
        LONG,
        shown_by=2,
    ),
    Mutation("new task configurations need no rebalance", "S3", new_task_configurations_need_no_rebalance, shown_by=1),
    Mutation("handing in task configurations is not tried again", "S3", handing_in_is_not_tried_again, shown_by=120),
    Mutation(
        "task sets that a compaction loses are left",
        "S3",
        task_sets_that_a_compaction_loses_are_left,
        ("compaction", "leader crash"),
        LONG,
        shown_by=98,
    ),
    Mutation("lost runs are left", "S3", lost_runs_are_left, ("executors lost",)),
    Mutation("a half-done stop is left", "S3", a_half_done_stop_is_left, ("refused append",), shown_by=7),
    Mutation(
        "batches are reported before they are acknowledged", "S4", batches_are_reported_before_they_are_acknowledged
    ),
    Mutation(
        "killed batches are reported", "S4", killed_batches_are_reported, ("slow batch", "new worker"), shown_by=1
    ),
    Mutation("failed writes answer success", "S5", failed_writes_answer_success, ("refused append",), shown_by=1),
)
