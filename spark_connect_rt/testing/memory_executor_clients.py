"""In-memory ExecutorClients: topics that tests can write, read and break.

Owns topics as lists of rows. Twin of the Kafka clients (kafka.writing.batch_producer,
kafka.reading.batch_consumer). Records that a producer has not flushed are lost with it, as in Kafka.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import TopicGroup
from spark_connect_rt.errors import BadConfigError, DataError, FencedError, NotFoundError
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import RefusedRecord

Row = dict[str, Any]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows of a batch in produce or consume form, absent columns as None."""
    metadata = batch.schema.metadata or {}
    fixed: Row = {}
    if TOPIC in metadata:
        fixed["topic"] = metadata[TOPIC].decode()
    if PARTITION in metadata:
        fixed["partition"] = int(metadata[PARTITION])
    return [{"partition": None, "key": None, "value": None, **row, **fixed} for row in batch.to_pylist()]


def consume_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows in consume form."""
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    columns = [pa.array([row.get(name) for row in rows], CONSUME_FIELDS[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


@dataclass
class MemoryTopics:
    """Topics by partition; rows carry topic, partition, offset, key, value, headers, timestamp."""

    partitions: dict[TopicPartition, list[Row]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    fail_produce: Callable[[Row], Exception | None] = lambda row: None
    epochs: dict[str, int] = field(default_factory=dict)  # transactional id -> its newest producer
    topic_ids: dict[str, str] = field(default_factory=dict)  # of topics that have one

    def claim(self, transactional_id: str) -> int:
        """Fence earlier producers of an id; return the number of the new one."""
        with self.changed:
            self.epochs[transactional_id] = self.epochs.get(transactional_id, 0) + 1
            return self.epochs[transactional_id]

    def append(self, rows: Sequence[Row], runs: DeliveryRuns | None = None) -> list[RecordMetadata | None]:
        """Write rows; return where they went. ``runs`` notes it, too.

        A row without a partition goes to partition 0. A row with an offset of its partition's end or beyond keeps it,
        as in a topic that was compacted; any other row gets the next offset.
        """
        written: list[RecordMetadata | None] = []
        with self.changed:
            for row in rows:
                partition = TopicPartition(row["topic"], row.get("partition") or 0)
                log = self.partitions.setdefault(partition, [])
                offset = max(_end(log), row.get("offset") or 0)
                if runs is not None:
                    runs.note(partition.topic, partition.partition, offset)
                written.append(RecordMetadata(partition.topic, partition.partition, offset, row.get("timestamp")))
                log.append({**row, "partition": partition.partition, "offset": offset})
            self.changed.notify_all()
        return written

    def read(self, partition: TopicPartition, offset: int, limit: int) -> list[Row]:
        """Return at most ``limit`` rows from ``offset`` on."""
        with self.changed:
            log = self.partitions.get(partition, [])
            first = bisect_left(log, offset, key=lambda row: int(row["offset"]))
            return log[first : first + limit]

    def end(self, partition: TopicPartition) -> int:
        """Return the next offset of a partition."""
        with self.changed:
            return _end(self.partitions.get(partition, []))

    def values(self, topic: str) -> list[Any]:
        """Return every value of a topic, partition by partition."""
        with self.changed:
            found = sorted(tp for tp in self.partitions if tp.topic == topic)
            return [row["value"] for tp in found for row in self.partitions[tp]]


def _end(log: Sequence[Row]) -> int:
    return int(log[-1]["offset"]) + 1 if log else 0


class _MemoryProducer:
    """BatchProducer whose rows appear at flush."""

    def __init__(self, topics: MemoryTopics) -> None:
        self._topics = topics
        self._queued: list[Row] = []
        self._runs = DeliveryRuns()
        self._metadata: list[RecordMetadata | None] = []
        self._skips = False
        self._refused: list[RefusedRecord] = []

    def produce(self, batch: pa.RecordBatch) -> None:
        self._queued.extend(rows_of(batch))

    def skip_refused(self) -> None:
        """From now on skip records that are rejected: those for which ``fail_produce`` returns a DataError."""
        self._skips = True

    def refused(self) -> list[RefusedRecord]:
        """Return the records that were left out since the last call, and why."""
        taken, self._refused = self._refused, []
        return taken

    def hurry(self, end_by_s: float) -> None:
        """Do nothing: this producer never delays a record."""

    def flush(self, timeout_ms: int) -> None:
        queued, self._queued = self._queued, []
        for row in queued:
            error = self._topics.fail_produce(row)
            if error is None:
                self._metadata += self._topics.append([row], self._runs)
            elif self._skips and isinstance(error, DataError):
                headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
                content = (row.get("key"), row.get("value"))
                place = (row["topic"], row.get("partition"))
                self._refused.append(RefusedRecord.of(error, place, content, headers, row.get("timestamp")))
                self._metadata.append(None)
            else:
                raise error

    def delivered(self) -> list[Delivered]:
        return self._runs.take()

    def metadata(self) -> list[RecordMetadata | None]:
        taken, self._metadata = self._metadata, []
        return taken

    def close(self) -> None:
        self._queued = []


class MemoryTransactionalProducer(_MemoryProducer):
    """TransactionalProducer whose rows appear at commit, unless another producer claimed its id since."""

    def __init__(self, topics: MemoryTopics, transactional_id: str) -> None:
        super().__init__(topics)
        self._id = transactional_id
        self._epoch = 0
        self._open = False

    def claim(self, timeout_ms: int) -> None:
        """Fence earlier producers of the transactional id."""
        self._epoch = self._topics.claim(self._id)

    def begin(self) -> None:
        """Begin a transaction. The id must be claimed, and no transaction open."""
        assert self._epoch, "claim comes first"
        assert not self._open, "a transaction is open"
        self._open = True

    def produce(self, batch: pa.RecordBatch) -> None:
        """Add records to the open transaction. Raises FencedError: another producer claimed the id."""
        assert self._open, "no transaction is open"
        self._check()
        super().produce(batch)

    def commit(self, timeout_ms: int) -> None:
        """Append all records of the transaction. Raises FencedError, or the error that ``fail_produce`` returns."""
        assert self._open, "no transaction is open"
        self._check()
        for row in self._queued:
            error = self._topics.fail_produce(row)
            if error is not None:
                raise error
        self._metadata += self._topics.append(self._queued, self._runs)
        self._queued, self._open = [], False

    def abort(self, timeout_ms: int) -> None:
        """Drop all records of the transaction."""
        self._metadata += [None] * len(self._queued)
        self._queued, self._open = [], False

    def _check(self) -> None:
        if self._topics.epochs[self._id] != self._epoch:
            raise FencedError(f"a newer producer has the transactional id {self._id}")


class _MemoryConsumer:
    """A BatchConsumer that reads the lists of MemoryTopics."""

    def __init__(self, topics: MemoryTopics) -> None:
        self._topics = topics
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._positions[partition] = self._topics.end(partition) if offset == -2 else max(0, offset)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    def poll(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        rows = self._take(max_records)
        if not rows:
            with self._topics.changed:
                self._topics.changed.wait(timeout_ms / 1000)
            rows = self._take(max_records)
        return consume_batch(rows) if rows else None

    def _take(self, limit: int) -> list[Row]:
        taken: list[Row] = []
        for partition, position in self._positions.items():
            rows = self._topics.read(partition, position, limit - len(taken))
            self._positions[partition] = rows[-1]["offset"] + 1 if rows else position
            taken.extend(rows)
        return taken

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._topics.end(partition) for partition in partitions}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {topic: known for topic, known in self._topics.topic_ids.items() if topic in topics}

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for place in self._topics.partitions:
            if place.topic in topics:
                numbers[place.topic] = max(numbers.get(place.topic, 0), place.partition + 1)
        return numbers

    def close(self) -> None:
        self._positions = {}


class MemoryExecutorClients:
    """Port ExecutorClients in memory; one value is shared by every host of a MemoryTaskRunner."""

    def __init__(
        self,
        topics: MemoryTopics | None = None,
        find_plugin: Callable[[str], type[Any]] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """Create clients of some topics, without a server.

        Args:
            topics: the place that records go to and come from.
            find_plugin: name -> class of converters and the like (``Plugins.class_of``).
            secrets: placeholder such as "${file:a:b}" -> its value, for ``resolve``.
        """
        self.topics = topics or MemoryTopics()
        self.secrets = dict(secrets or {})
        self._find_plugin = find_plugin
        self.producers_made = 0
        self.topics_made: dict[str, int] = {}  # name -> replication factor
        self.topic_groups: dict[str, TopicGroup] = {}  # of those made by a source task
        self.brokers = 1

    def producer(self, config: Mapping[str, str]) -> _MemoryProducer:
        """Return a new producer for the topics."""
        self.producers_made += 1
        return _MemoryProducer(self.topics)

    def transactional_producer(self, config: Mapping[str, str]) -> MemoryTransactionalProducer:
        """Return a new producer of transactions."""
        self.producers_made += 1
        return MemoryTransactionalProducer(self.topics, config["transactional.id"])

    def consumer(self, config: Mapping[str, str]) -> _MemoryConsumer:
        """Return a new consumer for the topics."""
        return _MemoryConsumer(self.topics)

    def ensure_topic(self, config: Mapping[str, str], topic: str, replication_factor: int) -> bool:
        """Note a topic that was missing. Raises BadConfigError: fewer ``brokers`` than copies."""
        if topic in self.topics_made:
            return False
        if replication_factor > self.brokers:
            raise BadConfigError({topic: [f"replication factor {replication_factor}: the cluster has fewer brokers"]})
        self.topics_made[topic] = replication_factor
        return True

    def create_topic(self, config: Mapping[str, str], topic: str, group: TopicGroup) -> bool:
        """Note a topic that was missing, and its group in ``topic_groups``. Raises as ``ensure_topic``."""
        created = self.ensure_topic(config, topic, group.replication_factor)
        if created:
            self.topic_groups[topic] = group
        return created

    def name_of(self, plugin: type[Any]) -> str:
        """Return the class's name as configurations use it."""
        return public_name(plugin)

    def plugin(self, name: str) -> type[Any]:
        """Return a class by name. Raises NotFoundError."""
        if self._find_plugin is None:
            raise NotFoundError(f"no plug-in {name}: these clients were given none")
        return self._find_plugin(name)

    def plugin_location(self, path: str) -> str:
        """Return the path: all is on one machine."""
        return path

    def resolve(self, config: StoredConfig | Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with every known placeholder replaced, then those of the config providers."""
        known = {key: self.secrets.get(value, value) for key, value in StoredConfig.of(config).written().items()}
        return ConfigProviders.from_config(worker_config, self.plugin).resolve(known)


def wait_until(fact: Callable[[], bool], limit_s: float = 10.0, say: Callable[[], object] = lambda: "") -> None:
    """Wait until a condition holds. Raises AssertionError with the result of ``say`` after the time limit."""
    end = time.monotonic() + limit_s
    while not fact():
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {say()}")
        time.sleep(0.002)
