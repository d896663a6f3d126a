"""Rows of a CSV or JSON-lines file as records with typed columns; rows appended later follow.

Offsets are ``{"filename": f}`` -> ``{"position": bytes, "line": lines}``: the end of the last row that was handed on.
A row counts when its line end is there. An unreadable row goes to ``context.report_errant`` with file, line, offset.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_STRING, Schema
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import non_empty, one_of
from spark_connect_rt.connectors.file_input import FileInput, check_positions, stored_position
from spark_connect_rt.connectors.row_formats import (
    CsvFormat,
    JsonLinesFormat,
    Segment,
    csv_record,
    header_names,
    parse_types,
    row_schema,
    segments,
)
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError

FILENAME, POSITION, LINE = "filename", "position", "line"
CHUNK_BYTES = 1 << 20
ROW_LIMIT_BYTES = 16 << 20
RECENT_POLLS = 100
EAGER_WAIT_MS, IDLE_WAIT_MS = 20, 100


def _types_problem(text: Any) -> str | None:
    try:
        parse_types(text or "")
    except ValueError as error:
        return str(error)
    return None


def _delimiter_problem(text: Any) -> str | None:
    good = isinstance(text, str) and len(text) == 1 and text.isascii() and text not in '"\r\n'
    return None if good else "must be one ASCII character, no quote and no line break"


CONFIG = ConfigDef(
    [
        ConfigKey(
            "file", Type.STRING, REQUIRED, Importance.HIGH, "File to read; it must be there, it may grow.", non_empty
        ),
        ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic the rows go to.", non_empty),
        ConfigKey(
            "format",
            Type.STRING,
            "csv",
            Importance.HIGH,
            "csv: delimited rows. jsonl: one JSON object a line.",
            one_of("csv", "jsonl", ignore_case=True),
        ),
        ConfigKey(
            "schema",
            Type.STRING,
            "",
            Importance.HIGH,
            "Columns as name:type, separated by commas; types int8 to int64, float32, float64, boolean, string. "
            "CSV columns it leaves out are strings. JSON lines need it.",
            _types_problem,
        ),
        ConfigKey("header", Type.BOOLEAN, True, Importance.MEDIUM, "The first CSV row holds the column names."),
        ConfigKey(
            "delimiter", Type.STRING, ",", Importance.MEDIUM, "Character between CSV columns.", _delimiter_problem
        ),
        ConfigKey(
            "null.values",
            Type.LIST,
            "",
            Importance.MEDIUM,
            "Words that mean null in CSV, besides nothing at all; a quoted word is never null.",
        ),
        ConfigKey(
            "key.field", Type.STRING, None, Importance.LOW, "Column whose text is the record's key; not set: no key."
        ),
    ]
)


def _checked(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings. Raises BadConfigError."""
    # A tab is a delimiter that trimming would eat.
    delimiter = {"\\t": "\t"}.get(config.get("delimiter", ","), config.get("delimiter", ","))
    values = CONFIG.parse({**config, "delimiter": "," if delimiter in ("\t", " ") else delimiter})
    values["delimiter"] = delimiter
    values["columns"] = parse_types(values["schema"])
    if not values["columns"] and (values["format"].lower() == "jsonl" or not values["header"]):
        raise BadConfigError({"schema": ["must name the columns of JSON lines, and of CSV without a header"]})
    return values


