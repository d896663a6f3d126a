"""The output of one task's program that has not been returned yet: rows of streams, and states between them. Pure.

Owns this rule: a state is the offset of the records of its streams before it. So it follows them in an empty batch that
only moves offsets. Records after the last state of their stream keep the offset before them, and are read again after a
restart. So a transaction must not end while it holds a record that no state of its stream covers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.connectors.external_process.stream_rows import (
    FINGERPRINT,
    VERSION,
    Piece,
    Report,
    RowSettings,
    StreamRows,
    empty_batch,
    stream_schema,
)
from spark_connect_rt.connectors.record_times import wall_ms, with_time

STREAM, STATE, SHARED = "stream", "state", "shared"
"""Of a source partition, and of an offset: a stream's own state, and the part that several share; both JSON text."""
_NOT_IN_TOPICS = re.compile(r"[^a-zA-Z0-9._-]")
log = logging.getLogger(__name__)

Offset = Mapping[str, Any]


def topic_of(template: str, stream: str) -> str:
    """Return the topic of a stream; characters that no topic has become ``_``."""
    return template.replace("${stream}", _NOT_IN_TOPICS.sub("_", stream))


class Intake:
    """One task's streams. ``streams`` are those that state is kept of; records may name them by another word."""

    def __init__(
        self,
        streams: Sequence[str],
        offsets: Mapping[str, Offset],
        topic: str,
        settings: RowSettings,
        report: Report,
    ) -> None:
        """Take the streams and their stored offsets.

        Args:
            topic: with ``${stream}`` in the place of the stream's name.
            report: gives up an object that does not fit its stream's schema.
        """
        self.streams = tuple(streams)
        self.other_names: dict[str, str] = {}
        """Name of a stream in records -> the stream."""
        self._topic = topic
        self._settings = settings
        self._report = report
        self._before = {name: dict(offsets.get(name) or {STATE: None}) for name in streams}
        self._after = dict(self._before)
        self._moved: set[str] = set()
        self._progress = False
        self._covered: set[str] = set()  # streams that had a state since the last ``take``
        self._uncovered: set[str] = set()  # streams of which records were returned that no state covers
        self.covered: Piece | None = None
        """The last piece of the last ``take`` after which a transaction may end, None: there is none."""
        self.withheld = False
        """Whether there was such a piece since, but for records of other streams that no state covers."""
        self._schemas: dict[str, dict[str, Any]] = {}
        self._rows: dict[str, StreamRows] = {}
        self._said: set[tuple[str, str]] = set()

    def schema(self, stream: str, tree: Mapping[str, Any], keys: Sequence[str]) -> None:
        """Take a stream's schema; the same again changes nothing."""
        known = self._known_schema(stream)
        schema = stream_schema(stream, tree, keys, known, self._settings)
        rows = self._rows_of(stream)
        if rows.schema is not None and rows.schema.fingerprint == schema.fingerprint:
            return
        if schema.version != known.get(VERSION):
            log.info("stream %s: schema version %d", stream, schema.version)
        self._schemas[stream] = {VERSION: schema.version, FINGERPRINT: schema.fingerprint}
        rows.begin(schema)
        if without := [name for name in keys if name not in schema.keys]:
            log.warning("stream %s: ignoring key properties %s, which are not in its schema", stream, without)

    def record(self, stream: str, value: dict[str, Any]) -> None:
        """Take one object of a stream."""
        self._rows_of(stream).add(value)

    def column(self, stream: str, values: pa.Table) -> None:
        """Take a table of a stream's objects. Raises DataError: it does not fit."""
        self._rows_of(stream).add_column(values)

    def state(self, parts: Mapping[str, Offset]) -> None:
        """Take a state that covers the records before it of the streams in ``parts``; others keep their offsets."""
        self._covered |= parts.keys()
        for name, rows in self._rows.items():
            if self._stream_of(name) in parts:
                rows.mark()
        for stream, part in parts.items():
            if stream in self._after and self._after[stream] != part:
                self._after[stream] = dict(part)
                self._moved.add(stream)
                self._progress = True

    def take_progress(self) -> bool:
        """Return whether a state has moved since this was asked last."""
        progress, self._progress = self._progress, False
        return progress

    def offsets(self) -> Mapping[str, Offset]:
        """Return the newest offset of each stream, from which the next run starts."""
        return self._after

    def take(self, *, covered_only: bool = False) -> list[Piece]:
        """Return everything taken in, in the order in which it becomes durable.

        ``covered_only``: records that no state of their stream covers stay here.
        """
        before: list[Piece] = []
        after: list[Piece] = []
        uncovered: set[str] = set()
        now_ms = wall_ms()
        for name, rows in self._rows.items():
            stream = self._stream_of(name)
            partition = {STREAM: stream}
            marked, rest = rows.take(covered_only=covered_only)
            if marked:
                offset = self._offset(stream, self._before)
                before += [with_time(piece(partition, offset), now_ms) for piece in marked]
            if rest:
                uncovered.add(stream)
                offset = self._offset(stream, self._after)
                after += [with_time(piece(partition, offset), now_ms) for piece in rest]
            self._say_unknown(rows)
        moves = [
            empty_batch({STREAM: moved}, self._offset(moved, self._after), topic_of(self._topic, moved))
            for moved in sorted(self._moved)
        ]
        last = next(reversed([*before, *moves]), None)
        self._uncovered -= self._covered
        self.covered = None if self._uncovered else last
        self.withheld = self.covered is None and (self.withheld or last is not None)
        self._uncovered |= uncovered
        self._covered.clear()
        self._moved.clear()
        self._before = dict(self._after)
        return [*before, *moves, *after]

    def settle(self) -> None:
        """Count everything that was returned as covered: the run is over, or its records were dropped."""
        self._uncovered.clear()
        self.withheld = False

    def _offset(self, stream: str, states: Mapping[str, Offset]) -> Offset:
        return {**states[stream], **self._schemas.get(stream, {})}

    def _known_schema(self, stream: str) -> Mapping[str, Any]:
        return self._schemas.get(stream) or self._after.get(stream) or {}

    def _stream_of(self, name: str) -> str:
        """Return the stream of a record; of one that is unknown the first, for each record needs a partition."""
        found = self.other_names.get(name, name)
        return found if found in self._after else self.streams[0]

    def _rows_of(self, name: str) -> StreamRows:
        rows = self._rows.get(name)
        if rows is None:
            rows = self._rows[name] = StreamRows(name, topic_of(self._topic, name), self._settings, self._report)
        return rows

    def _say_unknown(self, rows: StreamRows) -> None:
        for field in sorted(rows.unknown):
            if (rows.stream, field) not in self._said:
                self._said.add((rows.stream, field))
                log.warning("stream %s: ignoring field %s, which is not in its schema", rows.stream, field)
