"""What polls a source task: the seam between its host and the task, wherever its code runs.

Owns the names of the calls. A host (``source_host.py``) decides what comes next: claims, pauses, stops, ends of
transactions. What is behind this seam polls, transforms, converts and calls the task's hooks: ``python_source.py`` in
this process, ``engine.java_host.source_task`` in a JVM beside it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import TopicCreation
from spark_connect_rt.engine.executor.hosting import Switches
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.kafka.executor_clients import DeliveryReports, ExecutorClients
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

Durable = tuple[int, Sequence[Delivered], Iterable[RecordMetadata | None]]
"""(BATCH rows, where they went, where each of their records went)"""


class LookUpEndedError(TimedOutError):
    """The task is to stop, and what it waited for is of no use any more."""


class DriverLink(Protocol):
    """What a host may say to the driver."""

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition; waits for the driver's answer.

        Raises LookUpEndedError: the task is to stop. TimedOutError: they cannot be read.
        """

    def wants_commits(self, host: int) -> None:
        """Have ``HostedSource.durable`` called for each durable batch."""


class SourceOutput(Protocol):
    """Where a task's batches go. The host's thread."""

    def send(self, converted: ConvertedBatch) -> None:
        """Queue a batch as one BATCH row; waits while too much is queued.

        Raises ConnectError (it is for the task's own offsets topic), ShuttingDownError.
        """

    def end(self, end: End) -> None:
        """Say what happens behind the batches so far."""

    def take_durable(self) -> Sequence[Durable]:
        """Return what became durable and was not taken yet."""


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a host hands to what polls its task."""

    host: int
    launch: TaskLaunch
    clients: ExecutorClients
    driver: DriverLink
    switches: Switches
    meter: TaskMeter
    output: SourceOutput
    previewed: bool = False  # the task runs for a preview

    def resolved(self, config: StoredConfig | Mapping[str, str]) -> dict[str, str]:
        """Return a configuration of the launch without references to secrets. Raises BadConfigError."""
        return self.clients.resolve(config, self.launch.worker_config)


class HostedSource(ABC):
    """One source task with its transformations and converters. Every call comes from the host's thread.

    What a call raises fails the task, unless it says otherwise; HostLostError: it is hosted again.
    """

    delivery_reports = DeliveryReports.NOTHING
    """What the task wants reported of its records; exactly-once sources know it after ``prepare``."""

    wants_commits = False
    """Whether ``durable`` is to be called; known after ``start``. A message for each batch is its price."""

    def __init__(self, parts: SourceParts) -> None:
        """Take what the host has; nothing is made yet."""
        self.parts = parts

    def prepare(self) -> None:
        """Make ready what can be: earlier producers of the task may still write, so it may not read where it is."""

    @abstractmethod
    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """Make and start the task. ``boundaries``: of exactly-once sources."""

    @abstractmethod
    def poll(self) -> None:
        """Hand over what the task has next; waits for it, or until a switch turns or something became durable."""

    def settle(self) -> None:
        """Return when the task is in no call and all it brought is handed over: it is to pause, or to stop.

        Then, too, when a stop's time is up.
        """

    @abstractmethod
    def durable(self, reports: Sequence[Durable]) -> None:
        """Call the task's commit hooks for what became durable; what Java's two hooks raise is logged, as there."""

    def abandon(self) -> None:
        """The slice is over: ``stop`` follows and may not take long."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also one whose ``start`` failed, and close what was opened; what goes wrong is logged."""


# Makes a source task's topics before its first record goes there (Java ``AbstractWorkerSourceTask.maybeCreateTopic``).
#
# Owns the topics that this task writer has seen. An existing topic is left as it is. Without ``topic.creation.*``
# nothing is asked, and brokers may create topics by themselves.


log = logging.getLogger(__name__)


class NewTopics:
    """The topics that one task writer needs. It is used by the thread of the writer only."""

    def __init__(self, launch: TaskLaunch, clients: ExecutorClients) -> None:
        self._launch = launch
        self._clients = clients
        self._seen: set[str] = set()
        # Only a launch whose worker lets tasks make topics brings the client for it.
        self._creation: TopicCreation | None = None
        if launch.topic_admin:
            self._creation = TopicCreation.from_config(clients.resolve(launch.connector_config, launch.worker_config))

    def ensure(self, topics: Iterable[str]) -> None:
        """Return when every topic is there. Raises ConnectError in Java's words, RetriableError (no one answers)."""
        if self._creation is None:
            return
        for topic in topics:
            if topic not in self._seen:
                self._create(topic, self._creation)
                self._seen.add(topic)

    def are_there(self, topics: Iterable[str]) -> bool:
        """Tell whether ``ensure`` would return at once."""
        return self._creation is None or self._seen.issuperset(topics)

    def _create(self, topic: str, creation: TopicCreation) -> None:
        group = creation.group_of(topic)
        config = self._clients.resolve(self._launch.topic_admin, self._launch.worker_config)
        try:
            created = self._clients.create_topic(config, topic, group)
        except RetriableError:
            raise
        except ConnectError as error:
            raise ConnectError(
                f"Task failed to create new topic {topic} of group {group.name} (partitions={group.partitions}, "
                f"replication factor={group.replication_factor}, configs={dict(group.settings)}). Ensure that the task "
                f"is authorized to create topics or that the topic exists and restart the task: {error}",
                code="CRT-1058",
            ) from error
        if created:
            log.info("task=%s created topic %s using creation group %s", self._launch.task, topic, group.name)
        else:
            log.info("task=%s topic %s already exists", self._launch.task, topic)
