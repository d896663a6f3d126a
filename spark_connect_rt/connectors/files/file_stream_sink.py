"""Records as lines of a file (Java ``FileStreamSinkConnector``): ``toString`` of each value, appended.

At-least-once: after a crash between append and commit the same lines are appended again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.errors import ConnectError

FILE = "file"
CONFIG = ConfigDef(
    [ConfigKey(FILE, Type.STRING, None, Importance.HIGH, "File to append to. It is created if it does not exist.")]
)


class FileStreamSinkConnector(SinkConnector):
    """Appends each record to a file as one line of text.

    Any number of tasks append to one file.
    """

    def config_def(self) -> ConfigDef:
        """Return the declaration of the file's setting."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return FileStreamSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Nothing is kept but the group's offsets."""
        return True

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Reject standard output: tasks run on executors, where it is not visible."""
        return {} if config.get(FILE) else {FILE: [f"{FILE} must be set: an executor's standard output is not read"]}


class FileStreamSinkTask(SinkTask):
    """Appends; a put is one or few writes, so that tasks sharing a file do not mix within lines."""

    _descriptor = -1

    def start(self, config: Mapping[str, str]) -> None:
        """Open the file for appending. Raises ConnectError naming it."""
        path = CONFIG.parse(config)[FILE]
        if not path:
            raise ConnectError(f"{FILE} must be set: an executor's standard output is not read")
        self._path: str = path
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise ConnectError(f"file {path} cannot be opened for writing: {error.strerror or error}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Append a line each. Raises ConnectError: the disk is full, or the like."""
        if not records:
            return
        lines = [value if type(value := record.value) is str else java_text(value) for record in records]
        lines.append("")
        self._append("\n".join(lines).encode("utf-8", "replace"))

    def put_batch(self, batch: SinkBatch) -> bool:
        """Append text columns, all lines at once; others go by records. Raises as ``put``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_string(batch.values.type):
            return False
        lines = pc.binary_join_element_wise(pc.fill_null(batch.values, "null"), "", "\n")
        _, ends, text = lines.buffers()
        limits = memoryview(ends).cast("i")[lines.offset : lines.offset + len(lines) + 1]
        self._append(memoryview(text)[limits[0] : limits[-1]])
        return True

    def _append(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise ConnectError(f"file {self._path} cannot be written: {error.strerror or error}") from error

    def reads_headers(self) -> bool:
        """No: a line is a value."""
        return False

    def may_put_halves(self) -> bool:
        """Return False: a write error is never a record's fault, and lines would be written twice."""
        return False

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Do nothing: the operating system has all records already, as in Java."""

    def stop(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
