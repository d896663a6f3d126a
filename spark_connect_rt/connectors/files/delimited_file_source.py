"""Rows of a CSV or JSON-lines file as records with typed columns; rows appended later follow.

Offsets are ``{"filename": f}`` -> ``{"position": bytes, "line": lines}``: the end of the last returned row. A row
counts when its line end is there. An unreadable row goes to ``context.report_errant`` with file, line, offset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_STRING
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import IdleLook, SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import non_empty, one_of
from spark_connect_rt.connectors.file_stores import STORE_ACCESS, is_remote, open_store
from spark_connect_rt.connectors.files.delimited_rows import DelimitedRows
from spark_connect_rt.connectors.files.delimited_settings import ROWS, checked_rows, row_problems
from spark_connect_rt.connectors.files.file_input import check_positions, stored_position
from spark_connect_rt.connectors.files.poll_interval import LookPace
from spark_connect_rt.connectors.files.store_folder import StoreInput, bucket_of, key_of
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import ConnectError

FILENAME, POSITION, LINE = "filename", "position", "line"

CONFIG = (
    ConfigDef(
        [
            ConfigKey(
                "file",
                Type.STRING,
                REQUIRED,
                Importance.HIGH,
                "File to read: a path, or an object such as s3://bucket/rows.csv. It must exist. A file may grow, and "
                "an object may be replaced by a longer one that begins in the same way.",
                non_empty,
            ),
            ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic that the rows are sent to.", non_empty),
            ConfigKey(
                "format",
                Type.STRING,
                "csv",
                Importance.HIGH,
                "csv: delimited rows. jsonl: one JSON object per line.",
                one_of("csv", "jsonl", ignore_case=True),
            ),
        ]
    )
    + ROWS
    + STORE_ACCESS
)


class DelimitedFileSourceConnector(SourceConnector):
    """Reads the rows of one CSV or JSON lines file, and rows that are appended to it later.

    Reads one CSV file or file of JSON lines with one task.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return DelimitedFileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: a file is read by one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other."""
        return row_problems(CONFIG, config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Offsets name the last row of each batch."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        check_positions(config, offsets)
        for _, offset in offsets:
            line = (offset or {}).get(LINE, 0)
            if isinstance(line, bool) or not isinstance(line, int) or line < 0:
                raise ConnectError(f"The value for the '{LINE}' key in the offset should be a non-negative integer")
        return True


class DelimitedFileSourceTask(SourceTask):
    """Reads one file by chunks; a chunk's rows are one batch of structs."""

    def start(self, config: Mapping[str, str]) -> None:
        """Resume where the last run ended. Raises BadConfigError, ConnectError (no file, an invalid offset)."""
        self._values = checked_rows(CONFIG, config)
        path: str = self._values["file"]
        make_input = None
        if is_remote(path):
            store = open_store(bucket_of(path), config)
            if store.find(key_of(path)) is None:
                raise ConnectError(f"file {path} does not exist (setting 'file')")
            make_input = lambda uri, position: StoreInput(uri, key_of(uri), store, position)  # noqa: E731
        elif not os.path.isfile(path):
            why = "is not a regular file" if os.path.exists(path) else "does not exist"
            raise ConnectError(f"file {path} {why} where the task runs (setting 'file')")
        self._partition = {FILENAME: path}
        (offset,) = self.context.offset_reader.offsets([self._partition])
        line = int((offset or {}).get(LINE, 0))
        position = stored_position(offset, path)
        report = self.context.report_errant
        self._rows = DelimitedRows(path, self._values, position, line, report, make_input=make_input)
        self._pace = LookPace()

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the next rows as one batch, None when there are none."""
        rows = self._rows.next()
        self._pace.looked(found=rows is not None)
        if rows is None or not len(rows):
            return None
        offset = {POSITION: self._rows.position, LINE: self._rows.line}
        return [rows_batch(self._values, self._partition, offset, self._rows.schema, rows)]

    def idle_wait_ms(self) -> int:
        """Return a short wait while data is sparse, a longer one while it flows, or after a while without."""
        return self._pace.wait_ms()

    def idle_look(self) -> IdleLook | None:
        """Return a check of the file's size, once no data has arrived for a while."""
        return self._rows.changes() if self._pace.calm else None

    def stop(self) -> None:
        """Close the file, if it is open."""
        if hasattr(self, "_rows"):
            self._rows.close()


def rows_batch(
    values: Mapping[str, Any],
    partition: Mapping[str, Any],
    offset: Mapping[str, Any],
    schema: Any,
    rows: pa.StructArray,
) -> SourceBatch:
    """Return rows of a file as one batch for the topic of ``values``, with the key that ``key.field`` names."""
    key = values["key.field"]
    return SourceBatch(
        partition,
        offset,
        values["topic"],
        rows,
        schema,
        None if key is None else pc.cast(rows.field(key), pa.string()),
        None if key is None else OPTIONAL_STRING,
    )
