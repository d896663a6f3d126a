"""When a fencing round is needed, as Java's leader decides."""

from __future__ import annotations

import pytest

from spark_connect_rt.runtime.herder.requests.zombie_fencing import Need, fencing_plan
from spark_connect_rt.topics.config_state import ClusterConfigState


@pytest.mark.parametrize(
    ("pending", "record", "tasks", "need", "zombies"),
    [
        (False, 3, 5, Need.NOTHING, 0),  # fenced already
        (True, None, 5, Need.RECORD, 0),  # the first tasks ever
        (True, 1, 1, Need.RECORD, 0),  # the new task's producer shuts the old one out by itself
        (True, 1, 2, Need.FENCE, 1),
        (True, 2, 1, Need.FENCE, 2),
        (True, 4, 0, Need.FENCE, 4),  # stopped: before its offsets are altered
    ],
)
def test_fencing_plan_follows_task_counts(
    pending: bool, record: int | None, tasks: int, need: Need, zombies: int
) -> None:
    snapshot = ClusterConfigState(
        task_counts={"a": tasks},
        task_count_records={} if record is None else {"a": record},
        generations={"a": 7},
        pending_fencing=frozenset({"a"} if pending else {"b"}),
    )
    plan = fencing_plan(snapshot, "a")
    assert (plan.need, plan.zombies, plan.tasks, plan.generation) == (need, zombies, tasks, 7)
