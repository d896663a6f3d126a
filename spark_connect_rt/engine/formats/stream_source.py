"""One run of a stream whose micro-batches are sent to Kafka; the stream's own offset is the source offset.

A batch is reported when its records are acknowledged, then Spark notes that it ran: a crash between repeats the batch.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.config.spark_connectors import SparkSourceConfig
from spark_connect_rt.engine.formats.source_frames import Sent, SourceFrames
from spark_connect_rt.engine.formats.stream_checkpoint import StreamCheckpoint

OnSent = Callable[[Sent, Mapping[str, Any]], None]


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
        """Go on behind the stored offset. Raises ConnectError."""
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
