"""The engine's state of runs and slots. Changed only on the engine's loop.

Owns the fields, and of a run's revocations which are unanswered; no other behaviour: engine.py has the life
of a run and what it has to release, slot_table.py the life of a slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.connectrt_config import ENGINE
from spark_connect_rt.engine.driver.slot_jobs import SliceHandle
from spark_connect_rt.engine.driver.slot_packing import Isolation, PackingLimits
from spark_connect_rt.engine.slot_losses import LossLimits, LossRecord
from spark_connect_rt.engine.task_runner import JavaCode, TaskLaunch
from spark_connect_rt.kafka.interfaces import GroupGeneration


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Numbers of the engine; worker settings ``connectrt.*`` override them."""

    slice_length_ms: int = ENGINE["connectrt.slice.length.ms"].default
    limits: PackingLimits = field(default_factory=PackingLimits)
    idle_linger_ms: int = 30_000  # an empty slot is kept this long for the next task
    calm_ms: int = 45_000  # then a task that was busy shares a slot again, a pair of processes less
    neighbour_grace_ms: int = 1_500  # to drain neighbours before a slot with a stuck task is killed
    losses: LossLimits = field(default_factory=LossLimits)
    apart_patience_ms: int = 20_000  # for a slot that one task has to itself; then it shares one that is up
    housekeeping_ms: int = 1_000
    slot_patience_ms: int = 60_000  # then the log says that Spark gives a slot no core
    waiting_patience_ms: int = ENGINE["connectrt.executor.wait.ms"].default  # then its tasks wait too long
    prewarm: bool = True  # open one slot before the first task asks


class Phase(Enum):
    """Where a run stands between its start and its end."""

    WAITING = "waiting"  # for a slot, or for a back-off to pass
    HOSTED = "hosted"
    MOVING = "moving"  # asked to drain; continues in another slot
    STOPPING = "stopping"  # asked to drain; ends


class Revocations:
    """Which revocations of one run still want their answer, oldest first.

    Counted, not a set: a partition may be lost, come back and be revoked again before the first answer is there, and
    that first answer says nothing about the second hosting of it.
    """

    def __init__(self) -> None:
        self._open: list[set[TopicPartition]] = []

    def add(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Remember one. The returned collection is empty as soon as all of it was answered."""
        unanswered = set(partitions)
        self._open.append(unanswered)
        return unanswered

    def answered(self, partitions: Collection[TopicPartition]) -> None:
        """Each partition was released once: that answers the oldest revocation that named it."""
        for partition in partitions:
            oldest = next((revocation for revocation in self._open if partition in revocation), None)
            if oldest is not None:
                oldest.discard(partition)
        self._open = [revocation for revocation in self._open if revocation]

    def unanswered(self) -> list[Sequence[TopicPartition]]:
        """Return what is open, a list for each revocation."""
        return [sorted(revocation) for revocation in self._open]


@dataclass(slots=True, eq=False)
class TaskRun:
    """One run of one task."""

    launch: TaskLaunch
    isolation: Isolation
    paused: bool
    phase: Phase = Phase.WAITING
    slot: Slot | None = None
    host: int | None = None
    hosted_at_ms: float = 0.0
    waits_since_ms: float | None = None  # for Spark to give its slot an executor
    reported_waiting: str = ""  # the news of it that the worker has; empty: none
    reported_paused: bool | None = None  # last state reported to the worker: None nothing yet
    failed: bool = False
    wants_commits: bool = False
    records: int = 0
    losses: LossRecord = field(default_factory=LossRecord)
    suspected: bool = False  # its process was lost twice lately: it is hosted apart until it is cleared
    lost: str = ""  # why this hosting is over although its slot is not: its host process next to the slot is gone
    lost_with: Sequence[ConnectorTaskId] = ()  # the tasks that shared that host process
    positions: dict[TopicPartition, int] = field(default_factory=dict)  # sinks: next offset per partition
    revocations: Revocations = field(default_factory=Revocations)  # not answered yet
    group_generation: GroupGeneration | None = None  # sinks: of the task's group member, as far as it is known
    target: Slot | None = None  # where a MOVING run goes; None: wherever there is room
    alone: bool = False  # moved out of a shared slot for being busy
    outings: int = 0  # how often it was
    calm_since_ms: float | None = None  # while it is alone
    shares_for: str = ""  # why it may share a slot again; empty once it does
    moved: deque[tuple[float, int, int]] = field(default_factory=deque)  # (time ms, bytes, records) lately

    @property
    def task(self) -> ConnectorTaskId:
        """Return the id of the run's task."""
        return self.launch.task

    def begin_at(self, offsets: Iterable[tuple[TopicPartition, int | None]]) -> None:
        """A run that is recovered or moved begins there; None: where it would anyway."""
        for partition, offset in offsets:
            if partition in self.positions and offset is not None:
                self.positions[partition] = offset


@dataclass(slots=True, eq=False)
class Slot:
    """One slice that runs, will run, or is on its way out."""

    number: int
    handle: SliceHandle
    opened_at_ms: float
    exclusive: bool = False
    connected: bool = False
    hosts: dict[int, TaskRun] = field(default_factory=dict)
    waiting: list[TaskRun] = field(default_factory=list)  # until it is connected
    idle_since_ms: float = 0.0
    successor: Slot | None = None  # it is retiring: its tasks go there
    overdue: set[int] = field(default_factory=set)  # hosts past their stop deadline
    killed_when_empty: bool = False  # condemned: only overdue hosts may be left, then it is killed
    starved: bool = False  # its wait for a core was logged
    ending: bool = False  # asked to end, or killed
    killed: bool = False
    lost_jvm: tuple[float, JavaCode | None, tuple[ConnectorTaskId, ...]] = (0.0, None, ())  # the last: when, of whom

    def takes_tasks(self) -> bool:
        """Return whether another task may be placed here."""
        return not (self.ending or self.killed_when_empty or self.successor is not None)

    def load(self) -> int:
        """Return how many tasks are here or on their way."""
        return len(self.hosts) + len(self.waiting)

    def runs(self) -> list[TaskRun]:
        """Return the runs that are here or on their way."""
        return [*self.hosts.values(), *self.waiting]

    def has_suspects(self) -> bool:
        """Return whether a run is here that may be the one that ends its process."""
        return any(run.suspected for run in self.runs())
