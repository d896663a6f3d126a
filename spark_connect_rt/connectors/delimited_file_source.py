"""Streams a CSV (with header) or JSON-lines file into a topic, one record a row; appended rows follow.

Source partition ``{"filename": f}``, source offset ``{"position": bytes, "line": lines read}``. One task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import OneOf
from spark_connect_rt.connectors.delimited_text import (
    Dialect,
    complete_rows_end,
    parse_columns,
    parse_row,
    parse_schema,
    raw_rows,
    struct_type,
)
from spark_connect_rt.errors import ConnectError, DataError

CHUNK_BYTES = 1 << 20
LONGEST_ROW_BYTES = 64 << 20

CONFIG = ConfigDef(
    [
        ConfigKey("file", Type.STRING, REQUIRED, Importance.HIGH, "The file to read; it must exist."),
        ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "The topic to write to."),
        ConfigKey(
            "format",
            Type.STRING,
            "csv",
            Importance.HIGH,
            "csv (the first line names the columns) or jsonl (one JSON value a line).",
            check=OneOf(("csv", "jsonl")),
        ),
        ConfigKey(
            "schema",
            Type.STRING,
            "",
            Importance.MEDIUM,
            "Types of CSV columns, name:type,... with int8..int64, float32, float64, boolean, string. "
            "A column that is not named is a string.",
        ),
        ConfigKey("null.values", Type.LIST, "", Importance.LOW, "CSV texts that mean null; empty text always does."),
        ConfigKey("delimiter", Type.STRING, ",", Importance.LOW, "The character between two CSV cells."),
    ]
)


class DelimitedFileSourceConnector(SourceConnector):
    """Reads one file with one task."""

    def config_def(self) -> ConfigDef:
        """Return the settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the task."""
        return DelimitedFileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One file, one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check the schema's text."""
        try:
            parse_schema(config.get("schema", ""))
        except DataError as error:
            return {"schema": [str(error)]}
        return {}


class DelimitedFileSourceTask(SourceTask):
    """Reads complete rows as they are there."""

    _file: BinaryIO | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Open the file and go where the committed offset says. Raises ConnectError for a missing file."""
        self._config = config
        self._path = Path(config["file"])
        self._partition = {"filename": config["file"]}
        self._quiet_polls = 0
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise ConnectError(
                f"file={self._path}: {error.strerror}; correct `file`, or restart the task once it is there",
                code="CRT-1051",
            ) from error
        self._position = self._line = 0
        self._dialect = self._read_header() if config.get("format", "csv") == "csv" else None
        (stored,) = self.context.offset_reader.offsets([self._partition])
        if stored is not None:
            self._position, self._line = int(stored["position"]), int(stored.get("line", 0))
        self._check_size()

    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the complete rows of the next MiB."""
        text = self._complete_text()
        if not text:
            self._quiet_polls += 1
            return None
        self._quiet_polls = 0
        position, line = self._position, self._line
        self._position += len(text)
        self._line += text.count(b"\n")
        if self._dialect is None:
            return self._json_lines(text, line, position)
        values = parse_columns(text, self._dialect)
        if values is None:
            values = self._row_by_row(text, line, position, self._dialect)
        return [SourceBatch(self._partition, self._offset(), self._config["topic"], values)]

    def idle_wait_ms(self) -> int:
        """Look often while rows come, ten times a second when none do."""
        return 20 if self._quiet_polls < 50 else 100

    def stop(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _offset(self) -> dict[str, int]:
        return {"position": self._position, "line": self._line}

    def _quote(self) -> bytes:
        return b'"' if self._dialect is not None else b"\n\n"  # jsonl: no quote spans lines

    def _complete_text(self) -> bytes:
        assert self._file is not None
        size = CHUNK_BYTES
        while os.fstat(self._file.fileno()).st_size > self._position:
            self._file.seek(self._position)
            text = self._file.read(size)
            end = complete_rows_end(text, self._quote())
            if end:
                return text[:end]
            if len(text) < size:
                return b""  # the last row is still being written
            size *= 4
            if size > LONGEST_ROW_BYTES:
                raise DataError(f"{self._place(self._line, self._position)}: no row end in {len(text)} bytes")
        return b""

    def _row_by_row(self, text: bytes, line: int, position: int, dialect: Dialect) -> pa.Array:
        rows = []
        for row in raw_rows(text, self._quote(), line + 1, position):
            try:
                rows.append(parse_row(row, dialect))
            except DataError as error:
                self.context.report_errant(self._place(row.line, row.offset), error)
        return pa.array(rows, type=struct_type(dialect))

    def _json_lines(self, text: bytes, line: int, position: int) -> list[SourceRecord | SourceBatch]:
        records: list[SourceRecord | SourceBatch] = []
        for row in raw_rows(text, self._quote(), line + 1, position):
            try:
                value = orjson.loads(row.text)
            except orjson.JSONDecodeError as error:
                self.context.report_errant(self._place(row.line, row.offset), DataError(f"not JSON: {error}"))
                continue
            after = {"position": row.offset + len(row.text), "line": row.line}
            records.append(SourceRecord(self._partition, after, self._config["topic"], value))
        return records

    def _place(self, line: int, offset: int) -> str:
        return f"file {self._path} line {line} offset {offset}"

    def _read_header(self) -> Dialect:
        assert self._file is not None
        header = self._file.readline()
        if not header.endswith(b"\n"):
            raise ConnectError(f"file={self._path}: it has no complete header line", code="CRT-1052")
        self._position, self._line = len(header), 1
        delimiter = self._config.get("delimiter", ",")
        names = header.decode("utf-8-sig").rstrip("\r\n").split(delimiter)
        names = [name.strip('"') for name in names]
        types = parse_schema(self._config.get("schema", ""))
        if missing := sorted(set(types) - set(names)):
            raise ConnectError(
                f"file={self._path}: the schema names columns that the header lacks: {', '.join(missing)}",
                code="CRT-1053",
            )
        nulls = [word.strip() for word in self._config.get("null.values", "").split(",")]
        return Dialect(
            tuple((name, types.get(name, pa.string())) for name in names),
            delimiter,
            null_values=tuple(dict.fromkeys(["", *nulls])),
        )

    def _check_size(self) -> None:
        assert self._file is not None
        size = os.fstat(self._file.fileno()).st_size
        if size < self._position:
            raise ConnectError(
                f"file={self._path}: it has {size} bytes but the committed offset is {self._position}: it was "
                "truncated or replaced. Reset the connector's offsets to read it from its beginning.",
                code="CRT-1054",
            )
