"""Runs sink tasks that Spark itself writes: bounded batches of Kafka rows become a DataFrame (design.md 3).

One thread a task, in the driver. It waits for work, reads [position, end) of its partitions on the executors,
appends the rows to the table, and only then reports the batch as durable (I3). Same events as any other task.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.pipeline.dead_letters import ReportSettings
from spark_connect_rt.planning.range_planning import FlushRule, bounded_ends, flush_is_due, pending_count
from spark_connect_rt.ports.task_runner import (
    BatchDurable,
    OnTaskEvent,
    PartitionsReleased,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskLaunch,
    TaskPaused,
    TaskRunning,
)
from spark_connect_rt.protocol.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.spark.driver.table_batch import TableBatches, columns_session
from spark_connect_rt.spark.executor.errant_reports import ensure_dead_letter_queue
from spark_connect_rt.spark.executor.hosting import load_clients

POLL_MS = 250
CANCEL_MARGIN_S = 5.0


def flush_rule(config: Mapping[str, str]) -> FlushRule:
    """Return when batches are written, from ``flush.size``, ``flush.interval.ms``, ``batch.max.records``."""
    return FlushRule(
        size=int(config.get("flush.size", "100000")),
        interval_ms=int(config.get("flush.interval.ms", "10000")),
        max_records=int(config.get("batch.max.records", "1000000")),
    )


class SparkSinkTaskHost:
    """One run of one Spark-written sink task."""

    def __init__(self, launch: TaskLaunch, session: Callable[[], Any], clients: str, on_event: OnTaskEvent) -> None:
        self.launch = launch
        self._session = session
        self._clients = clients
        self._on_event = on_event
        self._rule = flush_rule(launch.config)
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._positions: dict[TopicPartition, int] = {}
        self._paused = launch.paused
        self._stopping = False
        self._failed = False
        self._records = 0
        self._waiting_since: float | None = None
        self._batches: TableBatches | None = None
        self._consumer: Any = None
        self._thread = threading.Thread(target=self._run, name=f"spark-sink-{launch.task}", daemon=True)

    def start(self) -> None:
        """Begin in an own thread."""
        self._thread.start()

    def pause(self) -> None:
        """Idle after the running batch."""
        self._command(lambda: self._set_paused(True))

    def resume(self) -> None:
        """Go on."""
        self._command(lambda: self._set_paused(False))

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take these partitions too."""
        self._command(lambda: self._assign(dict(offsets)))

    def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Give these up, after writing what waits would take too long: unwritten records are read again."""
        self._command(lambda: self._revoke(tuple(partitions)))

    def stop(self, timeout_ms: int) -> None:
        """End after the running batch; at the deadline its Spark job is cancelled. Returns at once."""

        def end() -> None:
            self._stopping = True

        self._command(end)
        threading.Thread(target=self._cancel_at, args=(timeout_ms,), daemon=True).start()

    def _cancel_at(self, timeout_ms: int) -> None:
        self._thread.join(timeout_ms / 1000)
        if self._thread.is_alive() and self._batches is not None:
            self._batches.cancel()

    def _command(self, act: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(act)
            self._wake.notify_all()

    def _run(self) -> None:
        drained = True
        try:
            self._open()
            while not self._stopping:
                self._step()
        except Exception:  # noqa: BLE001 - top of a task's thread: becomes FAILED with its trace
            drained = False
            if not self._stopping:
                self._on_event(TaskFailed(self.launch.task, self.launch.run, traceback.format_exc()))
        finally:
            self._close(drained)

    def _open(self) -> None:
        clients, worker_config = load_clients(self._clients), self.launch.worker_config
        launch = replace(self.launch, config=clients.resolve(self.launch.config, worker_config))
        settings = ReportSettings.from_config(clients.resolve(launch.connector_config, worker_config))
        ensure_dead_letter_queue(clients, settings, clients.resolve(launch.dead_letter_admin, worker_config))
        self._consumer = clients.consumer(clients.resolve(launch.client_config, worker_config))
        self._batches = TableBatches(launch, columns_session(self._session()), self._clients, self._consumer)
        self._batches.recover()
        self._on_event((TaskPaused if self._paused else TaskRunning)(launch.task, launch.run))

    def _step(self) -> None:
        for act in self._await_commands(POLL_MS):
            act()
        if self._stopping or self._paused or not self._positions:
            return
        ends = self._consumer.end_offsets(list(self._positions))
        pending = pending_count(self._positions, ends)
        if flush_is_due(self._rule, pending, self._waited_ms(pending)):
            self._write(bounded_ends(self._positions, ends, self._rule.max_records))

    def _waited_ms(self, pending: int) -> int:
        if not pending:
            self._waiting_since = None
            return 0
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return int((time.monotonic() - self._waiting_since) * 1000)

    def _write(self, ends: Mapping[TopicPartition, int]) -> None:
        assert self._batches is not None
        written = self._batches.write(self._positions, ends)
        self._positions.update(ends)
        self._waiting_since = None
        self._records += written.records
        self._on_event(
            BatchDurable(
                self.launch.task,
                self.launch.run,
                self.launch.generation,
                written.records,
                written.data_bytes,
                sink_offsets=tuple(ends.items()),
                skipped=written.skipped,
                topics=tuple(sorted({partition.topic for partition in ends})),
            )
        )

    def _await_commands(self, timeout_ms: int) -> list[Callable[[], None]]:
        with self._wake:
            if not self._commands:
                self._wake.wait(timeout_ms / 1000)
            taken, self._commands = self._commands, []
            return taken

    def _assign(self, offsets: dict[TopicPartition, int]) -> None:
        assert self._batches is not None
        started = self._batches.starts(offsets)
        self._positions.update(started)
        beyond = {p: o for p, o in started.items() if 0 <= offsets[p] < o}
        if beyond:  # the table already holds these: tell the group what a crash kept from being committed
            self._on_event(
                BatchDurable(
                    self.launch.task,
                    self.launch.run,
                    self.launch.generation,
                    0,
                    0,
                    sink_offsets=tuple(beyond.items()),
                )
            )

    def _revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
        self._on_event(PartitionsReleased(self.launch.task, self.launch.run, frozenset(partitions)))

    def _set_paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self._on_event((TaskPaused if paused else TaskRunning)(self.launch.task, self.launch.run))

    def _close(self, drained: bool) -> None:
        for act in self._await_commands(0):
            act()  # a revocation that came with the stop still wants its answer
        if self._consumer is not None:
            self._consumer.close()
        if drained and self._batches is not None:
            self._batches.forget()
        self._on_event(TaskEnded(self.launch.task, self.launch.run, drained, self._records))


class SparkSinkRunner:
    """Hosts every SPARK_SINK launch of this worker (task_runner.DriverHosted)."""

    def __init__(self, clients: str) -> None:
        self._clients = clients
        self._hosts: dict[ConnectorTaskId, SparkSinkTaskHost] = {}
        self._changed = threading.Condition()

    def open(self, on_event: OnTaskEvent, session: Callable[[], Any]) -> None:
        """Begin; events go to ``on_event``."""
        self._on_event = on_event
        self._session = session

    def start(self, launch: TaskLaunch) -> None:
        """Start a run."""
        host = SparkSinkTaskHost(launch, self._session, self._clients, self._forward)
        with self._changed:
            self._hosts[launch.task] = host
        host.start()

    def pause(self, task: ConnectorTaskId) -> None:
        """Idle after the running batch."""
        self._with_host(task, lambda host: host.pause())

    def resume(self, task: ConnectorTaskId) -> None:
        """Go on."""
        self._with_host(task, lambda host: host.resume())

    def stop(self, task: ConnectorTaskId, timeout_ms: int) -> None:
        """End after the running batch, cancelled at the deadline."""
        self._with_host(task, lambda host: host.stop(timeout_ms))

    def assign(self, task: ConnectorTaskId, offsets: Mapping[TopicPartition, int]) -> None:
        """Take these partitions too."""
        self._with_host(task, lambda host: host.assign(offsets))

    def revoke(self, task: ConnectorTaskId, partitions: Sequence[TopicPartition]) -> None:
        """Give these partitions up."""
        self._with_host(task, lambda host: host.revoke(partitions))

    def close(self, timeout_ms: int) -> None:
        """Stop every run and wait for its end."""
        with self._changed:
            hosts = list(self._hosts.values())
        for host in hosts:
            host.stop(timeout_ms)
        with self._changed:
            self._changed.wait_for(lambda: not self._hosts, timeout=timeout_ms / 1000 + CANCEL_MARGIN_S)

    def _with_host(self, task: ConnectorTaskId, act: Callable[[SparkSinkTaskHost], None]) -> None:
        with self._changed:
            host = self._hosts.get(task)
        if host is not None:
            act(host)

    def _forward(self, event: TaskEvent) -> None:
        if isinstance(event, TaskEnded):
            with self._changed:
                host = self._hosts.get(event.task)
                if host is not None and host.launch.run == event.run:
                    del self._hosts[event.task]
                self._changed.notify_all()
        self._on_event(event)
