"""Runs a source connector and its tasks in memory: for a connector author's tests. No Kafka, no Spark.

The records of the tasks go through the converters and transformations that the configuration names, as in a worker.
Offsets are kept as JSON, as in the offset topic. Sinks: testing.sink_harness.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson
import pyarrow as pa

from spark_connect_rt.api.connector import Connector, SourceConnector
from spark_connect_rt.api.records import Polled, RecordMetadata, SourceRecord
from spark_connect_rt.api.task import NoPluginMetrics, OffsetReader, OwnWrites, PluginMetrics, SourceTask
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.python_source import SentRecords
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import FailedRecord
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.runtime.task_configs import checked_count
from spark_connect_rt.testing.memory_executor_clients import rows_of
from spark_connect_rt.topics.offset_records import checked, checked_offset

FindPlugin = Callable[[str], type[Any]]
PLAIN_JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
"""The default converters of a harness's worker. A connector's own converters replace them."""


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """One record as Kafka would hold it."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    source: tuple[Mapping[str, Any], Mapping[str, Any]] | None = field(default=None, compare=False)
    """The source partition and the offset after this record. None within a batch, which has one offset at its end."""

    def json(self) -> Any:
        """Return the parsed value, None for a tombstone."""
        return None if self.value is None else orjson.loads(self.value)


