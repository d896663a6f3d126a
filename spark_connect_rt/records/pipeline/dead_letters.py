"""Makes the records for a connector's dead letter queue (KIP-298; Java ``DeadLetterQueueReporter``). Pure.

A sink's dead letter holds the consumed bytes. Java has no queue for sources. A source's dead letter holds the record as
the task returned it: the bytes of the connector's own converters, else JSON, else text. The header ``encoding`` names
the form. The dead letter of a record that Kafka refused holds the bytes that were to be written, of a large record only
the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.connector_config import DEAD_LETTERS, ERRORS
from spark_connect_rt.records.pipeline.columns import ProduceRow
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.errant_records import (
    FailedRecord,
    NameOf,
    RefusedRecord,
    errant_produced,
    error_message,
    error_name,
    executing_name,
    java_trace,
)

# Connect's headers of a dead letter (KIP-298; Java ``DeadLetterQueueReporter``): their prefix, and their meaning.


PREFIX = "__connect.errors."
TRUNCATED = "truncated"  # the encoding of a part that holds only the first bytes
RawHeaders = Iterable[tuple[str, bytes | None]]


def split_headers(headers: RawHeaders) -> tuple[tuple[tuple[str, bytes | None], ...], Mapping[str, str | None]]:
    """Return the record's own headers, and Connect's by their names without the prefix; of two of a name the last."""
    own: list[tuple[str, bytes | None]] = []
    errors: dict[str, str | None] = {}
    for name, data in headers:
        if name.startswith(PREFIX):
            errors[name[len(PREFIX) :]] = None if data is None else data.decode("utf-8", errors="replace")
        else:
            own.append((name, data))
    return tuple(own), errors


Headers = list[tuple[str, bytes | None]]
Written = tuple[bytes | None, str]
"""The bytes of a key or value, and how they were made: converter, json or text."""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How a connector wants its errant records reported."""

    tolerates_all: bool
    logs: bool
    logs_records: bool
    topic: str  # of the dead letter queue; empty: none
    replication_factor: int
    with_headers: bool

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ReportSettings:
        """Return the typed settings ``errors.*``. Raises BadConfigError."""
        errors, letters = ERRORS.parse(config), DEAD_LETTERS.parse(config)
        return cls(
            tolerates_all=errors["errors.tolerance"].lower() == "all",
            logs=errors["errors.log.enable"],
            logs_records=errors["errors.log.include.messages"],
            topic=letters["errors.deadletterqueue.topic.name"].strip(),
            replication_factor=letters["errors.deadletterqueue.topic.replication.factor"],
            with_headers=letters["errors.deadletterqueue.context.headers.enable"],
        )

    @property
    def reports(self) -> bool:
        """Whether single records are reported at all; then tasks have a reporter (KIP-610)."""
        return bool(self.topic) or self.logs


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Makes the records of one task's dead letter queue."""

    settings: ReportSettings
    task: ConnectorTaskId
    name_of: NameOf
    hide: Callable[[str], str] = str
    """Takes secrets out of an error's text: plug-ins quote their settings, and the queue is a topic."""

    def of_sink(self, errant: FailedRecord) -> ProduceRow | None:
        """Return the dead letter for a record that a sink consumed, None when there was none."""
        if not isinstance(errant.record, tuple):
            return None
        topic, partition, offset, timestamp_ms, key, value, given = errant.record
        headers: Headers = [(header["key"], header["value"]) for header in given or ()]
        if self.settings.with_headers:
            place = {"topic": topic, "partition": str(partition), "offset": str(offset)}
            headers += [*_encoded(place), *self._context(errant)]
        return self.settings.topic, None, key, value, headers or None, timestamp_ms

    def of_source(self, errant: FailedRecord, converters: ConnectorConverters) -> ProduceRow | None:
        """Return the dead letter for a source task's record or unreadable input, None when neither is known."""
        record = errant.record
        if not isinstance(record, SourceRecord):
            return None if errant.data is None else self._of_input(errant)
        write_key, write_value = converters.key.from_connect_data, converters.value.from_connect_data
        key = _bytes_of(partial(write_key, record.topic), record.key_schema, record.key)
        value = _bytes_of(partial(write_value, record.topic), record.value_schema, record.value)
        return self.of_written(errant, record, key, value, _plain_headers(record, converters))

    def of_written(
        self, errant: FailedRecord, record: SourceRecord, key: Written, value: Written, headers: Headers
    ) -> ProduceRow:
        """Return the dead letter for a source task's record; key, value and headers are bytes already."""
        headers = list(headers)
        if self.settings.with_headers:
            place = {
                "topic": record.topic,
                "partition": "-1" if record.partition is None else str(record.partition),
                "offset": "-1",
                "source.partition": _json(record.source_partition).decode(),
                "source.offset": _json(record.source_offset).decode(),
                "key.encoding": key[1],
                "value.encoding": value[1],
            }
            headers += [*_encoded(place), *self._context(errant)]
        return self.settings.topic, None, key[0], value[0], headers or None, record.timestamp_ms

    def of_refused(self, refused: RefusedRecord) -> ProduceRow:
        """Return the record for what Kafka refused to take from a source: the record as it was to be written.

        A large one is only referred to: its letter holds the first bytes, and headers in any case that say so.
        """
        headers = list(refused.headers)
        if self.settings.with_headers or not refused.is_whole:
            place = {
                "topic": refused.topic,
                "partition": "-1" if refused.partition is None else str(refused.partition),
                "offset": "-1",
            }
            errant = errant_produced(str(refused), refused.error)
            headers += [*_encoded(place | _cut(refused)), *self._context(errant)]
        return self.settings.topic, None, refused.key, refused.value, headers or None, refused.timestamp_ms

    def of_refused_letter(self, refused: RefusedRecord) -> ProduceRow | None:
        """Return a shorter letter for one that the queue itself refused.

        None: it is not too large, or has no headers that say which record it is about.
        """
        if refused.is_whole or not self.settings.with_headers:
            return None
        headers = [*refused.headers, *_encoded(_cut(refused))]
        return self.settings.topic, None, refused.key, refused.value, headers, refused.timestamp_ms

    def _of_input(self, errant: FailedRecord) -> ProduceRow:
        """Return the record for input that never became one: its bytes, and where they were."""
        place = {"source.place": errant.place, "value.encoding": "input"}
        headers = [*_encoded(place), *self._context(errant)] if self.settings.with_headers else None
        return self.settings.topic, None, None, errant.data, headers, None

    def _context(self, errant: FailedRecord) -> Headers:
        error = errant.error
        message = error_message(error)
        return _encoded(
            {
                "connector.name": self.task.connector,
                "task.id": str(self.task.task),
                "stage": errant.stage.value,
                "class.name": executing_name(errant, self.name_of),
                "exception.class.name": error_name(error),
                "exception.message": None if message is None else self.hide(message),
                "exception.stacktrace": self.hide(java_trace(error)),
            }
        )


