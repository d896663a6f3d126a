"""Makes a source task's topics before its first record goes there (Java ``AbstractWorkerSourceTask.maybeCreateTopic``).

Owns: which topics this lane has seen. What is there is left as it is; without ``topic.creation.*`` nothing is asked,
and brokers may make topics by themselves.
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
    """The topics of one lane. One thread."""

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
