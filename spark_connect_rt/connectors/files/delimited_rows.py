"""The rows of one CSV or JSON-lines file in order, by the batch, each with the position from which reading resumes.

A row counts when its line end is there. In a file that is ``whole`` (it does not grow) the end of the file counts as a
line end. An unreadable row is reported with file, line and offset, and left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.connectors.files.compressed_input import compression_of, whole_input
from spark_connect_rt.connectors.files.file_input import FileInput, RowInput
from spark_connect_rt.connectors.files.file_text import FileText, file_text
from spark_connect_rt.connectors.files.row_formats import (
    CsvFormat,
    JsonLinesFormat,
    Segment,
    csv_record,
    header_names,
    inferred_types,
    row_schema,
    segments,
)
from spark_connect_rt.errors import ConnectError, DataError

CHUNK_BYTES = 1 << 20
ROW_LIMIT_BYTES = 16 << 20
LETTER_BYTES = 64 << 10  # of a row that has no end

ReportErrant = Callable[[str, Exception, bytes | None], None]
"""(place, error, the unreadable bytes); raises DataError where errors are not tolerated."""


class DelimitedRows:
    """Reads one file; ``values`` are ``delimited_settings.checked_rows``'."""

    def __init__(
        self,
        path: str,
        values: Mapping[str, Any],
        position: int,
        line: int,
        report_errant: ReportErrant,
        *,
        whole: bool = False,
        make_input: Callable[[str, int], RowInput] | None = None,
    ) -> None:
        """Go to byte ``position``, after ``line`` lines. Raises ConnectError: a whole file is unusable.

        ``make_input`` returns the input from a path and a position, as ``FileInput``. None: the file is local.
        """
        self.line = line
        self.given_up = 0  # rows that were reported
        self.schema: Schema | None = None  # of a row, known with the first batch
        self._input: RowInput = (make_input or (whole_input if whole else FileInput))(path, position)
        self._text: FileText | None = None
        self._values = values
        self._report = report_errant
        self._whole = whole
        self._format: CsvFormat | JsonLinesFormat | None = None
        self._restarts = 0
        self._pending: deque[Segment] = deque()
        self._pending_chunk = b""
        self._pending_end = 0  # where the chunk ends in the file; its text may have a line end more

    @property
    def position(self) -> int:
        """Bytes up to the end of the last returned row."""
        return self._input.position

    def next(self) -> pa.StructArray | None:
        """Return the next rows; no rows if a chunk was unreadable. None: there are no more rows (yet).

        Raises DataError: an unreadable row is not tolerated. Raises ConnectError: the file or its header is unusable.
        """
        if not self._pending:
            while (chunk := self._complete_rows()) is None:
                pass  # a row without end was skipped: read on after it
            if not chunk:
                return None
            self._cut(chunk)
        while self._pending:
            rows = self._take(self._pending.popleft())
            if rows is not None:
                return rows
        return pa.array([], pa.struct([]))

    def changes(self) -> IdleLook | None:
        """Return a check whether the file has changed (``FileInput.changes``)."""
        return self._input.changes()

    def close(self) -> None:
        """Close the file, if it is open."""
        self._input.close()

    def _complete_rows(self) -> bytes | None:
        """Return the whole records of the next chunk, empty when there are none; None: a row was given up."""
        available = self._input.available()
        if self._input.restarts != self._restarts:
            self._restarts, self.line, self._format, self._text = self._input.restarts, 0, None, None
        if not available or not self._has_text() or not self._has_format(available):
            return b""
        assert self._format is not None
        size_bytes = CHUNK_BYTES
        while True:
            chunk, raw_bytes = self._read(size_bytes)
            at_end = raw_bytes < size_bytes
            end = self._format.complete_end(chunk)
            if end or (at_end and not self._whole) or not chunk:
                self._input.incomplete_bytes = 0 if end else raw_bytes
                return chunk[:end]
            if size_bytes >= ROW_LIMIT_BYTES or at_end:
                self._give_up_endless(chunk)
                return None
            size_bytes *= 4  # one row is longer than the chunk, or a quote is never closed

    def _has_text(self) -> bool:
        """Detect encoding and line ends, again until there is a line.

        False: there is nothing after the byte order mark.
        """
        if self._text is not None and self.line:
            return True
        start = self._input.read(CHUNK_BYTES, ahead_bytes=-self.position)
        if not self._whole and compression_of(start, self._input.path) is not None:
            raise ConnectError(
                f"file {self._input.path} is compressed, so it cannot grow. Read it with DirectorySource"
            )
        self._text = file_text(self._input.path, start, self._values["file.encoding"])
        if self.position < self._text.mark_bytes:
            self._input.advance(self._text.mark_bytes - self.position)
        return self._input.available() > 0

    def _read(self, size_bytes: int, ahead_bytes: int = 0) -> tuple[bytes, int]:
        """Return the text that follows, which in a whole file ends with a line end, and its size in the file."""
        assert self._text is not None
        raw = self._input.read(size_bytes, ahead_bytes)
        is_last = self._whole and len(raw) < size_bytes
        position = self.position + ahead_bytes
        text = self._text.utf8(raw, position, whole=is_last)
        self._pending_end = position + len(raw)
        return text + b"\n" if is_last and text and not text.endswith(b"\n") else text, len(raw)

    def _report_errant(self, place: str, error: Exception, data: bytes) -> None:
        self._report(place, error, data)
        self.given_up += 1

    def _give_up_endless(self, chunk: bytes) -> None:
        row = chunk[: chunk.find(b"\n") + 1] or chunk
        shown = row[:LETTER_BYTES]
        cut = "" if shown == row else f"; only the first {LETTER_BYTES} of its {len(row)} bytes are shown"
        error = DataError(f"no row end within {len(chunk)} bytes. Is a closing quote missing?{cut}")
        self._report_errant(self._place(), error, shown)
        self._advance(row)

    def _has_format(self, available: int) -> bool:
        """Learn the columns, from the header if there is one; False while the header is not complete."""
        if self._format is not None:
            return True
        columns: dict[str, str] = self._values["columns"]
        if self._values["format"] == "jsonl":
            self._format = JsonLinesFormat(self._inferred(columns, JsonLinesFormat({})))
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
            inferred = self._inferred(columns, self._format)
            found = tuple(name for name, kind in inferred.items() if name not in columns and kind != "string")
            self._format = self._csv({name: inferred.get(name, "string") for name in header}, found)
        key = self._values["key.field"]
        if key is not None and key not in self._format.columns:
            raise ConnectError(f"file {self._input.path}: column {key} does not exist (setting 'key.field')")
        self.schema = row_schema(self._format.columns)
        return True

    def _inferred(self, columns: Mapping[str, str], rows: CsvFormat | JsonLinesFormat) -> dict[str, str]:
        """Return ``columns`` and, where that is wanted, those that only the next rows show."""
        if not self._values["schema.infer"]:
            return dict(columns)
        chunk, _ = self._read(CHUNK_BYTES)
        try:
            found = inferred_types(rows, chunk[: rows.complete_end(chunk)])
        except DataError as error:
            raise ConnectError(f"file {self._input.path}: {error} (setting 'schema.infer')") from error
        return {**found, **columns}

    def _csv(self, columns: Mapping[str, str], inferred: tuple[str, ...] = ()) -> CsvFormat:
        return CsvFormat(columns, self._values["delimiter"], tuple(self._values["null.values"]), inferred)

    def _read_header(self) -> list[str] | None:
        """Return the column names, also when reading resumes further down. None: the first row is not complete."""
        assert self._text is not None
        mark_bytes = self._text.mark_bytes
        start, raw_bytes = self._read(CHUNK_BYTES, ahead_bytes=mark_bytes - self.position)
        found = csv_record(self._values["delimiter"]).match(start)
        if found is None:
            if self._whole or raw_bytes == CHUNK_BYTES:
                raise ConnectError(
                    f"file {self._input.path}: the header has no end within {raw_bytes} bytes. Close its quotes"
                )
            return None
        if self.position == mark_bytes:
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

    def _take(self, segment: Segment) -> pa.StructArray | None:
        """Move past a segment; return its rows. Raises DataError: unreadable and not tolerated."""
        text = self._pending_chunk[segment.start : segment.end]
        if segment.reason is not None:
            self._report_errant(self._place(), DataError(segment.reason), text)
        self._advance(text)
        return segment.rows if segment.rows is not None and len(segment.rows) else None

    def _place(self) -> str:
        return f"file {self._input.path} line {self.line + 1} offset {self._input.position}"

    def _advance(self, text: bytes) -> None:
        assert self._text is not None
        self._input.advance(min(self._text.raw_size(text), self._pending_end - self.position))
        self.line += text.count(b"\n")
