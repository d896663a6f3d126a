"""Numbers from source to sink, each step printed as a line of JSON (Java ``tools.Verifiable*``): for system tests.

Lines go to the executor's standard output, which Spark passes on to its own standard error.
"""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.logical import ms_of
from spark_connect_rt.api.data.schema import INT32, INT64, STRING, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import RecordMetadata, SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.samples.numbered_source import (
    ID,
    NAME,
    SEQNO,
    NumberedSourceConnector,
    NumberedSourceTask,
    integer,
    say,
    say_line,
    wall_clock_ms,
)
from spark_connect_rt.errors import DataError

COMPLETE = "complete.record.data"
COMPLETE_VALUE = struct_of({"name": STRING, "task": INT32, "topic": STRING, "time_ms": INT64, "seqno": INT64})


class VerifiableSourceConnector(NumberedSourceConnector):
    """Each task sends 0, 1, 2 ... with its own number as the key."""

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return VerifiableSourceTask


class VerifiableSourceTask(NumberedSourceTask):
    """Prints each record when it is made and again when it is acknowledged (``"committed":true``)."""

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings; ``complete.record.data=true`` makes values of all that is printed."""
        super().start(config)
        self._complete = str(config.get(COMPLETE)).lower() == "true"

    def record(self) -> SourceRecord:
        """Print and return the next record."""
        fields = self._fields()
        say(fields)
        value: Any = Struct(COMPLETE_VALUE, fields) if self._complete else self.seqno
        return SourceRecord(
            {ID: self.id},
            {SEQNO: self.seqno},
            self.topic,
            value,
            COMPLETE_VALUE if self._complete else INT64,
            self.id,
            INT32,
        )

    def _fields(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.id,
            "topic": self.topic,
            "time_ms": self.clock(),
            "seqno": self.seqno,
        }

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Print that the record is acknowledged."""
        say({**self._fields(), "seqno": record.source_offset[SEQNO], "committed": True})


class VerifiableSinkConnector(SinkConnector):
    """As many tasks as are asked for, each given its number as ``id``."""

    def config_def(self) -> ConfigDef:
        """Declare nothing, as Java does."""
        return ConfigDef()

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return VerifiableSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task, with its number."""
        return [{**self.config, ID: str(task)} for task in range(max_tasks)]


class VerifiableSinkTask(SinkTask):
    """Prints each record when it is put and again when its offset is about to be committed (``"flushed":true``).

    A struct is printed as an object of its fields. Java prints "Bad data can't be written as json" for it, as this task
    does for what has no JSON form.
    """

    clock: Callable[[], int] = staticmethod(wall_clock_ms)

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises ConnectError."""
        self._name = config.get(NAME)
        self._id = integer(config, ID, type(self).__name__)
        self._unflushed: dict[TopicPartition, list[dict[str, Any]]] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Print each record as a line of JSON, as Java's system tests read it."""
        now_ms = self.clock()
        for record in records:
            fields = {
                "name": self._name,
                "task": json_form(record.key),
                "sinkTask": self._id,
                "topic": record.topic,
                "time_ms": now_ms,
                "seqno": json_form(record.value),
                "offset": record.offset,
            }
            _print(fields)
            self._unflushed.setdefault(TopicPartition(record.topic, record.partition), []).append(fields)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Print what was put since the last flush of these partitions."""
        now_ms = self.clock()
        for partition in offsets:
            for fields in self._unflushed.pop(partition, ()):
                _print({**fields, "time_ms": now_ms, "flushed": True})

    def stop(self) -> None:
        """There is nothing to close."""


def json_form(value: Any) -> Any:
    """Return a key or a value as JSON can hold it, in Jackson's forms: dates in ms since 1970, bytes in base64."""
    if isinstance(value, Struct):
        return {field.name: json_form(value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {str(name): json_form(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_form(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return ms_of(value)
    return float(value) if isinstance(value, Decimal) else value


def _print(fields: Mapping[str, Any]) -> None:
    """Print a record, or Java's words for one that has no JSON form: the task continues."""
    try:
        say(fields)
    except DataError as error:
        say_line(f"Bad data can't be written as json: {error}")
