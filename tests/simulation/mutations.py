"""Guards taken out of the product, one at a time: what the simulation must notice, and as which invariant."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.ports.task_runner import BatchDurable
from spark_connect_rt.runtime.herder.event_inbox import EventInbox
from spark_connect_rt.runtime.herder.membership import Membership
from spark_connect_rt.runtime.herder.publishing import Publishing
from spark_connect_rt.runtime.worker.worker import Worker
from spark_connect_rt.runtime.worker.worker_task import WorkerTask
from spark_connect_rt.state.config_fold import ConfigFold
from spark_connect_rt.state.membership import Timing
from spark_connect_rt.stores.config_store import ConfigStore
from spark_connect_rt.stores.offset_store import OffsetStore
from spark_connect_rt.testing import simulated_users
from spark_connect_rt.testing.simulated_cluster import memory_source
from spark_connect_rt.testing.simulated_engine import ExecutorSide
from spark_connect_rt.testing.simulated_faults import FAULTS
from spark_connect_rt.testing.simulated_group import SimulatedMember
from spark_connect_rt.testing.simulated_schedule import TROUBLE_MS

LONG = (20_000, 30_000)
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """One guard taken out."""

    what: str
    invariant: str
    remove: Callable[[Patch], None]
    faults: tuple[str, ...] = FAULTS
    trouble_ms: tuple[int, int] = TROUBLE_MS
    seeds: int = 300


def work_lasts_as_long_as_the_session(patch: Patch) -> None:
    patch.setattr(Timing, "lease_ms", property(lambda timing: timing.session_ms))
    executors_live_on_without_contact(patch)  # E5 would cover for it


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


def failed_offsets_outlive_their_task(patch: Patch) -> None:
    patch.setattr(WorkerTask, "_may_commit", lambda task: True)
    put = OffsetStore.put

    def impatient(store: OffsetStore, *put_of: Any, until_durable: bool = False) -> None:
        put(store, *put_of)

    patch.setattr(OffsetStore, "put", impatient)  # a run that waits for its last offsets (I5) would cover for it,
    patch.setattr("spark_connect_rt.stores.offset_store.RETRY_WAIT_MS", 15_000)  # and so would a prompt next try


def unsent_offsets_outlive_the_contact(patch: Patch) -> None:
    patch.setattr(OffsetStore, "give_up", lambda store: None)
    failed_offsets_outlive_their_task(patch)  # it would cover for it: who lost the contact has no task any more


def a_run_ends_before_its_offsets_are_durable(patch: Patch) -> None:
    finish = WorkerTask._finish_if_over

    def hasty(task: WorkerTask) -> None:
        task._offsets_under_way, under_way = 0, task._offsets_under_way
        finish(task)
        task._offsets_under_way = under_way

    patch.setattr(WorkerTask, "_finish_if_over", hasty)


def new_task_configurations_need_no_rebalance(patch: Patch) -> None:
    patch.setattr("spark_connect_rt.runtime.herder.membership.needs_rebalance", lambda adopted, current: None)


def handing_in_is_not_tried_again(patch: Patch) -> None:
    patch.setattr(Publishing, "_again", lambda self, name, pending, error, now_ms: None)


def task_sets_that_a_compaction_loses_are_left(patch: Patch) -> None:
    patch.setattr(ConfigFold, "_overtake", lambda fold, name: None)
    # Only a connector that is configured again as it was loses its set so: let the users do that often.
    patch.setattr(simulated_users, "memory_source", lambda tasks, records: memory_source(tasks, records="5"))


def a_half_done_stop_is_left(patch: Patch) -> None:
    patch.setattr(EventInbox, "_left_without_tasks", lambda changes, name: "")


def lost_contact_is_not_acted_upon(patch: Patch) -> None:
    patch.setattr(Membership, "_on_contact_lost", lambda self, event: "")
    executors_live_on_without_contact(patch)  # E5 would cover for it: nobody pings until the work was fenced


def batches_are_reported_before_they_are_acknowledged(patch: Patch) -> None:
    durable = ExecutorSide._batch_durable

    def early(side: ExecutorSide, first: int, last: int) -> None:
        offsets = ((side._partition, {"position": last + 1}),)
        run, launch = side._run, side.launch
        batch = BatchDurable(side.task, launch.run, launch.generation, 1, 1, source_offsets=offsets)
        side._report(lambda: run.hear(batch))
        durable(side, first, last)

    patch.setattr(ExecutorSide, "_batch_durable", early)


def killed_batches_are_reported(patch: Patch) -> None:
    die = ExecutorSide._die_killed

    def boast(side: ExecutorSide) -> None:
        offsets = ((side._partition, {"position": max(0, side._position) + 5}),)
        run, launch = side._run, side.launch
        batch = BatchDurable(side.task, launch.run, launch.generation, 1, 1, source_offsets=offsets)
        side._report(lambda: run.hear(batch))
        die(side)

    patch.setattr(ExecutorSide, "_die_killed", boast)


def failed_writes_answer_success(patch: Patch) -> None:
    def write(store: ConfigStore, changes: Any, deadline: Any) -> None:
        store._log.append(changes, lambda error: None)
        with contextlib.suppress(ConnectError):
            store._log.read_to_end(deadline.remaining_ms())

    patch.setattr(ConfigStore, "_write", write)


def executors_live_on_without_contact(patch: Patch) -> None:
    patch.setattr(SimulatedMember, "may_vouch", lambda member: True)


MUTATIONS = (
    Mutation(
        "work lasts as long as the session", "S1", work_lasts_as_long_as_the_session, ("coordinator unreachable",)
    ),
    Mutation("rejoin before revoked work has stopped", "S1", rejoin_before_revoked_work_stopped),
    Mutation(
        "fenced runs are disbelieved, but not ended",
        "S1",
        fenced_runs_are_only_disbelieved,
        ("coordinator unreachable", "slow batch"),
    ),
    Mutation("lost contact is not acted upon", "S1", lost_contact_is_not_acted_upon),
    Mutation("executors live on without contact", "S1", executors_live_on_without_contact, ("partition", "freeze")),
    Mutation("offsets are written without contact", "S2", offsets_are_written_without_contact, ("freeze",)),
    Mutation("unsent offsets outlive the contact", "S2", unsent_offsets_outlive_the_contact, ("freeze", "partition")),
    Mutation(
        "failed offsets outlive their task", "S2", failed_offsets_outlive_their_task, ("refused append", "new worker")
    ),
    Mutation(
        "a run ends before its offsets are durable",
        "S2",
        a_run_ends_before_its_offsets_are_durable,
        ("slow topics", "new worker"),
    ),
    Mutation("new task configurations need no rebalance", "S3", new_task_configurations_need_no_rebalance),
    Mutation("handing in task configurations is not tried again", "S3", handing_in_is_not_tried_again),
    Mutation(
        "task sets that a compaction loses are left",
        "S3",
        task_sets_that_a_compaction_loses_are_left,
        ("compaction", "leader crash"),
        LONG,
    ),
    Mutation("a half-done stop is left", "S3", a_half_done_stop_is_left, ("refused append",)),
    Mutation(
        "batches are reported before they are acknowledged", "S4", batches_are_reported_before_they_are_acknowledged
    ),
    Mutation("killed batches are reported", "S4", killed_batches_are_reported, ("slow batch", "new worker")),
    Mutation("failed writes answer success", "S5", failed_writes_answer_success, ("refused append",)),
)
