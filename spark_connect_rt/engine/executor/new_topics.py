"""Creates the topics of a source task before its first record (Java ``AbstractWorkerSourceTask.maybeCreateTopic``).

An existing topic is left as it is. Without ``topic.creation.*`` nothing is asked, and brokers may create topics by
themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from spark_connect_rt.config.topic_creation import TopicCreation
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

log = logging.getLogger(__name__)


class NewTopics:
    """The topics that one writer of source records needs. One thread."""

    def __init__(self, launch: TaskLaunch, clients: ExecutorClients) -> None:
        self._launch = launch
        self._clients = clients
        self._seen: set[str] = set()
        # The launch names an admin client only if the worker allows tasks to create topics.
        self._creation: TopicCreation | None = None
        if launch.topic_admin:
            self._creation = TopicCreation.from_config(clients.resolve(launch.connector_config, launch.worker_config))

    def ensure(self, topics: Iterable[str]) -> None:
        """Return when every topic exists.

        Raises ConnectError in Java's words if a topic cannot be created, and RetriableError if no broker answers.
        """
        if self._creation is None:
            return
        for topic in topics:
            if topic not in self._seen:
                self._create(topic, self._creation)
                self._seen.add(topic)

    def are_there(self, topics: Iterable[str]) -> bool:
        """Return whether ``ensure`` would return at once."""
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
