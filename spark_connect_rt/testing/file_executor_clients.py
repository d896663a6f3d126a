"""ExecutorClients whose topics are files: for tests in which reader, writer and test are different processes.

Owns the file form: one JSON line a record, one file a partition. ``bootstrap.servers`` is ``file:<folder>``.
"""

from __future__ import annotations

import fcntl
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import TopicGroup
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.executor_clients import TransactionalProducer
from spark_connect_rt.testing.memory_executor_clients import Row, consume_batch, rows_of


class FileTopics:
    """Topics as files of JSON lines in a folder, one file per partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, rows: Sequence[Row]) -> list[RecordMetadata | None]:
        """Write rows, those without a partition to partition 0; return where they went."""
        by_file: dict[Path, list[bytes]] = {}
        places = [TopicPartition(row["topic"], row.get("partition") or 0) for row in rows]
        for row, place in zip(rows, places, strict=True):
            stored: dict[str, Any] = {name: _text(row.get(name)) for name in ("key", "value")}
            if row.get("headers"):
                stored["headers"] = [(header["key"], _text(header["value"])) for header in row["headers"]]
            by_file.setdefault(self._path(place), []).append(orjson.dumps(stored) + b"\n")
        offsets: dict[Path, Iterator[int]] = {}
        for path, lines in by_file.items():
            with path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                offsets[path] = itertools.count(path.read_bytes().count(b"\n"))
                file.write(b"".join(lines))
        return [
            RecordMetadata(partition.topic, partition.partition, next(offsets[self._path(partition)]))
            for partition in places
        ]

    def read(self, partition: TopicPartition, offset: int, limit: int) -> list[Row]:
        """Return at most ``limit`` rows from ``offset`` on."""
        path = self._path(partition)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        rows = []
        for index, line in enumerate(lines[offset : offset + limit], offset):
            stored = orjson.loads(line)
            row = {name: _bytes(stored[name]) for name in ("key", "value")}
            headers = [{"key": key, "value": _bytes(value)} for key, value in stored.get("headers", ())]
            place = {"topic": partition.topic, "partition": partition.partition, "offset": index}
            rows.append({**place, **row, "headers": headers or None})
        return rows

    def end(self, partition: TopicPartition) -> int:
        """Return the next offset of a partition."""
        return len(self.read(partition, 0, 1 << 60))

    def values(self, topic: str) -> list[bytes | None]:
        """Return every value of a topic, partition by partition."""
        found: list[bytes | None] = []
        for path in sorted(self.folder.glob(f"{topic}-*.jsonl")):
            partition = TopicPartition(topic, int(path.stem.rpartition("-")[2]))
            found.extend(row["value"] for row in self.read(partition, 0, 1 << 60))
        return found

    def _path(self, partition: TopicPartition) -> Path:
        return self.folder / f"{partition.topic}-{partition.partition}.jsonl"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _topics(config: Mapping[str, str]) -> FileTopics:
    address = config.get("bootstrap.servers", "")
    if not address.startswith("file:"):
        raise BadConfigError({"bootstrap.servers": ["file clients want file:<folder>"]})
    return FileTopics(Path(address.removeprefix("file:")))


class _FileProducer:
    """BatchProducer whose rows appear at flush; ``fail.value`` names a value that cannot be delivered."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._topics = _topics(config)
        self._fail_value = config.get("fail.value", "").encode() or None
        self._queued: list[Row] = []
        self._metadata: list[RecordMetadata | None] = []

    def produce(self, batch: pa.RecordBatch) -> None:
        self._queued.extend(rows_of(batch))

    def hurry(self, end_by_s: float) -> None:
        """See ``kafka.executor_clients.BatchProducer.hurry``; nothing waits here."""

    def flush(self, timeout_ms: int) -> None:
        queued, self._queued = self._queued, []
        values = [row["value"] for row in queued]
        if self._fail_value in values and self._fail_value is not None:
            self._topics.append(queued[: values.index(self._fail_value)])
            raise ConnectError(f"delivery of {self._fail_value!r} was refused")
        self._metadata += self._topics.append(queued)

    def delivered(self) -> list[Delivered]:
        return []  # the callers of these clients do not use it

    def metadata(self) -> list[RecordMetadata | None]:
        taken, self._metadata = self._metadata, []
        return taken

    def close(self) -> None:
        self._queued = []


class _FileConsumer:
    """A BatchConsumer that reads the files of FileTopics."""

    def __init__(self, topics: FileTopics) -> None:
        self._topics = topics
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._positions[partition] = self._topics.end(partition) if offset == -2 else max(0, offset)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    def poll(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        end_s = time.monotonic() + timeout_ms / 1000
        while True:
            rows: list[Row] = []
            for partition, position in self._positions.items():
                read = self._topics.read(partition, position, max_records - len(rows))
                self._positions[partition] = position + len(read)
                rows.extend(read)
            if rows:
                return consume_batch(rows)
            if time.monotonic() >= end_s:
                return None
            time.sleep(0.01)

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._topics.end(partition) for partition in partitions}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {}

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._positions = {}


class FileExecutorClients:
    """Port ExecutorClients over files; plug-ins are named "package.module:Class"."""

    def producer(self, config: Mapping[str, str]) -> _FileProducer:
        """Return a new producer for the folder that ``config`` names."""
        return _FileProducer(config)

    def transactional_producer(self, config: Mapping[str, str]) -> TransactionalProducer:
        """Reject transactions, which files do not support."""
        raise ConnectError("topics of files have no transactions")

    def consumer(self, config: Mapping[str, str]) -> _FileConsumer:
        """Return a new consumer for the folder that ``config`` names."""
        return _FileConsumer(_topics(config))

    def ensure_topic(self, config: Mapping[str, str], topic: str, replication_factor: int) -> bool:
        """Do nothing: topics are made when they are written."""
        return False

    def create_topic(self, config: Mapping[str, str], topic: str, group: TopicGroup) -> bool:
        """Do nothing: topics are made when they are written."""
        return False

    def name_of(self, plugin: type[Any]) -> str:
        """Return the class's name as configurations use it."""
        return public_name(plugin)

    def plugin(self, name: str) -> type[Any]:
        """Return a class by name. Raises NotFoundError."""
        return load_class(name)

    def plugin_location(self, path: str) -> str:
        """Return the path: all is on one machine."""
        return path

    def resolve(self, config: StoredConfig | Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration as it is."""
        return dict(StoredConfig.of(config).written())


factory: Callable[[], FileExecutorClients] = FileExecutorClients
