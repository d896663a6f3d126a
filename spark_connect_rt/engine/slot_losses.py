"""Judges the tasks that were in a lost process: which go apart, how long each waits, which is guilty.

Pure. Only a task that was alone in its process can be judged, and only by time: a shortage of memory, descriptors or
disk, or a machine that is taken away, ends within minutes and no task causes it. The JVMs of a slot are judged alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_connect_rt.base.ids import ConnectorTaskId

NAMED_MAX = 10  # neighbours that a trace names; a slot may hold more


@dataclass(frozen=True, slots=True)
class LossLimits:
    """When losses part tasks, and when they fail one."""

    backoff_ms: int = 200  # before the task is hosted again; doubled with each loss in a row
    backoff_max_ms: int = 30_000
    apart_within_ms: int = 60_000  # the second loss within this time parts the tasks of a process
    apart_within_long_ms: int = 600_000  # so does the third within this: a leak kills slowly
    cleared_after_ms: int = 60_000  # a task hosted for so long starts counting from 0, and may share again
    guilty_after_ms: int = 300_000  # losses alone, in a row and without progress, over so long a time fail the task
    guilty_losses: int = 4  # and there were at least so many
    slow_losses: int = 10  # so many alone, without progress, fail a task that lives for minutes each time


@dataclass(frozen=True, slots=True)
class LossRecord:
    """The remembered losses of one task. Times are of the monotonic clock, ms."""

    lost_at_ms: tuple[float, ...] = ()  # within ``apart_within_long_ms``
    in_a_row: int = 0  # since it moved something, or was hosted for long
    alone: int = 0  # of these, in a row, the ones in which no other task was in the process
    alone_since_ms: float = 0.0
    slow: int = 0  # alone, since it moved something or was hosted for ``apart_within_long_ms``
    slow_since_ms: float = 0.0
    neighbours: tuple[ConnectorTaskId, ...] = ()  # the tasks in the process at the last loss that was shared

    def progressed(self) -> LossRecord:
        """Return the record of a task that has moved records since."""
        return self if not (self.in_a_row or self.slow) else replace(self, in_a_row=0, alone=0, slow=0)

    def calmed(self) -> LossRecord:
        """Return the record of a task that was hosted for a minute, but may have nothing done."""
        return self if not self.in_a_row else replace(self, in_a_row=0, alone=0)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The consequences for a task whose process was lost."""

    record: LossRecord
    delay_ms: int = 0  # until it is hosted again
    apart: bool = False  # it is to have a process for itself, as far as there is room
    guilty: bool = False  # it fails


def judge_loss(
    record: LossRecord,
    now_ms: float,
    hosted_ms: float,
    neighbours: Sequence[ConnectorTaskId],
    limits: LossLimits,
) -> Judgement:
    """Return what becomes of a task whose process was lost ``now_ms``.

    A task without work is not a task without progress. It is guilty if its process ends repeatedly while nothing else
    is in it, for ``guilty_after_ms``. One that lives for more than a minute each time is failed by the count alone,
    which only progress or a long life resets.

    Args:
        record: the losses so far.
        now_ms: the monotonic clock.
        hosted_ms: how long the process had hosted the task.
        neighbours: the other tasks that the process hosted.
        limits: the limits.
    """
    if hosted_ms > limits.apart_within_long_ms:
        record = record.progressed()
    elif hosted_ms > limits.cleared_after_ms:
        record = record.calmed()
    lost_at_ms = (*(at for at in record.lost_at_ms if now_ms - at < limits.apart_within_long_ms), now_ms)
    in_a_row = record.in_a_row + 1
    alone = 0 if neighbours else record.alone + 1
    alone_since_ms = now_ms if alone == 1 else record.alone_since_ms
    slow = record.slow if neighbours else record.slow + 1
    slow_since_ms = now_ms if slow == 1 and not neighbours else record.slow_since_ms
    seen = tuple(neighbours) or record.neighbours
    record = LossRecord(lost_at_ms, in_a_row, alone, alone_since_ms, slow, slow_since_ms, seen)
    lately = sum(now_ms - at < limits.apart_within_ms for at in lost_at_ms)
    return Judgement(
        record,
        delay_ms=min(limits.backoff_max_ms, int(limits.backoff_ms * 2 ** min(in_a_row - 1, 30))),
        apart=lately >= 2 or len(lost_at_ms) >= 3,
        guilty=(alone >= limits.guilty_losses and now_ms - alone_since_ms >= limits.guilty_after_ms)
        or (not neighbours and slow >= limits.slow_losses and now_ms - slow_since_ms >= limits.guilty_after_ms),
    )


def is_of_the_cluster(error: str) -> bool:
    """Return whether Spark says that a machine or executor went away, and no task is to blame."""
    return "exited unrelated to the running tasks" in error or "decommission" in error.lower()


def is_cleared(record: LossRecord, hosted_ms: float, limits: LossLimits) -> bool:
    """Return whether a task that was hosted apart for ``hosted_ms`` may share again; more losses lately take longer."""
    return hosted_ms > limits.cleared_after_ms * max(1, len(record.lost_at_ms) - 1)


def verdict_text(task: ConnectorTaskId, what: str, record: LossRecord, now_ms: float, error: str) -> str:
    """Return the trace of a task that was found guilty of ending its process: the loss, its count, the other tasks.

    ``what`` names the process (``slot 4``), ``error`` says how the last one ended.
    """
    count, since_ms = max((record.alone, record.alone_since_ms), (record.slow, record.slow_since_ms))
    seconds = round((now_ms - since_ms) / 1000)
    text = (
        f"task {task} ends its process: {what} was lost, the {count}. time in a row in {seconds} s while no "
        f"other task was in it and without progress; last: {error}"
    )
    if record.neighbours:
        text += (
            f". Earlier it shared a process with {named(record.neighbours)}; they were hosted apart and are not failed"
        )
    return text


def named(tasks: Sequence[ConnectorTaskId]) -> str:
    """Return the tasks' names as a list for a message, the first of many."""
    names = ", ".join(str(task) for task in tasks[:NAMED_MAX])
    return names if len(tasks) <= NAMED_MAX else f"{names} and {len(tasks) - NAMED_MAX} more"


def opening_delay_ms(failures: int) -> int:
    """Return how long to wait before the next slot is opened, ms, after ``failures`` in a row: at most 60 s."""
    return min(60_000, int(200 * 2 ** min(failures - 1, 30)))
