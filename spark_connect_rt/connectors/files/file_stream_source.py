"""Lines of a growing file as records (Java ``FileStreamSourceConnector``): same settings, same offsets.

A record is a complete line without its end (LF, CRLF or CR); an incomplete last line waits for its end. Offsets are
``{"filename": f}`` -> ``{"position": bytes}``, so each resumes where the other stopped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import STRING
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import IdleLook, SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import non_empty
from spark_connect_rt.connectors.files.file_input import FileInput, check_positions, stored_position
from spark_connect_rt.connectors.files.poll_interval import LookPace
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import ConnectError

FILE, TOPIC, BATCH_SIZE = "file", "topic", "batch.size"
FILENAME, POSITION = "filename", "position"
CHUNK_BYTES = 1 << 20
SMALL_BYTES = 64 << 10  # complete lines of fewer were all there was
LINE_LIMIT_BYTES = 256 << 20
_LF = 10

CONFIG = ConfigDef(
    [
        ConfigKey(FILE, Type.STRING, None, Importance.HIGH, "File to read. It may appear later and may grow."),
        ConfigKey(TOPIC, Type.STRING, REQUIRED, Importance.HIGH, "Topic that the lines are sent to.", non_empty),
        ConfigKey(
            BATCH_SIZE,
            Type.INT,
            2_000,
            Importance.LOW,
            "Most lines of a poll. If it is not set, a poll returns about 1 MiB of lines.",
        ),
    ]
)


class FileStreamSourceConnector(SourceConnector):
    """Reads lines of text from a file, and lines that are appended to it later.

    One task, one file.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of the three settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: a file is read by one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Reject standard input: tasks run on executors, which have none."""
        return {} if config.get(FILE) else {FILE: [f"{FILE} must be set: an executor has no standard input to read"]}

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Declare it: positions in a file are exact. Reading standard input has none."""
        return ExactlyOnceSupport.SUPPORTED if config.get(FILE) else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets, in Java's words. Raises ConnectError."""
        check_positions(config, offsets)
        return True


class FileStreamSourceTask(SourceTask):
    """Reads one file by chunks; a chunk's complete lines are one batch."""

    def start(self, config: Mapping[str, str]) -> None:
        """Resume where the last run ended. Raises BadConfigError, ConnectError (an invalid offset)."""
        values = CONFIG.parse(config)
        path = values[FILE]
        if not path:
            raise ConnectError(f"{FILE} must be set: an executor has no standard input to read")
        self._topic: str = values[TOPIC]
        self._partition = {FILENAME: path}
        self._limit: int | None = values[BATCH_SIZE] if config.get(BATCH_SIZE) else None
        (offset,) = self.context.offset_reader.offsets([self._partition])
        self._input = FileInput(path, stored_position(offset, path), self.context.record_event)
        self._pace = LookPace()

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the complete lines of the next chunk as one batch, None when there are none."""
        if self._pace.rests():
            return None
        chunk, complete = self._complete_lines()
        if not complete:
            self._pace.looked(found=False)
            return None
        values, end = split_lines(chunk[:complete], self._limit)
        self._pace.looked(found=True, caught_up=end == complete < SMALL_BYTES)
        self._input.advance(end)
        offset = {POSITION: self._input.position}
        return [SourceBatch(self._partition, offset, self._topic, values, STRING)]

    def _complete_lines(self) -> tuple[bytes, int]:
        """Return a chunk from the position on and where its last complete line ends, 0 when it has none."""
        available = self._input.available()
        if not available:
            return b"", 0
        size_bytes = CHUNK_BYTES
        while True:
            chunk = self._input.read(min(size_bytes, available))
            end = complete_end(chunk)
            if end or len(chunk) >= available or not chunk:
                self._input.incomplete_bytes = 0 if end else len(chunk)
                return chunk, end
            if size_bytes >= LINE_LIMIT_BYTES:
                raise ConnectError(
                    f"file {self._input.path}: the line at byte {self._input.position} has no end within "
                    f"{LINE_LIMIT_BYTES} bytes"
                )
            size_bytes *= 4  # one line is longer than the chunk

    def idle_wait_ms(self) -> int:
        """Return a short wait while data is sparse, a longer one while it flows, or after a while without."""
        return self._pace.wait_ms()

    def idle_look(self) -> IdleLook | None:
        """Return a check of the file's size, once no data has arrived for a while."""
        return self._input.changes() if self._pace.calm else None

    def stop(self) -> None:
        """Close the file, if it is open."""
        if hasattr(self, "_input"):
            self._input.close()


def complete_end(chunk: bytes) -> int:
    """Return where the last complete line of the chunk ends, 0 when there is none.

    A CR at the very end is not complete: an LF may follow.
    """
    end = chunk.rfind(b"\n") + 1
    if end == len(chunk):
        return end
    return max(end, chunk.rfind(b"\r", end, len(chunk) - 1) + 1)


def split_lines(lines: bytes, limit: int | None = None) -> tuple[pa.Array, int]:
    """Return (the lines without their ends as strings, bytes used); at most ``limit`` lines.

    ``lines`` ends with a line end. Bytes that are not UTF-8 become U+FFFD, as in Java.
    """
    if b"\r" in lines:
        return _split_any_ends(lines, limit)
    if limit is None and len(lines) < SMALL_BYTES and lines.isascii():
        return _split_small(lines), len(lines)
    values = pc.split_pattern(_without_last_end(lines), pattern=b"\n").values
    if limit is not None and len(values) > limit:
        values = values[:limit]
        return as_text(values), pc.sum(pc.binary_length(values)).as_py() + limit
    return as_text(values), len(lines)


def _split_small(lines: bytes) -> pa.Array:
    """Return ``split_lines`` of a little ASCII with LF ends: for a third of the price, as no kernel is called."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _LF)
    starts = np.zeros(len(ends) + 1, np.int32)
    starts[1:] = ends - np.arange(len(ends))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(starts), pa.py_buffer(lines.replace(b"\n", b"")))


def _without_last_end(lines: bytes) -> pa.Array:
    """Return an array of the one element that ``lines`` are without their last byte; a view of them, no copy."""
    ends = pa.py_buffer(struct.pack("<ii", 0, len(lines) - 1))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(lines)])


def _split_any_ends(lines: bytes, limit: int | None) -> tuple[pa.Array, int]:
    if limit is None:
        unified = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return split_lines(unified)[0], len(lines)
    kept = lines.splitlines(keepends=True)[:limit]  # bytes.splitlines knows just LF, CRLF and CR
    return as_text(pa.array([line.rstrip(b"\r\n") for line in kept], pa.binary())), sum(map(len, kept))


def as_text(values: pa.Array) -> pa.Array:
    """Return a binary column as strings, with invalid UTF-8 replaced."""
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()], pa.string())