def _cut(refused: RefusedRecord) -> dict[str, str | None]:
    """Return the headers of a letter that holds only the beginning of its record."""
    if refused.is_whole:
        return {}
    return {"record.size": str(refused.size), "key.encoding": TRUNCATED, "value.encoding": TRUNCATED}


def _encoded(headers: Mapping[str, str | None]) -> Headers:
    return [(PREFIX + name, None if text is None else text.encode()) for name, text in headers.items()]


def _bytes_of(write: Callable[[Schema | None, Any], bytes | None], schema: Schema | None, value: Any) -> Written:
    """Return the bytes of a key or value that something may be wrong with, and how they were made."""
    try:
        return write(schema, value), "converter"
    except Exception:  # noqa: BLE001 - plug-in code; this may be the failure that is reported
        pass
    try:
        return orjson.dumps(_tree(value), option=orjson.OPT_NON_STR_KEYS), "json"
    except Exception:  # noqa: BLE001 - no JSON form
        return _text(value), "text"


def _tree(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else value


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return _text(value)


def _text(value: Any) -> bytes:
    try:
        return repr(value).encode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - repr itself failed: the class still helps
        return f"<{type(value).__name__}>".encode()


def _plain_headers(record: SourceRecord, converters: ConnectorConverters) -> Headers:
    headers: Headers = []
    for header in record.headers:
        write = partial(converters.header.from_connect_header, record.topic, header.key)
        headers.append((header.key, _bytes_of(write, header.schema, header.value)[0]))
    return headers
