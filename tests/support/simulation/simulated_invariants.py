"""Invariants of a simulated cluster, checked against the ground truth at the moment it changes.

Owns ``GroundTruth``: which task instances live, which records are in Kafka, what was written to the offset topic. It
never asks a herder. Invariants (docs/contributing/code_and_tests.md):

- S1: no task lives twice
- S2: no committed offset goes back or passes a record that was not acknowledged (S4: so none is lost)
- S3 and S5 are checked when faults have stopped
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.topics.offset_records import decode_key, decode_value


class InvariantViolation(AssertionError):
    """``invariant`` (S1 ... S5) does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


@dataclass(frozen=True, slots=True)
class LiveTask:
    """A task whose code runs somewhere."""

    task: ConnectorTaskId
    worker: str  # whose executors it runs on
    generation: int  # when it was started


class GroundTruth:
    """The true state of the cluster, which no process in it can know."""

    def __init__(self) -> None:
        self.alive: dict[ConnectorTaskId, list[LiveTask]] = defaultdict(list)
        self.acknowledged: dict[str, int] = defaultdict(int)  # source partition -> every record below is in Kafka
        self.committed: dict[str, int] = {}  # source partition -> last offset in the offset topic
        self.history: list[tuple[str, str, str]] = []  # (starts | ends | generation, worker, task or number)
        self.batches = 0
        self.commits = 0
        self.starts = 0

    def began(self, task: LiveTask) -> None:
        """S1: no task is active on two workers, nor twice on one."""
        others = self.alive[task.task]
        if others:
            where = ", ".join(f"{other.worker} (generation {other.generation})" for other in others)
            raise InvariantViolation(
                "S1",
                f"{task.task} starts on {task.worker} (generation {task.generation}), lives on {where}",
            )
        others.append(task)
        self.history.append(("starts", task.worker, str(task.task)))
        self.starts += 1

    def ended(self, task: LiveTask) -> None:
        """Note that a task's instance has ended."""
        self.alive[task.task].remove(task)
        self.history.append(("ends", task.worker, str(task.task)))

    def wrote(self, task: ConnectorTaskId, first: int, last: int) -> None:
        """Records ``first`` to ``last - 1`` of a task's source partition are in Kafka, acknowledged."""
        partition = str(task)
        self.batches += 1
        if first <= self.acknowledged[partition]:
            self.acknowledged[partition] = max(self.acknowledged[partition], last)

    def offsets_written(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """S2, S4: each committed offset is at least the last one, and every record before it is in Kafka."""
        for key, value in records:
            offset = decode_value(value)
            fields = decode_key(key)[1]
            if offset is None or fields is None:
                continue
            partition, position = str(fields["task"]), int(offset["position"])
            self.commits += 1
            before = self.committed.get(partition, 0)
            if position < before:
                raise InvariantViolation("S2", f"offset of {partition} goes back from {before} to {position}")
            if position > self.acknowledged[partition]:
                raise InvariantViolation(
                    "S4",
                    f"offset {position} of {partition} is committed, but only records below "
                    f"{self.acknowledged[partition]} are in Kafka",
                )
            self.committed[partition] = position
