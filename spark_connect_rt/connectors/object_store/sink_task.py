"""The task of the object store sink: records in, rows gathered by topic partition, files written when a chunk ends.

The consumer group's offsets follow the files. Rows that are gathered and not written are read again by the next owner,
which names the files as this one would (`chunks.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.file_stores import FileStore, Note, open_store
from spark_connect_rt.connectors.object_store.chunks import (
    HEADERS,
    KEYS,
    VALUES,
    Chunk,
    ChunkFile,
    CutRules,
    Numbers,
    Piece,
)
from spark_connect_rt.connectors.object_store.formats import JsonLines, PreparedRows, RowFormat, header_text
from spark_connect_rt.connectors.object_store.partitioners import (
    NO_TIME,
    Folders,
    TimeSource,
    field_column,
    field_folders,
    field_times,
    value_column,
    whole_partition,
)
from spark_connect_rt.connectors.object_store.settings import DEFAULT, FIELD, NEVER, ObjectSinkSettings, read_settings
from spark_connect_rt.errors import DataError, ExternalError, RetriableError

log = logging.getLogger(__name__)
METRICS = "object-sink-metrics"
UNKNOWN_POSITION = -1
_START, _END, _TOPIC = "start", "end", "topic"  # of a note
_DAY_MS = 86_400_000


@dataclass(slots=True)
class OpenPartition:
    """The state of one topic partition in the task.

    Attributes:
        chunk: the rows that are not in files.
        next_offset: everything below it is in files, gathered, or has no row. -1: not known yet.
    """

    chunk: Chunk
    next_offset: int


class _Columns:
    """Records that came in columns, none without a value."""

    def __init__(self, batch: SinkBatch) -> None:
        self._batch = batch
        self.offsets: Numbers = batch.offsets.to_numpy()

    def values(self, format: RowFormat) -> PreparedRows:
        return format.prepare(self._batch.values, self._batch.value_schema)

    def keys(self, format: RowFormat) -> PreparedRows:
        keys = self._batch.keys
        if keys is None or keys.null_count:
            raise DataError(_NO_KEY)  # `put` knows which of them
        return format.prepare(keys, self._batch.key_schema)

    def headers(self, format: RowFormat) -> PreparedRows:
        raise NotImplementedError("records with headers come one by one")

    def times(self) -> Numbers:
        if self._batch.timestamps_ms is None:
            return np.full(len(self.offsets), NO_TIME, np.int64)
        found: Numbers = pc.fill_null(self._batch.timestamps_ms, NO_TIME).to_numpy()
        return found

    def field(self, path: str) -> pa.Array:
        return field_column(self._batch.values, path)


class _Rows:
    """Records that came one by one: of the same schemas, none without a value."""

    def __init__(self, records: Sequence[SinkRecord]) -> None:
        self._records = records
        self.offsets: Numbers = np.array([record.offset for record in records], np.int64)

    def values(self, format: RowFormat) -> PreparedRows:
        return format.prepare_values([record.value for record in self._records], self._records[0].value_schema)

    def keys(self, format: RowFormat) -> PreparedRows:
        keys = [record.key for record in self._records]
        schema = next((record.key_schema for record in self._records if record.key is not None), None)
        if None not in keys:
            return format.prepare_values(keys, schema)
        if not isinstance(format, JsonLines):
            raise DataError(_NO_KEY)
        return format.prepare_values(keys, None if schema is None else schema.as_optional())

    def headers(self, format: RowFormat) -> PreparedRows:
        headers = [
            [{"name": header.key, "value": header_text(header.value)} for header in record.headers]
            for record in self._records
        ]
        return format.prepare_values(headers, None)

    def times(self) -> Numbers:
        found = [NO_TIME if record.timestamp_ms is None else record.timestamp_ms for record in self._records]
        return np.array(found, np.int64)

    def field(self, path: str) -> pa.Array:
        return value_column([record.value for record in self._records], path)


_NO_KEY = "the record has no key. Set keys.format.class=jsonl, which writes null for it"


class ObjectStoreSinkTask(SinkTask):
    """Writes the records of its partitions to files of a store."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        """Take the clock of scheduled rotation and of time folders by wall clock, so that tests decide it."""
        self._clock_ms = clock_ms
        self._partitions: dict[TopicPartition, OpenPartition] = {}
        self._topic_ids: dict[str, str] = {}
        self._due_ms: int | None = None
        self._failing_since_ms: int | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError, and ConnectError if the client of the store is missing."""
        self.settings = settings = read_settings(config)
        self._store = self.make_store(settings, config)
        self._formats: dict[str, RowFormat] = {VALUES: settings.values}
        if settings.has_keys:
            self._formats[KEYS] = settings.keys
        if settings.has_headers:
            self._formats[HEADERS] = JsonLines()
        self._rules = CutRules(settings.flush_size, settings.rotate_ms, settings.max_bytes, settings.max_folders)

    def make_store(self, settings: ObjectSinkSettings, config: Mapping[str, str]) -> FileStore:
        """Return the store of the files. It connects only when it is used."""
        return open_store(settings.root, config)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Note where the group stands, and forget the topics' ids, which are asked for again."""
        positions = self.context.positions()
        for place in partitions:
            self._partitions[place] = OpenPartition(
                Chunk(self._formats, self._rules), positions.get(place, UNKNOWN_POSITION)
            )
            self._topic_ids.pop(place.topic, None)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget gathered rows. The next owner reads them again."""
        for place in partitions:
            self._partitions.pop(place, None)

    def stop(self) -> None:
        """Forget all gathered rows. They are read again after the next start."""
        self._partitions.clear()

    # -- records

    def reads_headers(self) -> bool:
        """Return whether headers are written to files."""
        return self.settings.has_headers

    def takes_absent_values(self) -> bool:
        """Return whether records without a value may come in columns: where they are left out."""
        return self.settings.ignores_nulls

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Gather records, and write the files of chunks that end.

        Raises DataError for a record that does not fit, before any record is gathered. Raises RetriableError while the
        store cannot be reached, and ExternalError once that lasts too long, or if a file is not this topic's.
        """
        places: dict[TopicPartition, list[SinkRecord]] = {}
        for record in records:
            places.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        pieces: list[tuple[TopicPartition, int, list[Piece]]] = []
        for place, of_place in places.items():
            fresh = self._fresh(place, of_place)
            if fresh:
                pieces.append((place, fresh[-1].offset + 1, list(self._pieces(place, fresh))))
        self._take(pieces)

    def put_batch(self, batch: SinkBatch) -> bool:
        """Gather columns. Batches with records that need a closer look go to `put`. Raises as `put`."""
        if self.settings.has_headers or _has_defaults(batch.value_schema) or _has_defaults(batch.key_schema):
            return False
        place = TopicPartition(batch.topic, batch.partition)
        offsets = batch.offsets.to_numpy()
        if self._partitions[place].next_offset > offsets[0]:
            return False
        end = int(offsets[-1]) + 1
        if batch.values.null_count:
            if not self.settings.ignores_nulls:
                return False
            batch = batch.where(batch.values.is_valid())
        try:
            pieces = [self._piece(place, _Columns(batch))] if len(batch.offsets) else []
        except DataError:
            return False  # `put` finds the record
        self._take([(place, end, pieces)])
        return True

    def _fresh(self, place: TopicPartition, records: Sequence[SinkRecord]) -> list[SinkRecord]:
        """Return the records that were not gathered before: a put is repeated after a RetriableError."""
        held = self._partitions[place]
        if records[0].offset < held.next_offset:
            self._refuse_other_topic(place.topic)
        return [record for record in records if record.offset >= held.next_offset]

    def _refuse_other_topic(self, topic: str) -> None:
        """Raise ExternalError if a topic was deleted and created again while the task reads it."""
        known = self._topic_ids.get(topic)
        if known and self.context.topic_ids([topic]).get(topic, known) != known:
            raise ExternalError(_other_topic(topic, f"{self._store.uri}/{self._folder(topic)}"))

    def _pieces(self, place: TopicPartition, records: Sequence[SinkRecord]) -> Iterator[Piece]:
        """Yield the rows of records, those of one schema together. Raises DataError."""
        rows = [record for record in records if record.value is not None]
        if len(rows) < len(records) and not self.settings.ignores_nulls:
            first = next(record for record in records if record.value is None)
            raise DataError(
                f"{place}@{first.offset}: the record has no value. Set behavior.on.null.values=ignore to leave out "
                "such records"
            )
        begin = 0
        while begin < len(rows):
            end = begin + 1
            while end < len(rows) and _same_schemas(rows[begin], rows[end]):
                end += 1
            yield from self._run(place, rows[begin:end])
            begin = end

    def _run(self, place: TopicPartition, rows: Sequence[SinkRecord]) -> Iterator[Piece]:
        """Yield the rows of records of the same schemas. Values without a schema may have no common columns."""
        try:
            piece = self._piece(place, _Rows(rows))
        except DataError as error:
            if len(rows) == 1:
                raise DataError(f"{place}@{rows[0].offset}: {error}") from error
            half = len(rows) // 2
            yield from self._run(place, rows[:half])
            yield from self._run(place, rows[half:])
        else:
            yield piece

    def _piece(self, place: TopicPartition, given: _Columns | _Rows) -> Piece:
        """Return rows in the form of the formats. Raises DataError."""
        parts = {VALUES: given.values(self.settings.values)}
        if KEYS in self._formats:
            parts[KEYS] = given.keys(self.settings.keys)
        if HEADERS in self._formats:
            parts[HEADERS] = given.headers(self._formats[HEADERS])
        times = self._times(given)
        return Piece(given.offsets, times, self._folders(place, given, times), parts)

    def _times(self, given: _Columns | _Rows) -> Numbers:
        source = self.settings.time_source
        if source is TimeSource.WALL_CLOCK:
            return np.full(len(given.offsets), self._clock_ms(), np.int64)
        if source is TimeSource.FIELD and self.settings.partitioner not in (DEFAULT, FIELD):
            return field_times(given.field(self.settings.time_field), self.settings.time_field)
        return given.times()

    def _folders(self, place: TopicPartition, given: _Columns | _Rows, times: Numbers) -> Folders:
        settings = self.settings
        if settings.partitioner == FIELD:
            columns = [given.field(path) for path in settings.fields]
            return field_folders(columns, settings.fields, with_names=settings.with_field_names)
        if settings.folders is not None:
            return settings.folders.of(times)
        return whole_partition(place.partition, len(times))

    # -- files

    def _take(self, pieces: Sequence[tuple[TopicPartition, int, list[Piece]]]) -> None:
        """Gather rows, and write what is due. Nothing is gathered twice if writing fails in between."""
        try:
            for place, end, of_place in pieces:
                held = self._partitions[place]
                for piece in of_place:
                    self._gather(place, held, piece)
                held.next_offset = end
                self._write_decided(place, held)
            self._write_due()
        except RetriableError as error:
            now_ms = self._clock_ms()
            if self._failing_since_ms is None:
                self._failing_since_ms = now_ms
            if now_ms - self._failing_since_ms >= self.settings.retry_timeout_ms:
                self._failing_since_ms = None
                raise ExternalError(
                    f"{error}. This lasted for connectrt.object.retry.timeout.ms={self.settings.retry_timeout_ms}. "
                    "Nothing is lost: restart the task when the store is back."
                ) from error
            raise
        self._failing_since_ms = None

    def _gather(self, place: TopicPartition, held: OpenPartition, piece: Piece) -> None:
        while len(piece):
            room = held.chunk.room_for(piece)
            if room:
                held.chunk.add(piece.slice(0, room))
                held.next_offset = held.chunk.next_offset
                piece = piece.slice(room, len(piece) - room)
            if not room or held.chunk.is_full:
                self._write(place, held)
            if not room and held.chunk.rows and not held.chunk.room_for(piece):
                raise ExternalError(
                    f"the file of {place} that begins with offset {held.chunk.start} was written with another schema "
                    "or format. Nothing is lost: move it away, or set another topics.dir, and restart the task"
                )

    def _write_decided(self, place: TopicPartition, held: OpenPartition) -> None:
        """Write a chunk whose end was decided before, once all of its records are here."""
        if held.chunk.end is not None and held.next_offset >= held.chunk.end:
            self._write(place, held)

    def _write_due(self) -> None:
        """Write all chunks at the times of the schedule, and the largest ones while memory is short."""
        for place, held in self._partitions.items():
            if held.chunk.is_full:  # and could not be written before
                self._write(place, held)
        interval_ms, now_ms = self.settings.schedule_ms, self._clock_ms()
        if interval_ms != NEVER:
            if self._due_ms is None:
                self._due_ms = self._next_due_ms(now_ms)
            if now_ms >= self._due_ms:
                for place, held in self._partitions.items():
                    if held.chunk.rows and held.chunk.end is None:
                        self._write(place, held)
                self._due_ms = self._next_due_ms(now_ms)
            self.context.timeout(max(1, self._due_ms - now_ms))
        while sum(held.chunk.size for held in self._partitions.values()) > self.settings.memory_bytes:
            free = [(held.chunk.size, place) for place, held in self._partitions.items() if held.chunk.end is None]
            if not free or not max(free)[0]:
                break
            place = max(free)[1]
            self._write(place, self._partitions[place])

    def _next_due_ms(self, now_ms: int) -> int:
        """Return the next multiple of the interval, counted from midnight in the zone of the settings."""
        here = datetime.fromtimestamp(now_ms // 1000, self.settings.zone)
        shift_ms = int((here.utcoffset() or here - here).total_seconds() * 1000)
        interval_ms = self.settings.schedule_ms
        local_ms = now_ms + shift_ms
        midnight_ms = local_ms - local_ms % _DAY_MS
        passed = (local_ms - midnight_ms) // interval_ms
        return midnight_ms + (passed + 1) * interval_ms - shift_ms

    def _write(self, place: TopicPartition, held: OpenPartition) -> None:
        """Write the files of a chunk. If its lead file exists, its chunk is completed instead.

        The chunk is the same after an error, so a later call repeats the work.
        """
        chunk = held.chunk
        if not chunk.rows:
            return
        start, topic_id = chunk.start, self._topic_id(place.topic)
        end = chunk.end or chunk.next_offset
        rest = Chunk(self._formats, self._rules)
        files = chunk.files()
        lead = next(files)
        note: Note = {_START: start, _END: end, _TOPIC: topic_id}
        found = self._create(place, lead, VALUES, chunk, note)
        if found is not None:
            decided = self._decided_end(place, lead, found, note)
            if decided > held.next_offset:
                log.info(
                    "connector file %s exists with offsets %d to %d: waiting for the rest of them",
                    self._key(place, lead, VALUES),
                    start,
                    decided - 1,
                )
                chunk.end = decided
                return
            note = found
            whole, rest = chunk.split(decided)
            files = whole.files()
            lead, chunk = next(files), whole
        for file in (lead, *files):
            for part in self._formats:
                if file is lead and part == VALUES:
                    continue
                other = self._create(place, file, part, chunk, note)
                if other is not None:
                    raise ExternalError(self._foreign(place, file, part, other, note))
        held.chunk = rest
        self._note_written(place, chunk)

    def _decided_end(self, place: TopicPartition, lead: ChunkFile, found: Note, note: Note) -> int:
        """Return where the chunk of an existing lead file ends. Raises ExternalError if it is not of this chunk."""
        end = found.get(_END)
        known, here = found.get(_TOPIC), note[_TOPIC]
        if not isinstance(end, int) or found.get(_START) != note[_START] or (known and here and known != here):
            raise ExternalError(self._foreign(place, lead, VALUES, found, note))
        return end

    def _foreign(self, place: TopicPartition, file: ChunkFile, part: str, found: Note, note: Note) -> str:
        uri = f"{self._store.uri}/{self._key(place, file, part)}"
        known, here = found.get(_TOPIC), note[_TOPIC]
        if known and here and known != here:
            return _other_topic(place.topic, uri)
        if not found:
            return (
                f"{uri} exists, and this sink did not write it. Nothing is lost: move the file away, or set another "
                "topics.dir, and restart the task"
            )
        return (
            f"{uri} exists with records of offsets {found.get(_START)} to {found.get(_END)}, but the task writes "
            f"offsets {note[_START]} to {note[_END]}. The group's offsets or the folders of records were altered. "
            "Move the files from that offset on away, or set another topics.dir, and restart the task"
        )

    def _create(self, place: TopicPartition, file: ChunkFile, part: str, chunk: Chunk, note: Note) -> Note | None:
        data = self._formats[part].encode(chunk.kinds[part], file.rows[part])
        found = self._store.create(self._key(place, file, part), data, note)
        if found is None:
            self.context.metrics.count("object-bytes", len(data), METRICS, topic=place.topic)
        return found

    def _key(self, place: TopicPartition, file: ChunkFile, part: str) -> str:
        delimiter, digits = self.settings.delimiter, self.settings.digits
        name = f"{place.topic}{delimiter}{place.partition}{delimiter}{file.offset:0{digits}d}"
        return f"{self._folder(place.topic)}/{file.folder}/{name}{part}{self._formats[part].ending}"

    def _folder(self, topic: str) -> str:
        return f"{self.settings.topics_dir}/{topic}" if self.settings.topics_dir else topic

    def _topic_id(self, topic: str) -> str:
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self.context.topic_ids([topic]).get(topic, "")
        return self._topic_ids[topic]

    def _note_written(self, place: TopicPartition, chunk: Chunk) -> None:
        metrics = self.context.metrics
        metrics.count("object-rows", chunk.rows, METRICS, topic=place.topic)
        metrics.count("object-chunks", 1, METRICS, topic=place.topic)
        log.info("wrote %s, offsets %d to %d, %d rows", place, chunk.start, chunk.next_offset - 1, chunk.rows)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets below which every record is in a file, was reported, or has no row."""
        safe: dict[TopicPartition, int] = {}
        for place in offsets:
            held = self._partitions.get(place)
            if held is None:
                continue
            end = held.chunk.start if held.chunk.rows else held.next_offset
            if end >= 0:
                safe[place] = end
        return safe


def _other_topic(topic: str, uri: str) -> str:
    return (
        f"topic {topic} was deleted and created again, so its offsets and the names of its files start again, but "
        f"{uri} has records of the former topic. Move the former files away, or set another topics.dir, and restart "
        "the task"
    )


def _same_schemas(first: SinkRecord, other: SinkRecord) -> bool:
    """Return whether records have one schema of values, and of keys. A null key goes with each."""
    if first.value_schema != other.value_schema:
        return False
    if first.value_schema is None and type(first.value) is not type(other.value):
        return False
    return first.key is None or other.key is None or first.key_schema == other.key_schema


def _has_defaults(schema: Schema | None) -> bool:
    """Return whether a null may stand for a default somewhere, which columns do not know."""
    if schema is None:
        return False
    parts = [member.schema for member in schema.fields]
    parts += [part for part in (schema.key_schema, schema.value_schema) if part is not None]
    return schema.fields_have_defaults or any(map(_has_defaults, parts))
