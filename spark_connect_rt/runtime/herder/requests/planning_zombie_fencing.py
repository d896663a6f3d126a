"""Whether a connector's older producers must be shut out before its tasks start (KIP-618).

Java ``DistributedHerder.fenceZombieSourceTasks``. Pure: snapshot in, decision out. The leader
decides; who carries it out is runtime.herder.requests.zombie_fencing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.topics.config_state import ClusterConfigState


class Need(Enum):
    """What the leader does about one connector."""

    NOTHING = "nothing: all older producers are fenced"
    RECORD = "only write the number of tasks: there can be no zombie"
    FENCE = "fence the older producers, then write the number of tasks"


@dataclass(frozen=True, slots=True)
class FencingPlan:
    """One round for one connector."""

    need: Need
    zombies: int  # producers of tasks 0 to zombies-1 are shut out
    tasks: int  # what the record will say
    generation: int | None  # of the task configurations; another one when the round ends: it was for nothing


def fencing_plan(snapshot: ClusterConfigState, connector: str) -> FencingPlan:
    """Return what a round of a connector must do.

    A single task before and after needs no round: the new producer has the old one's transactional id.
    """
    record, tasks = snapshot.task_count_record(connector), snapshot.task_count(connector)
    generation = snapshot.task_config_generation(connector)
    if connector not in snapshot.pending_fencing:
        return FencingPlan(Need.NOTHING, 0, tasks, generation)
    if record is None or (record == 1 and tasks == 1):
        return FencingPlan(Need.RECORD, 0, tasks, generation)
    return FencingPlan(Need.FENCE, record, tasks, generation)