class MemoryOffsets:
    """Source offsets, JSON in and JSON out. Port api.task.OffsetReader."""

    def __init__(self) -> None:
        """Start without any stored offset."""
        self._stored: dict[str, Any] = {}

    def put(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Store the offset of a partition; None removes it. Raises DataError: the offset topic would reject it."""
        self._stored[_json(checked(partition))] = _json(checked_offset(offset))

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each partition."""
        return [json.loads(self._stored.get(_json(partition), "null")) for partition in partitions]

    def all(self) -> list[tuple[Any, Any]]:
        """Return (partition, offset) pairs, oldest partition first."""
        return [(json.loads(partition), json.loads(offset)) for partition, offset in self._stored.items()]


def _json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


class HostedConnector:
    """The common part of both harnesses: a connector instance, checked as in a worker, and its task configurations."""

    metrics: PluginMetrics = NoPluginMetrics()
    previewed = False

    def __init__(self, connector_class: type[Connector], config: Mapping[str, str]) -> None:
        """Take the class and the connector's configuration; ``name`` and ``tasks.max`` have defaults."""
        self.config = {"name": "harness", "tasks.max": "1", **config}
        self.reconfigurations = 0
        """How often the connector asked for ``task_configs`` to be called again."""
        self.failure: Exception | None = None
        """The error that the connector reported by ``context.raise_error``."""
        self._class = connector_class
        self.connector = connector_class()

    def start(self) -> None:
        """Check the configuration and start a new instance. Raises BadConfigError with everything that is wrong."""
        self.connector = self._class()
        found = {
            config_value.name: list(config_value.errors)
            for config_value in self.connector.config_def().validate(self.config)
            if config_value.errors
        }
        for name, problems in self.connector.validate(self.config).items():
            found.setdefault(name, []).extend(problems)
        if found:
            raise BadConfigError(found)
        self.connector.context = self
        self.connector.start(dict(self.config))

    def task_configs(self) -> list[dict[str, str]]:
        """Return the task configurations. Raises ConnectError: more than ``tasks.max``; TypeError: not text to text."""
        most = int(self.config["tasks.max"])
        made = self.connector.task_configs(most)
        checked_count(self.config["name"], made, most, enforce=True)
        if not all(isinstance(word, str) for config in made for pair in config.items() for word in pair):
            raise TypeError("task configurations travel as text, so names and values must be str")
        return made

    def request_task_reconfiguration(self) -> None:
        """Count the request in ``reconfigurations``."""
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        """Keep the error in ``failure``."""
        self.failure = error

    def record_event(self, summary: str, **details: str | int) -> None:
        """Do nothing: a harness has no group."""


class _Context:
    """A source task's SourceTaskContext, without metrics and transactions."""

    transaction_context: Any = None
    metrics: PluginMetrics = NoPluginMetrics()
    own_writes = OwnWrites()
    previewed = False

    def __init__(self, offsets: OffsetReader, pipeline: SourcePipeline) -> None:
        self.offset_reader = offsets
        self._pipeline = pipeline

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        self._pipeline.report_errant(place, error, data)

    def record_event(self, summary: str, **details: str | int) -> None:
        """Do nothing: a harness has no group."""


class SourceHarness:
    """Runs a source connector and one task in memory, for a connector author's tests. No Kafka, no Spark.

    Example:
        with SourceHarness(MySource, {...}) as source:
            assert source.poll()[0].json() == {...}
    """

    def __init__(
        self,
        connector_class: type[SourceConnector],
        config: Mapping[str, str],
        worker_config: Mapping[str, str] = PLAIN_JSON,
        find_plugin: FindPlugin | None = None,
    ) -> None:
        """Take a connector; nothing is started yet.

        Args:
            worker_config: the converters of connectors that name none.
            find_plugin: name -> class of converters and transformations; the bundled ones by default.
        """
        self.hosted = HostedConnector(connector_class, config)
        self.offsets = MemoryOffsets()
        self.errants: list[FailedRecord] = []
        """Records and input that were given up."""
        self.dead_letters: list[ProducedRecord] = []
        self.tasks: list[SourceTask] = []
        self._worker_config = worker_config
        self._find_plugin = find_plugin or bundled_plugins().class_of
        self._ends: Counter[tuple[str, int]] = Counter()  # of each partition, how many records it holds
        self._pipelines: list[SourcePipeline] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the connector and its tasks, at the stored offsets."""
        self.hosted.start()
        try:
            self.reconfigure()
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the tasks, then the connector."""
        self._stop_tasks()
        self.hosted.connector.stop()

    def restart(self) -> None:
        """Stop and start everything with new objects, as after a crash of the worker: only offsets are kept."""
        self.stop()
        self.start()

    def reconfigure(self) -> None:
        """Call ``task_configs`` (again) and start the tasks of it."""
        self._stop_tasks()
        configs = self.hosted.task_configs()
        for number, config in enumerate(configs):
            pipeline = self._pipeline(number)
            task: SourceTask = self.hosted.connector.task_class()()
            task.context = _Context(self.offsets, pipeline)
            self._pipelines.append(pipeline)
            self.tasks.append(task)
            task.start(config)

    def _pipeline(self, number: int) -> SourcePipeline:
        settings = ReportSettings.from_config(self.hosted.config)
        letters = None
        if settings.topic:
            task_id = ConnectorTaskId(self.hosted.config["name"], number)
            letters = DeadLetters(settings, task_id, lambda plugin: plugin.__qualname__)
        return SourcePipeline.from_config(
            self.hosted.config, self._worker_config, self._find_plugin, dead_letters=letters
        )

    def _stop_tasks(self) -> None:
        tasks, self.tasks, self._pipelines = self.tasks, [], []
        for task in tasks:
            task.stop()

    def poll(self, durable: bool = True) -> list[ProducedRecord]:
        """Poll each task once and return the records that a worker would produce.

        ``durable`` False: simulate a worker that dies before the acknowledgement: no offset is stored, no commit
        follows.
        Raises the errors of a task's ``poll`` (RetriableError: poll again), and DataError of a record that is not
        tolerated.
        """
        produced: list[ProducedRecord] = []
        for task, pipeline in zip(self.tasks, self._pipelines, strict=True):
            produced += self._poll_task(task, pipeline, durable)
        return produced

    def poll_all(self, most_polls: int = 10_000) -> list[ProducedRecord]:
        """Poll until no task has anything more. Raises AssertionError: they still have after ``most_polls``."""
        produced: list[ProducedRecord] = []
        for _ in range(most_polls):
            found = self.poll()
            if not found:
                return produced
            produced += found
        raise AssertionError(f"the tasks still return records after {most_polls} polls")

    def _poll_task(self, task: SourceTask, pipeline: SourcePipeline, durable: bool) -> list[ProducedRecord]:
        polled = task.poll() or ()
        try:
            batches = pipeline.convert(polled)
        except DataError:
            last = pipeline.give_up()
            if last is not None:
                self._bury(last.errants, last.batch, 0)
            raise
        produced = []
        for batch in batches:
            produced += [_produced(row) for row in rows_of(batch.batch)[: batch.records]]
            self._bury(batch.errants, batch.batch, batch.records)
            for partition, offset in batch.source_offsets if durable else ():
                self.offsets.put(partition, offset)
        places = _places(polled, pipeline.rows_of_each)
        if len(places) == len(produced):
            produced = [replace(record, source=place) for record, place in zip(produced, places, strict=True)]
        if durable and batches:
            self._report_durable(task, polled, pipeline.rows_of_each, produced)
        return produced

    def _report_durable(
        self,
        task: SourceTask,
        polled: Sequence[Polled],
        rows_of_each: Sequence[int],
        produced: Sequence[ProducedRecord],
    ) -> None:
        sent, runs, metadata = SentRecords(), DeliveryRuns(), list[RecordMetadata | None]()
        for produced_record in produced:
            place = (produced_record.topic, produced_record.partition or 0)
            metadata.append(RecordMetadata(*place, self._ends[place], produced_record.timestamp_ms))
            runs.note(*place, self._ends[place])
            self._ends[place] += 1
        sent.add(polled, rows_of_each, [(len(produced), len(produced))])
        for record, where in sent.durable(1, metadata):
            task.commit_record(record, where)
        task.commit_offsets(runs.take())
        task.commit()

    def _bury(self, errants: Sequence[FailedRecord], batch: pa.RecordBatch, records: int) -> None:
        self.errants += errants
        self.dead_letters += [_produced(row) for row in rows_of(batch)[records:]]


def _places(polled: Sequence[Polled], rows_of_each: Sequence[int]) -> list[Any]:
    """Return for each row of a poll its source partition and offset; of a batch only its last row has them."""
    places: list[Any] = []
    for piece, count in zip(polled, rows_of_each, strict=False):
        place = (piece.source_partition, piece.source_offset)
        is_record = isinstance(piece, SourceRecord)
        places += [place] * count if is_record else [None] * (count - 1) + [place] * bool(count)
    return places


def _produced(row: Mapping[str, Any]) -> ProducedRecord:
    headers = tuple((header["key"], header["value"]) for header in row.get("headers") or ())
    return ProducedRecord(row["topic"], row["value"], row["key"], row["partition"], row.get("timestamp"), headers)
