"""Runs a sink connector and its tasks in memory: for a connector author's tests. No Kafka, no Spark.

A task runs in the class that runs it in a worker (``SinkTaskRunner``), on the test's own thread. That code converts,
transforms, searches for bad records, writes dead letters and does what the task asks for by its context. Owns a
replacement for the rest of the worker: topics in memory, a reader that obeys the runner, and a consumer group that
commits only when ``commit`` is called or the task asks for it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.connector_config import topics_that_are_read
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.executor.control_wire import decode_offsets
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_partitions, encode_records
from spark_connect_rt.engine.executor.python_sink import HostedSink, PythonSink, SinkParts
from spark_connect_rt.engine.executor.sink_task import CommitSchedule, SinkTaskRunner
from spark_connect_rt.engine.executor.task_writer import now_s
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.sink_pipeline import by_partition, next_offsets
from spark_connect_rt.testing.connector_harness import PLAIN_JSON, FindPlugin, HostedConnector
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics, consume_batch
from spark_connect_rt.testing.memory_executor_clients import Row as Record

FLUSH_TIMEOUT_MS = 5_000
_BROKERS = 3  # as many as a dead letter queue's default replication factor
_UNKNOWN = -1  # where the group has not committed an offset
_MOST_READS = 1_000  # by one ``deliver``: a task that always seeks back would never end


class _NeverDue(CommitSchedule):
    """Commits only on request: a test decides when time passes."""

    def due_under_load(self, now_s: float) -> bool:
        return False


class _TestRunner(SinkTaskRunner):
    """A runner that is never started: the test's thread calls it, and gets the errors of its steps."""

    def __init__(
        self, launch: TaskLaunch, clients: MemoryExecutorClients, task_class: type[SinkTask], tasks: int
    ) -> None:
        self.puts: Iterator[float] | None = None
        """The puts of the batch that the task has not taken completely, None: there is no such batch."""
        self.tasks = tasks
        """How many tasks there are: each has the partitions whose number divided by it leaves its own number."""
        self.positions: dict[TopicPartition, int] = {}
        """Next offset to read, by partition."""
        self.held: set[TopicPartition] = set()
        self.committed: dict[TopicPartition, int] = {}
        self.commit_error: BaseException | None = None
        self._moves: dict[TopicPartition, int] = {}  # the offsets that the task asked to read from
        self._task_class = task_class
        super().__init__(0, launch, self._take_report, clients)

    def make_sink(self, parts: SinkParts) -> HostedSink:  # type: ignore[override]
        self.sink = PythonSink(parts, self._task_class)
        return self.sink

    def begin(self) -> None:
        super().begin()
        self._commits = _NeverDue(self.launch.flush.offset_flush_interval_ms / 1000)

    def _take_report(self, report: Mapping[str, Any]) -> None:
        match report["op"]:
            case "durable":
                self.committed.update(decode_offsets(report["sink_offsets"]))
            case "steer":
                self.held |= {TopicPartition(*pair) for pair in report["hold"]}
                for topic, partition, offset in report["seek"]:
                    place = TopicPartition(topic, partition)
                    self.held.discard(place)
                    if offset is not None:
                        self._moves[place] = offset

    def _note_put(self, taken: pa.RecordBatch, row_bytes: float) -> None:
        super()._note_put(taken, row_bytes)
        if taken.num_rows:
            self.positions.update(next_offsets(taken))

    def _commit_failed(self, *, closing: bool) -> None:
        self.commit_error = sys.exc_info()[1]
        super()._commit_failed(closing=closing)

    def has(self, place: TopicPartition) -> bool:
        """Return whether a partition is this task's."""
        return place.partition % self.tasks == self.launch.task.task

    def assign(self, partitions: frozenset[TopicPartition]) -> None:
        """Open the partitions that are new."""
        if new := partitions - self._context.partitions:
            self.on_row(_partition_row(new, self.committed))

    def read_from_elsewhere(self) -> bool:
        """Apply the offsets that the task asked to read from. Returns whether there were any."""
        moves, self._moves = self._moves, {}
        for place, offset in moves.items():
            self.positions[place] = offset
            self.on_row(_partition_row({place}))
        return bool(moves)

    def begun_puts(self, batch: pa.RecordBatch) -> Iterator[float]:
        """Return the puts of a batch in consume form, as it comes from a reader."""
        row = Row(0, RowKind.BATCH, BatchHead(batch.num_rows).encode(), encode_records(batch))
        return self.put_with_retries(self._batcher.take(row))

    def put_empty(self) -> None:
        """Let the task check its clock."""
        self._call_at_s = None
        if self._context.partitions:
            self.sink.put_empty()
            self._apply_requests()

    def commit(self) -> None:
        """Ask the task for safe offsets, and commit them. Raises the task's errors."""
        self.commit_error = None
        self._report_committable(self._pre_commit(self._context.partitions, closing=False))
        if self.commit_error is not None:
            raise self.commit_error

    def call_due_s(self) -> float | None:
        """Return when the task asked to be called again, s from now; None: it did not ask."""
        return None if self._call_at_s is None else max(0.0, self._call_at_s - now_s())

    def flush_letters(self) -> None:
        """Have every dead letter so far in its queue."""
        if self._reports is not None:
            self._reports.flush(FLUSH_TIMEOUT_MS)

    def leave(self) -> None:
        """Close the partitions and stop; nothing more is committed."""
        try:
            if self._sink is not None and self._context.partitions:
                self._sink.close(sorted(self._context.partitions))
        finally:
            self.finish()