class DelimitedFileSourceConnector(SourceConnector):
    """One task, one file."""

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the task."""
        return DelimitedFileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: a file is read by one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other; what a single setting shows is reported by itself."""
        if any(value.errors for value in CONFIG.validate({**config, "delimiter": ","})):
            return {}
        try:
            _checked(config)
        except BadConfigError as error:
            return {name: list(why) for name, why in error.problems.items()}
        return {}

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
        """Go to where the last run ended. Raises BadConfigError, ConnectError (no file, a useless offset)."""
        self._values = _checked(config)
        path: str = self._values["file"]
        if not os.path.isfile(path):
            why = "is not a regular file" if os.path.exists(path) else "does not exist"
            raise ConnectError(f"file {path} {why} where the task runs (setting 'file')")
        self._partition = {FILENAME: path}
        (offset,) = self.context.offset_reader.offsets([self._partition])
        self._input = FileInput(path, stored_position(offset, path))
        self._line = int((offset or {}).get(LINE, 0))  # lines before the position
        self._format: CsvFormat | JsonLinesFormat | None = None
        self._schema: Schema | None = None
        self._restarts = 0
        self._pending: deque[Segment] = deque()
        self._pending_chunk = b""
        self._eager_polls = 0

    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the next rows as one batch, None when there are none."""
        if not self._pending:
            while (chunk := self._complete_rows()) is None:
                pass  # a row without end was given up: look behind it
            if not chunk:
                self._eager_polls = max(0, self._eager_polls - 1)
                return None
            self._eager_polls = RECENT_POLLS
            self._cut(chunk)
        while self._pending:
            batch = self._take(self._pending.popleft())
            if batch is not None:
                return [batch]
        return None

    def idle_wait_ms(self) -> int:
        """Return a short wait while rows came lately, a longer one after."""
        return EAGER_WAIT_MS if self._eager_polls else IDLE_WAIT_MS

    def stop(self) -> None:
        """Close the file."""
        if hasattr(self, "_input"):
            self._input.close()

    def _complete_rows(self) -> bytes | None:
        """Return the whole records of the next chunk, empty when there are none; None: a row was given up."""
        available = self._input.available()
        if self._input.restarts != self._restarts:
            self._restarts, self._line, self._format = self._input.restarts, 0, None
        if not available or not self._has_format(available):
            return b""
        assert self._format is not None
        size_bytes = CHUNK_BYTES
        while True:
            chunk = self._input.read(size_bytes)
            end = self._format.complete_end(chunk)
            if end or len(chunk) < size_bytes:
                self._input.incomplete_bytes = 0 if end else len(chunk)
                return chunk[:end]
            if size_bytes >= ROW_LIMIT_BYTES:
                self._give_up_endless(chunk)
                return None
            size_bytes *= 4  # one row is longer than the chunk, or a quote is never closed

    def _give_up_endless(self, chunk: bytes) -> None:
        error = DataError(f"no row end within {len(chunk)} bytes; is a quote never closed?")
        self.context.report_errant(self._place(), error)
        self._advance(chunk[: chunk.find(b"\n") + 1] or chunk)

    def _has_format(self, available: int) -> bool:
        """Learn the columns, from the header if there is one; False while the header is not complete."""
        if self._format is not None:
            return True
        columns: dict[str, str] = self._values["columns"]
        if self._values["format"].lower() == "jsonl":
            self._format = JsonLinesFormat(columns)
        elif not self._values["header"]:
            self._format = self._csv(columns)
        else:
            header = self._read_header()
            if header is None:
                self._input.incomplete_bytes = available
                return False
            self._format = self._csv({name: columns.get(name, "string") for name in header})
            missing = [name for name in columns if name not in header]
            if missing:
                raise ConnectError(
                    f"file {self._input.path}: the header has no column {', '.join(missing)} (setting 'schema')"
                )
        key = self._values["key.field"]
        if key is not None and key not in self._format.columns:
            raise ConnectError(f"file {self._input.path}: there is no column {key} (setting 'key.field')")
        self._schema = row_schema(self._format.columns)
        return True

    def _csv(self, columns: Mapping[str, str]) -> CsvFormat:
        return CsvFormat(columns, self._values["delimiter"], tuple(self._values["null.values"]))

    def _read_header(self) -> list[str] | None:
        """Return the column names, also when reading goes on further down; None: the first row is not complete."""
        start = self._input.read(CHUNK_BYTES, ahead_bytes=-self._input.position)
        found = csv_record(self._values["delimiter"]).match(start)
        if found is None:
            return None
        if not self._input.position:
            self._advance(found.group())
        try:
            return header_names(found.group(), self._values["delimiter"])
        except DataError as error:
            raise ConnectError(f"file {self._input.path}: {error}") from error

    def _cut(self, chunk: bytes) -> None:
        """Queue the chunk's rows: all at once when they are readable, else in segments."""
        assert self._format is not None
        self._pending_chunk = chunk
        try:
            rows = self._format.parse(chunk) if chunk.strip() else None
            self._pending.append(Segment(0, len(chunk), rows=rows))
        except DataError:
            self._pending.extend(segments(chunk, self._format.record_ends(chunk), self._format.parse))

    def _take(self, segment: Segment) -> SourceBatch | None:
        """Move past a segment; return its rows as a batch. Raises DataError: unreadable and not tolerated."""
        text = self._pending_chunk[segment.start : segment.end]
        if segment.reason is not None:
            self.context.report_errant(self._place(), DataError(segment.reason), text)
        self._advance(text)
        if segment.rows is None or not len(segment.rows):
            return None
        offset = {POSITION: self._input.position, LINE: self._line}
        keys = self._keys(segment.rows)
        return SourceBatch(
            self._partition,
            offset,
            self._values["topic"],
            segment.rows,
            self._schema,
            keys,
            None if keys is None else OPTIONAL_STRING,
        )

    def _keys(self, rows: pa.StructArray) -> pa.Array | None:
        name = self._values["key.field"]
        return None if name is None else pc.cast(rows.field(name), pa.string())

    def _place(self) -> str:
        return f"file {self._input.path} line {self._line + 1} offset {self._input.position}"

    def _advance(self, text: bytes) -> None:
        self._input.advance(len(text))
        self._line += text.count(b"\n")
