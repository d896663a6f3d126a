"""The laboratory: one broker, a Java worker and ours, a topic's ground truth. Ends whatever it started."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.errors import StartupError
from tests.support.java_connect import JavaConnect
from tests.support.mirror_maker_process import COORDINATES
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess


class Lab:
    """``with Lab(folder) as lab: lab.sides()``.

    ``shared``: every benchmark in this laboratory meets the same two workers. For smoke runs: their figures mean
    nothing anyway, and starting workers is most of what they would do.
    """

    def __init__(
        self, folder: Path, java_only: bool = False, shared: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Take a folder; ``properties`` are of every worker, besides its own."""
        self.folder = folder
        self._properties = dict(properties or {})
        self.java_only = java_only
        self.java_heap_mb = 512  # plenty for a hundred tasks, and little memory to be compared with
        self._shared: dict[str, WorkerProcess] | None = {} if shared else None
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)
        self._workers: list[WorkerProcess] = []
        self._kafka = EmbeddedKafka(folder / "kafka", die_with_parent=True, heap_mb=1024)
        self._kafka_started = False

    @property
    def bootstrap_servers(self) -> str:
        """Return the broker's address; the first caller starts it."""
        if not self._kafka_started:
            self._kafka.start()
            self._kafka_started = True
        return self._kafka.bootstrap_servers

    def broker(self) -> list[psutil.Process]:
        """Return the broker's process."""
        assert self.bootstrap_servers
        return [psutil.Process(self._kafka.pid)]

    def fresh(self, word: str) -> str:
        """Return a name not used before in this laboratory."""
        return f"{word}-{next(self._numbers)}"

    def java(self, **properties: str) -> JavaConnect:
        """Return a Java worker, not started, of a new group."""
        group = self.fresh("java")
        jars = resolve_jars(COORDINATES)  # with MirrorMaker's connectors
        worker = JavaConnect(
            *(self.folder / group, self.bootstrap_servers, group),
            properties=self._all(properties),
            heap_mb=self.java_heap_mb,
            jars=jars,
            archived=False,
        )
        self._workers.append(worker)
        return worker

    def ours(self, **properties: str) -> SparkWorkerProcess:
        """Return our worker, not started, of a new group."""
        group = self.fresh("ours")
        worker = SparkWorkerProcess(
            self.folder / group, self.bootstrap_servers, group, properties=self._all(properties)
        )
        self._workers.append(worker)
        return worker

    def _all(self, properties: dict[str, str]) -> dict[str, str]:
        return {**self._properties, **_dotted(properties)}

    def side(self, who: str, **properties: str) -> WorkerProcess | None:
        """Start "java" or "ours"; no ours, and a complaint for the notes, when it does not come up or is left out.

        ``properties`` are of a worker that is started here, with underscores for dots.
        """
        if self._shared is not None and who in self._shared:
            return self._shared[who]
        if who == "ours" and self.java_only:
            return None
        try:
            worker = (self.java(**properties) if who == "java" else self.ours(**properties)).start()
        except StartupError as error:
            if who == "java":
                raise
            self.complaints.append(f"ours did not start: {str(error)[-400:]}")
            return None
        if self._shared is not None:
            self._shared[who] = worker
        return worker

    def done_with(self, worker: WorkerProcess) -> None:
        """Stop a worker, unless the next benchmark meets it too."""
        if self._shared is None:
            worker.stop()

    def sides(self) -> list[tuple[str, WorkerProcess]]:
        """Start both workers; ours is missing when it did not come up."""
        return [(who, worker) for who in ("java", "ours") if (worker := self.side(who))]

    def create_topic(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic and wait until it is there."""
        admin = self._admin()
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=_dotted(config))
        admin.create_topics([new])[topic].result(timeout=30)
        while topic not in admin.list_topics(timeout=10).topics:
            time.sleep(0.02)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic: a benchmark must not fill the disk."""
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.stop()
            worker.rest.close()
        self._kafka.stop()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


class TopicTruth:
    """What is really in a topic of one partition: its end now, its content afterwards."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._partition = TopicPartition(topic, 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "truth",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 8 << 20,
            }
        )

    def end(self) -> int:
        """Return the number of records ever appended."""
        _, high = self._consumer.get_watermark_offsets(self._partition, timeout=20, cached=False)
        return int(high)

    def digest(self, limit_s: float = 300.0) -> tuple[int, str]:
        """Read the whole topic; return record count and SHA-256 of all values, a newline after each."""
        self._consumer.assign([TopicPartition(self._partition.topic, 0, OFFSET_BEGINNING)])
        digest, count, end = hashlib.sha256(), 0, self.end()
        deadline = time.monotonic() + limit_s
        while count < end and time.monotonic() < deadline:
            messages = self._consumer.consume(10_000, timeout=5.0)
            values = [message.value() for message in messages if message.error() is None]
            count += len(values)
            digest.update(b"".join(value + b"\n" for value in values))
        self._consumer.unassign()
        return count, digest.hexdigest()

    def follow(self) -> Consumer:
        """Return the consumer, reading from the present end on."""
        self._consumer.assign([TopicPartition(self._partition.topic, 0, self.end())])
        self._consumer.poll(0.5)  # the first fetch also finds the leader
        return self._consumer

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _dotted(properties: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in properties.items()}
