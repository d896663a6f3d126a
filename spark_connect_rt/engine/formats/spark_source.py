"""Runs source tasks that Spark itself reads: each batch is a Spark job whose tasks send their rows (decision 0007).

One thread a task, in the driver. It finds out what is new, has it sent, and only then reports the batch with the
source offset behind it (I3).
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.spark_source import SparkSourceTask
from spark_connect_rt.config.spark_connectors import BULK, INCREMENTAL, ONCE, STREAM, SparkSourceConfig
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.engine.executor.errant_reports import ensure_dead_letter_queue
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.formats.driver_tasks import DriverTask, DriverTasks, set_active
from spark_connect_rt.engine.formats.source_frames import SentCounts, SourceFrames
from spark_connect_rt.engine.formats.stream_checkpoint import StreamCheckpoint
from spark_connect_rt.engine.formats.table_batch import columns_session
from spark_connect_rt.engine.task_runner import BatchDurable, OnTaskEvent, ReadOffsets, TaskLaunch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings

# One run of a stream whose micro-batches are sent to Kafka; the stream's own offset is the source offset.
#
# A batch is reported when its records are acknowledged, then Spark notes that it ran: a crash between repeats the
# batch.


OnSent = Callable[[SentCounts, Mapping[str, Any]], None]


class _StoppingError(Exception):
    """The task ends: this batch is not begun."""


class StreamSource:
    """A streaming query of Spark that runs as a source's task."""

    def __init__(self, frames: SourceFrames, config: SparkSourceConfig, spark: Any, on_sent: OnSent) -> None:
        self._frames = frames
        self._on_sent = on_sent
        self._own_folder = None if config.checkpoint else tempfile.mkdtemp(prefix="connectrt-stream-")
        self._folder = config.checkpoint or f"file://{self._own_folder}/checkpoint"
        self._checkpoint = StreamCheckpoint(spark, self._folder, frames.connector)
        self._interval_ms = config.poll_interval_ms
        self._query: Any = None
        self._sending = threading.Lock()
        self._stopping = False
        self._error: Exception | None = None

    def start(self, stored: Mapping[str, Any] | None) -> None:
        """Resume after the stored offset. Raises ConnectError."""
        self._checkpoint.prepare(stored)
        self._stopping = False
        writer = self._frames.stream().writeStream.foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", self._folder)
        self._query = writer.trigger(processingTime=f"{self._interval_ms} milliseconds").start()

    def _on_batch(self, frame: Any, batch: int) -> None:
        with self._sending:
            try:
                if self._stopping:
                    raise _StoppingError
                offset = self._checkpoint.offset_of(batch)
                self._on_sent(self._frames.send(frame, offset), offset)
            except Exception as error:
                self._error = error
                raise

    def check(self) -> None:
        """Raise what ended the query, if something did."""
        if self._query is not None and not self._query.isActive:
            ended = self._error or self._query.exception() or RuntimeError("the stream ended unexpectedly")
            raise ended

    def stop(self) -> None:
        """End behind the running batch."""
        if self._query is None:
            return
        self._stopping = True
        with self._sending:
            pass
        self._query.stop()
        self._query = None

    def cancel(self) -> None:
        """End within the running batch, which is sent again. Any thread."""
        query = self._query
        self._stopping = True
        if query is not None:
            query.stop()

    def close(self) -> None:
        """End, and leave nothing temporary."""
        self.stop()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


TASK_CLASS = f"{SparkSourceTask.__module__}:{SparkSourceTask.__qualname__}"
POLL_MS = 250
KILLED_S = 1.0  # spark.python.task.killTimeout and Spark's own half second: cancelled Python lives on for so long


class SparkSourceTaskHost(DriverTask):
    """One run of one such task."""

    def __init__(
        self,
        launch: TaskLaunch,
        session: Callable[[], Any],
        clients: str,
        on_event: OnTaskEvent,
        read_offsets: ReadOffsets,
    ) -> None:
        super().__init__(launch, on_event, "spark-source")
        self._session = session
        self._clients = clients
        self._read_offsets = read_offsets
        self._frames: SourceFrames | None = None
        self._stream: StreamSource | None = None
        self._streaming = False
        self._next_at_s = 0.0

    def _open(self) -> None:
        launch, clients = self.launch, load_clients(self._clients)
        if launch.offsets_topic:
            raise ConnectError(
                f"connector={launch.task.connector}: Spark writes records and offsets in different transactions, "
                "so it cannot run on a worker with exactly.once.source.support=enabled"
            )
        self._config = SparkSourceConfig.of(clients.resolve(launch.config, launch.worker_config))
        reporting = ReportSettings.from_config(clients.resolve(launch.connector_config, launch.worker_config))
        ensure_dead_letter_queue(clients, reporting, clients.resolve(launch.dead_letter_admin, launch.worker_config))
        (self._offset,) = self._read_offsets(launch.task, [self._config.partition()])
        spark = columns_session(self._session())
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # the text of an offset means the same everywhere
        set_active(spark)
        # Executors get no secret: they resolve the references that they need.
        self._frames = SourceFrames(replace(launch, config=NO_SETTINGS), self._config, spark, self._clients)
        if self._config.mode == STREAM:
            self._stream = StreamSource(self._frames, self._config, spark, self._report)

    def _step(self) -> None:
        self._obey(POLL_MS)
        if self._stream is not None:
            self._step_stream(self._stream)
            return
        if self._stopping or self._paused or time.monotonic() < self._next_at_s:
            return
        if not self._send_next():
            self._next_at_s = time.monotonic() + self._config.poll_interval_ms / 1000

    def _step_stream(self, stream: StreamSource) -> None:
        wanted = not self._stopping and not self._paused
        if self._streaming:
            stream.check()
        if wanted and not self._streaming:
            stream.start(self._offset)
        elif not wanted and self._streaming:
            stream.stop()
        self._streaming = wanted

    def _send_next(self) -> bool:
        """Send one batch; False: there is no more for now."""
        assert self._frames is not None
        mode, stored = self._config.mode, self._offset
        if mode == INCREMENTAL:
            found = self._frames.beyond(stored)
            if found is None:
                return False
            frame, offset = found
            self._report(self._frames.send(frame, offset), offset)
            return True
        if mode == ONCE and stored is not None:
            return False
        passes = {"pass": int((stored or {}).get("pass", 0)) + 1} if mode == BULK else {}
        sent = self._frames.send(self._frames.whole(), passes)
        self._report(sent, {"rows": sent.records + sent.skipped, **passes})
        return False

    def _report(self, sent: SentCounts, offset: Mapping[str, Any]) -> None:
        self._offset = offset
        self._records += sent.records
        launch = self.launch
        self._on_event(
            BatchDurable(
                launch.task,
                launch.run,
                launch.generation,
                sent.records,
                sent.data_bytes,
                source_offsets=((self._config.partition(), offset),),
                skipped=sent.skipped,
                topics=sent.topics,
            )
        )

    def _cancel(self) -> None:
        if self._frames is not None:
            self._frames.cancel()
        if self._stream is not None:
            self._stream.cancel()

    def _close(self, drained: bool) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._frames is not None and self._frames.cancelled:
            time.sleep(KILLED_S)


class SparkSourceRunner(DriverTasks):
    """Hosts every launch of TASK_CLASS of this worker."""

    def __init__(self, clients: str) -> None:
        super().__init__(clients)
        self.read_offsets: ReadOffsets = lambda task, partitions: [None for _ in partitions]

    def _new_task(self, launch: TaskLaunch) -> DriverTask:
        return SparkSourceTaskHost(launch, self._session, self._clients, self._forward, self.read_offsets)
