"""Which slot a task runs in, and which task should leave its slot.

Pure. A slot is one Spark job with a reader and a writer process (docs/explanation/engine.md). Sharing one costs 3 MB a
task instead of 70; a busy task in a shared slot costs its neighbours time, so it gets its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.connectrt_config import ENGINE


class Isolation(Enum):
    """Which tasks may share a process: the connector setting ``connectrt.isolation``."""

    PROCESS = "process"  # its own slot, always
    THREAD = "thread"  # shares, whatever it does
    AUTO = "auto"  # shares until it is busy

    @staticmethod
    def parse(text: str) -> Isolation:
        """Return the isolation named ``text``; anything unknown is AUTO (validation is the config's)."""
        return next((isolation for isolation in Isolation if isolation.value == text.strip().lower()), Isolation.AUTO)


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """One slot that takes tasks."""

    slot: int
    tasks: int
    exclusive: bool = False  # made for one task
    suspects: bool = False  # holds tasks that may be the one that ends their process


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """The recent load of one task."""

    task: ConnectorTaskId
    slot: int
    isolation: Isolation
    bytes_per_s: float
    records_per_s: float


@dataclass(frozen=True, slots=True)
class PackingLimits:
    """How far to share, and how many slots there may be."""

    tasks_per_slot: int = ENGINE["connectrt.slot.tasks.max"].default
    slots_max: int = ENGINE["connectrt.slots.max"].default
    shared_slots: int | None = None  # so many serve tasks that share; more would wait for the same cores. None: any
    busy_bytes_per_s: float = 2 * 1024 * 1024
    busy_records_per_s: float = 20_000
    apart_slots: int = 8  # so many are used to find out which task ends its process: each costs memory
    calm_share: float = 0.25  # of what makes a task busy: one that moves less may share again


def choose_slot(
    slots: Sequence[SlotFacts],
    isolation: Isolation,
    limits: PackingLimits,
    slots_open: int | None = None,
    *,
    crowds: bool = True,
) -> int | None:
    """Return the slot for one more task, None to open a new one.

    A process-isolated task takes an empty slot or a new one; others fill the fullest slot with room, so that few
    slots idle. Where ``shared_slots`` are full, one that ``crowds`` shares the emptiest of them: a further pair of
    processes costs as much memory as dozens of tasks, and has no separate core. When ``slots_max`` slots are open
    already, any task shares the emptiest: late beats never.

    Args:
        slots: the slots that take tasks.
        isolation: of the task.
        limits: the packing limits.
        slots_open: slots open in all, those that take no task included; default ``len(slots)``.
        crowds: whether the task may make a shared slot fuller than ``tasks_per_slot``.
    """
    empty = [slot.slot for slot in slots if slot.tasks == 0]
    open_to_all = [slot for slot in slots if not (slot.exclusive or slot.suspects)]
    if isolation is Isolation.PROCESS:
        fitting = empty
    else:
        shared = [facts for facts in open_to_all if 0 < facts.tasks < limits.tasks_per_slot]
        fitting = [facts.slot for facts in sorted(shared, key=lambda facts: (-facts.tasks, facts.slot))] + empty
    if fitting:
        return fitting[0]
    sharing = [] if isolation is Isolation.PROCESS or not crowds else open_to_all
    if limits.shared_slots is not None and len(sharing) >= limits.shared_slots:
        return min(sharing, key=lambda facts: (facts.tasks, facts.slot)).slot
    if slots and (len(slots) if slots_open is None else slots_open) >= limits.slots_max:
        return min(slots, key=lambda slot: (slot.suspects, slot.tasks, slot.slot)).slot
    return None


def choose_apart(slots: Sequence[SlotFacts], limits: PackingLimits, slots_open: int) -> int | None:
    """Return the slot for a task that may be the one that ends its process, None to open a new one.

    An empty or a new slot, while few are used so; then the emptiest of those: which of several tasks it is shows in
    rounds. Never one of a task that is above suspicion, unless there is no other.
    """
    apart = [slot for slot in slots if slot.suspects]
    if len(apart) < limits.apart_slots:
        empty = next((slot.slot for slot in slots if slot.tasks == 0), None)
        if empty is not None or slots_open < limits.slots_max:
            return empty
    among = apart or slots
    return min(among, key=lambda facts: (facts.tasks, facts.slot)).slot if among else None


def tasks_to_move(loads: Sequence[TaskLoad], limits: PackingLimits, slots_open: int) -> tuple[ConnectorTaskId, ...]:
    """Return the busy tasks that should get their own slot: at most one per slot and call, busiest first.

    A task alone in its slot stays, as do THREAD tasks; nothing moves when no further slot may be opened.
    """
    room = limits.slots_max - slots_open
    moving: list[ConnectorTaskId] = []
    for slot in sorted({load.slot for load in loads}):
        sharing = [load for load in loads if load.slot == slot]
        busy = [load for load in sharing if load.isolation is Isolation.AUTO and _is_busy(load, limits)]
        if len(sharing) > 1 and busy and len(moving) < room:
            moving.append(max(busy, key=lambda load: (load.bytes_per_s, load.task)).task)
    return tuple(moving)


def is_calm(load: TaskLoad, limits: PackingLimits) -> bool:
    """Return whether a task that has its own slot for being busy moves so little that it might share one."""
    return not _is_busy(load, limits, limits.calm_share)


def _is_busy(load: TaskLoad, limits: PackingLimits, share: float = 1.0) -> bool:
    much, many = limits.busy_bytes_per_s * share, limits.busy_records_per_s * share
    return load.bytes_per_s >= much or load.records_per_s >= many