def _partition_row(
    partitions: frozenset[TopicPartition] | set[TopicPartition], starts: Mapping[TopicPartition, int] | None = None
) -> Row:
    places = [(place.topic, place.partition, (starts or {}).get(place, _UNKNOWN)) for place in sorted(partitions)]
    return Row(0, RowKind.ASSIGNED, encode_partitions(places))


class SinkHarness:
    """Runs a sink connector and one task in memory, for a connector author's tests. No Kafka, no Spark.

    Example:
        with SinkHarness(MySink, {...}) as sink:
            sink.send("orders", {"id": 1})
            sink.deliver()
            sink.commit()
    """

    def __init__(
        self,
        connector_class: type[SinkConnector],
        config: Mapping[str, str],
        worker_config: Mapping[str, str] = PLAIN_JSON,
        find_plugin: FindPlugin | None = None,
        tasks: int = 1,
    ) -> None:
        """Take a connector; nothing is started yet.

        Args:
            connector_class, config, worker_config, find_plugin: as of SourceHarness.
            tasks: how many tasks run at most. The connector's ``task_configs`` may return fewer.
        """
        self._most_tasks = tasks
        self.hosted = HostedConnector(connector_class, config)
        self.topics = MemoryTopics()
        self.committed: dict[TopicPartition, int] = {}
        """Next offset of each partition, as the consumer group holds it."""
        self.asked_wait_s: float | None = None
        """How long the worker would wait before it calls the task again: after a ``deliver`` that returned False, and
        where the task asked by ``context.timeout``. None: it has nothing to wait for."""
        self._clients = MemoryExecutorClients(self.topics, find_plugin or bundled_plugins().class_of)
        self._clients.brokers = _BROKERS
        self._converters = ConnectorConverters.from_config(self.hosted.config, worker_config, self._clients.plugin)
        self._worker_config = worker_config
        self._settings = ReportSettings.from_config(self.hosted.config)
        self._runners: list[_TestRunner] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def task(self) -> SinkTask:
        """The first of the tasks that run now."""
        return self.tasks[0]

    @property
    def tasks(self) -> Sequence[SinkTask]:
        """The tasks that run now."""
        assert self._runners, "the harness is not started"
        return [runner.sink.running for runner in self._runners]

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that tasks have paused: ``deliver`` reads nothing of them until they resume them."""
        return frozenset(place for runner in self._runners for place in runner.held)

    def start(self) -> None:
        """Start the connector and its tasks, at the committed offsets.

        Raises BadConfigError: the configuration is invalid, or names no topics to read.
        """
        self._reads = topics_that_are_read(self.hosted.config)
        self.hosted.start()
        self.asked_wait_s = None
        configs = self.hosted.task_configs()[: self._most_tasks]
        try:
            for number, config in enumerate(configs):
                runner = self._new_runner(number, config, len(configs))
                self._runners.append(runner)
                runner.begin()
        except Exception:
            self.stop()
            raise

    def _new_runner(self, number: int, config: Mapping[str, str], tasks: int) -> _TestRunner:
        launch = TaskLaunch(
            ConnectorTaskId(self.hosted.config["name"], number),
            run=1,
            generation=1,
            kind=TaskKind.SINK,
            task_class="",
            config=StoredConfig(config),
            connector_config=StoredConfig(self.hosted.config),
            worker_config=self._worker_config,
        )
        launch = replace(launch, flush=replace(launch.flush, offset_flush_timeout_ms=FLUSH_TIMEOUT_MS))
        runner = _TestRunner(launch, self._clients, self.hosted.connector.task_class(), tasks)
        runner.positions.update(self.committed)
        runner.committed = self.committed
        return runner

    def stop(self) -> None:
        """Close the partitions and stop. Records that were not committed are delivered again after the next start."""
        runners, self._runners = self._runners, []
        with contextlib.ExitStack() as ends:
            ends.callback(self.hosted.connector.stop)
            for runner in reversed(runners):
                ends.callback(runner.leave)

    def restart(self) -> None:
        """Stop and start with new objects, as after a crash of the worker: only committed offsets are kept."""
        self.stop()
        self.start()

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        partition: int = 0,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Put a record into a topic. Bytes go as they are, other values through the connector's converters."""
        converters = self._converters
        row = {
            "topic": topic,
            "partition": partition,
            "timestamp": timestamp_ms,
            "key": key if isinstance(key, bytes) else converters.key.from_connect_data(topic, key_schema, key),
            "value": value if isinstance(value, bytes) else converters.value.from_connect_data(topic, schema, value),
            "headers": [{"key": name, "value": content} for name, content in headers] or None,
        }
        self.topics.append([row])

    def deliver(self) -> bool:
        """Put all new records of the topics in ``topics``. Returns False if the task wants the same records again.

        Partitions that the task paused are left out. Those for which it called ``context.offset`` are read from there.
        Without new records the task gets an empty put, as from a worker about once a second. Raises the errors that
        fail the task: DataError of a converter, and errors of ``put`` that are not tolerated.
        """
        assert self._runners, "the harness is not started"
        waits_s: list[float] = []
        taken = [self._deliver_to(runner, waits_s) for runner in self._runners]
        self.asked_wait_s = min(waits_s, default=None)
        return all(taken)

    def _deliver_to(self, runner: _TestRunner, waits_s: list[float]) -> bool:
        """Do what ``deliver`` does for one task, and add how long it asks to wait, if it asks."""
        for reads in range(_MOST_READS):
            if runner.puts is None:
                batch = self._read(runner)
                if batch is None and not reads:
                    runner.put_empty()
                    runner.read_from_elsewhere()
                if batch is None:
                    due_s = runner.call_due_s()
                    waits_s += [] if due_s is None else [due_s]
                    return True
                runner.puts = runner.begun_puts(batch)
            puts, runner.puts = runner.puts, None
            wait_s = next(puts, None)
            if wait_s is not None:
                runner.puts = puts
                waits_s.append(wait_s)
                return False
        raise AssertionError(f"the task has gone back to earlier offsets {_MOST_READS} times within one deliver")

    def _read(self, runner: _TestRunner) -> pa.RecordBatch | None:
        """Return the new records of partitions that are not paused, None if there are none. Opens new partitions."""
        runner.assign(frozenset(TopicPartition(row["topic"], row["partition"]) for row in self._new_rows(runner)))
        runner.read_from_elsewhere()
        rows = self._new_rows(runner)  # opened, the task may have asked for other offsets
        if not rows:
            return None
        batch = consume_batch(rows)
        apart = by_partition(batch)
        return apart[0] if len(apart) == 1 else batch  # as a consumer returns them

    def _new_rows(self, runner: _TestRunner) -> list[Record]:
        found = sorted(
            place
            for place in self.topics.partitions
            if runner.has(place)
            and place not in runner.held
            and place.topic != self._settings.topic
            and self._reads(place.topic)
        )
        return [
            row
            for partition in found
            for row in self.topics.read(partition, runner.positions.get(partition, 0), 1 << 30)
        ]

    def commit(self) -> dict[TopicPartition, int]:
        """Ask the tasks what is safe and commit that; return everything that is committed.

        A task that asks by ``context.request_commit`` needs no call of this. Raises the errors of ``pre_commit``;
        ``deliver`` then puts all since the last commit again, as a worker does.
        """
        for runner in self._runners:
            try:
                runner.commit()
            except BaseException:
                runner.puts = None  # records in hand are read again, too
                raise
        return self.committed

    def dead_letters(self) -> list[Record]:
        """Return what the dead letter queue holds: rows with key, value and headers."""
        for runner in self._runners:
            runner.flush_letters()
        partition = TopicPartition(self._settings.topic, 0)
        return self.topics.read(partition, 0, self.topics.end(partition))
