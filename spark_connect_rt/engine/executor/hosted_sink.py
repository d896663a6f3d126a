"""What takes a sink task's batches: the seam between a lane and the task, wherever its code runs.

Owns the names of the calls. A lane (``sink_task.py``) decides what comes next: partitions, offsets, commit times,
revocations, reports. What is behind this seam converts, transforms and calls the task: ``python_sink.py`` in this
process, ``engine.java_host.sink_task`` in a JVM beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.sink_context import TaskContext
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.kafka.interfaces import GroupGeneration


class Outcome(Enum):
    """What became of a delivery."""

    TAKEN = auto()
    AGAIN = auto()  # the task asks for it again, from behind ``rows_taken``
    PART = auto()  # what is behind ``rows_taken`` is prepared again
    BY_RECORDS = auto()  # columns that the task leaves, or refused: convert them to records


@dataclass(frozen=True, slots=True)
class SinkParts:
    """What a lane hands to what takes its batches."""

    launch: TaskLaunch
    clients: ExecutorClients
    connector_config: Mapping[str, str]  # resolved, as the next
    worker_config: Mapping[str, str]
    context: TaskContext  # what the task asks for is gathered here
    meter: TaskMeter
    wait_ms: Callable[[int], bool]  # between attempts at one record; False: a revocation or the end waits
    must_not_wait: Callable[[], bool]  # a revocation or the end waits
    ending: Callable[[], bool]  # the end waits


class HostedSink(ABC):
    """One sink task with its converters and transformations.

    Every call but ``make_ready`` comes from the lane's thread. What a call raises fails the task, unless it says
    otherwise.
    """

    joins_partitions = False  # whether batches of several partitions may be joined for it
    acts_when_asked = False  # whether ``pre_commit`` has effects whose number matters, known once it is started

    def __init__(self, parts: SinkParts) -> None:
        """Take what the lane has; nothing is started. Raises BadConfigError: no such converter or transformation."""
        self.parts = parts

    @abstractmethod
    def start(self, reports: ErrantReports) -> None:
        """Make and start the task. ``reports``: where its errant records go."""

    @abstractmethod
    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are newly assigned."""

    def batches(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return a batch in consume form as it is to be delivered, maybe as several."""
        return [batch]

    @abstractmethod
    def prepare(self, batch: pa.RecordBatch, *, by_records: bool) -> Any | None:
        """Return what ``deliver`` takes for a batch; None: something could not wait, look at the batch again.

        ``by_records``: its last delivery was BY_RECORDS.
        """

    def most_records(self) -> int | None:
        """Return how many records of several reads are delivered at once; None: those of one read."""
        return None

    def make_ready(self, batch: pa.RecordBatch) -> Any | None:
        """Return what ``accept`` takes instead of ``prepare``, None: nothing. Reports and counts nothing.

        On a thread of its own, while ``deliver`` is called for the batch before.
        """
        return None

    def accept(self, ready: Any) -> Any | None:
        """Return what ``deliver`` takes for the batch that ``make_ready`` was given; None: ``prepare`` it."""
        return None

    def may_look_ahead(self, prepared: Any) -> bool:
        """Tell whether the next batch is likely to be accepted when this one is being delivered."""
        return False

    @abstractmethod
    def deliver(self, prepared: Any) -> Outcome:
        """Put what was prepared last, or go on with it after AGAIN."""

    @property
    def rows_taken(self) -> int:
        """How many first rows of a batch its last delivery put, though it was not TAKEN, also when it raised."""
        return 0

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """How many records were put by the last delivery that took rows, and how many were tolerated errant ones."""

    @abstractmethod
    def put_nothing(self) -> None:
        """Let the task look at its clock: an empty put. One that asks for it again gets it in time."""

    @abstractmethod
    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return which of these next offsets the task says are safe; what it raises fails nothing."""

    @abstractmethod
    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions go away; after their ``pre_commit``."""

    def note_generation(self, generation: GroupGeneration) -> None:
        """The task's group member has joined this generation. Any thread, also before ``start``."""

    def abandon(self) -> None:
        """End all of it at once, whatever call it is in: the slice is over. Any thread."""

    def take_reported(self) -> int:
        """Return how many records the task itself reported as errant since the last call."""
        return 0

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also one whose ``start`` failed, and close what ``start`` opened."""
