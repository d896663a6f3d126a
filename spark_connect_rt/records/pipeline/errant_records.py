"""Errant records: their place, the stage and class that failed, and the error (Java ``ProcessingContext``)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.records import ConsumeRow, SourceRecord
from spark_connect_rt.config.connector_config import ERRORS
from spark_connect_rt.errors import (
    AlreadyExistsError,
    BadConfigError,
    ConnectError,
    DataError,
    JavaPluginError,
    NotFoundError,
    RetriableError,
)
from spark_connect_rt.errors import RetriableError as _RetriableError

_ERRORS = "org.apache.kafka.connect.errors."
_JAVA_ERRORS: dict[type[BaseException], str] = {
    ConnectError: f"{_ERRORS}ConnectException",
    DataError: f"{_ERRORS}DataException",
    _RetriableError: f"{_ERRORS}RetriableException",
    NotFoundError: f"{_ERRORS}NotFoundException",
    AlreadyExistsError: f"{_ERRORS}AlreadyExistsException",
    BadConfigError: "org.apache.kafka.common.config.ConfigException",
}
JAVA_SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"
JAVA_SOURCE_TASK = "org.apache.kafka.connect.source.SourceTask"
JAVA_WORKER_SOURCE_TASK = "org.apache.kafka.connect.runtime.WorkerSourceTask"

NameOf = Callable[[type[Any]], str]
"""Names a plug-in's class as users know it: Java's name where Java has it (kafka.executor_clients)."""


class Stage(Enum):
    """Where in the record's path an error happened."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


class StageError(Exception):
    """Carries a failure, its stage and the failing plug-in's class to RetryTolerance; its cause is the failure."""

    def __init__(self, stage: Stage, plugin: type[Any]) -> None:
        super().__init__(stage.value)
        self.stage = stage
        self.plugin = plugin


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """One errant record: its place, the stage, the error, and the class that failed.

    ``executing`` is a plug-in's class, or a Java name if no plug-in failed. ``record`` is None for input that never
    became a record; ``data`` may then hold that input.
    """

    place: str
    stage: Stage
    error: BaseException
    executing: type[Any] | str
    record: ConsumeRow | SourceRecord | None
    data: bytes | None = None
    text: str = ""  # of the record, where Java made it


def errant_put(place: str, error: BaseException, original: ConsumeRow | None) -> FailedRecord:
    """Return a record that a sink task rejected."""
    return FailedRecord(place, Stage.TASK_PUT, error, JAVA_SINK_TASK, original)


def errant_produced(place: str, error: BaseException) -> FailedRecord:
    """Return what Kafka did not take; ``place`` says whose record it is, where it was to go, and its size."""
    return FailedRecord(f"a record {place}", Stage.KAFKA_PRODUCE, error, JAVA_WORKER_SOURCE_TASK, None)


KEPT_WHOLE_BYTES = 64 << 10  # of a refused record; of a larger one its dead letter holds the beginning
KEPT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that Kafka refused for what it is: as it was to be written, or the beginning of a large one."""

    error: ConnectError
    topic: str
    partition: int | None
    size: int  # bytes of key, value and headers
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    is_whole: bool

    @classmethod
    def of(
        cls,
        error: ConnectError,
        place: tuple[str, int | None],
        content: tuple[bytes | None, bytes | None],
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RefusedRecord:
        """Return what is kept of a record. ``place`` is topic and partition, ``content`` key and value."""
        given, parts = tuple(headers), tuple(part or b"" for part in content)
        size = sum(map(len, parts)) + sum(len(name) + len(value or b"") for name, value in given)
        is_whole = size <= KEPT_WHOLE_BYTES
        key, value = content if is_whole else (part and part[:KEPT_BYTES] for part in content)
        return cls(error, *place, size, key, value, given, timestamp_ms, is_whole)

    def __str__(self) -> str:
        """Return its place and size for a message."""
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return f"of {self.size} bytes for {place}"


def executing_name(errant: FailedRecord, name_of: NameOf) -> str:
    """Return the name of the failed class."""
    return errant.executing if isinstance(errant.executing, str) else name_of(errant.executing)


def error_name(error: BaseException) -> str:
    """Return the class of an error: Java's where ours stands for one, else ``module.Class``."""
    if isinstance(error, JavaPluginError):
        return error.java_class
    kind = type(error)
    if kind not in _JAVA_ERRORS and kind.__module__.startswith("spark_connect_rt."):
        kind = next((cls for cls in kind.__mro__ if cls in _JAVA_ERRORS), kind)
    return _JAVA_ERRORS.get(kind) or f"{kind.__module__}.{kind.__qualname__}"


def error_message(error: BaseException) -> str | None:
    """Return an error's message; None: it has none, as ``getMessage`` in Java."""
    if isinstance(error, JavaPluginError):
        return error.java_message
    return str(error) if error.args else None


def java_trace(error: BaseException) -> str:
    """Return the trace in Java's form, newest call first, causes after it, as readers of dead letters parse it."""
    if isinstance(error, JavaPluginError):
        return error.java_trace
    lines: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        message = error_message(cause)
        head = error_name(cause) + (f": {message}" if message is not None else "")
        lines.append(f"Caused by: {head}" if lines else head)
        for frame, line in reversed(list(traceback.walk_tb(cause.__traceback__))):
            code, module = frame.f_code, frame.f_globals.get("__name__", "")
            lines.append(f"\tat {module}.{code.co_qualname}({code.co_filename.rpartition('/')[2]}:{line})")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join([*lines, ""])


def log_sentence(task: object, errant: FailedRecord, name_of: NameOf, *, with_record: bool) -> str:
    """Return the text for ``errors.log.enable``, in Java's words; ``with_record``: errors.log.include.messages."""
    stage = f"Executing stage '{errant.stage.value}' with class '{executing_name(errant, name_of)}'"
    record = _record_text(errant) if with_record else ""
    return f"Error encountered in task {task}. {stage}{record}."


def _record_text(errant: FailedRecord) -> str:
    record = errant.record
    if record is None:
        return ""
    if isinstance(record, SourceRecord):
        return f", where source record is = {errant.text or _source_text(record)}"
    topic, partition, offset, timestamp_ms = record[:4]
    time = "" if timestamp_ms is None else f", timestamp={timestamp_ms}, timestampType=CreateTime"
    return f", where consumed record is {{topic='{topic}', partition={partition}, offset={offset}{time}}}"


def _source_text(record: SourceRecord) -> str:
    """Return the text of a record as Java's ``SourceRecord.toString``."""
    headers = ", ".join(
        f"ConnectHeader(key={h.key}, value={_text(h.value)}, schema={h.schema})" for h in record.headers
    )
    return (
        f"SourceRecord{{sourcePartition={_text(record.source_partition)}, sourceOffset={_text(record.source_offset)}}} "
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={_text(record.partition)}, key={_text(record.key)}, "
        f"keySchema={_text(record.key_schema)}, value={_text(record.value)}, valueSchema={_text(record.value_schema)}, "
        f"timestamp={_text(record.timestamp_ms)}, headers=ConnectHeaders(headers={headers})}}"
    )


def _text(value: Any) -> str:
    try:
        return java_text(value)
    except Exception as error:  # noqa: BLE001 - a value that has no text must not hide the error that is reported
        return f"<{type(value).__name__} without text: {type(error).__name__}>"


# When a record fails on its way: retry, skip and count, or fail (Java ``RetryWithToleranceOperator``).
#
# Pure: time and waiting are arguments. Without them a RetriableError is not retried.


R = TypeVar("R", ConsumeRow, SourceRecord)
T = TypeVar("T")

FIRST_RETRY_MS = 300
INFINITE = -1


@dataclass(frozen=True, slots=True)
class RetryWait:
    """How to wait between attempts: a clock, and a wait that answers False when the task is to end."""

    now_ms: Callable[[], int]
    wait_ms: Callable[[int], bool]


class RetryInterrupted(Exception):
    """The wait between attempts ended early: the record is neither converted nor errant, it will be read again."""


def backoff_ms(attempt: int, delay_max_ms: int) -> int:
    """Return the wait after failed attempt ``attempt`` (from 1): 300 ms doubled each time, at most ``delay_max_ms``."""
    return min(FIRST_RETRY_MS << min(attempt - 1, 32), delay_max_ms)


class RetryTolerance(Generic[R]):
    """Runs the record's path under ``errors.*`` of one connector."""

    def __init__(
        self, config: Mapping[str, str], describe: Callable[[R], str], waiting: RetryWait | None = None
    ) -> None:
        """Take ``errors.tolerance``, ``errors.retry.timeout``, ``errors.retry.delay.max.ms``.

        Args:
            describe: names a record: topic, partition, offset, source partition.
        """
        values = ERRORS.parse(config)
        self.tolerates_all: bool = values["errors.tolerance"].lower() == "all"
        self._timeout_ms: int = values["errors.retry.timeout"]
        self._delay_max_ms: int = values["errors.retry.delay.max.ms"]
        self._describe: Callable[[R], str] = describe
        self._waiting = waiting
        self._errants: list[FailedRecord] = []

    def run(self, path: Callable[[R], T], record: R) -> T | None:
        """Return the result of ``path`` for the record, None when it was given up.

        Raises DataError: errors are not tolerated; names stage and place. Raises RetryInterrupted: the task is to end.
        (Java gives such a record up, and its offset with it.)
        """
        attempt, began_ms = 0, None
        while True:
            try:
                return path(record)
            except StageError as failure:
                attempt += 1
                error = failure.__cause__ or failure
                if self._waiting is not None and isinstance(error, RetriableError):
                    began_ms = self._waiting.now_ms() if began_ms is None else began_ms
                    if self._waits(self._waiting, attempt, began_ms):
                        continue
                self._give_up(record, failure.stage, error, failure.plugin)
                return None

    def _waits(self, waiting: RetryWait, attempt: int, began_ms: int) -> bool:
        delay_ms = backoff_ms(attempt, self._delay_max_ms)
        if self._timeout_ms != INFINITE:
            left_ms = began_ms + self._timeout_ms - waiting.now_ms()
            if left_ms <= 0:
                return False
            delay_ms = min(delay_ms, left_ms)
        if not waiting.wait_ms(delay_ms):
            raise RetryInterrupted
        return True

    def _give_up(self, record: R, stage: Stage, error: BaseException, plugin: type[Any]) -> None:
        self.give_up(FailedRecord(self._describe(record), stage, error, plugin, record))

    def give_up(self, errant: FailedRecord) -> None:
        """Note an errant record.

        Raises DataError: errors are not tolerated. The record is noted nevertheless, as in Java.
        """
        self._errants.append(errant)
        if not self.tolerates_all:
            error, stage = errant.error, errant.stage.value
            reason = str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"
            raise DataError(f"{errant.place}: {stage} failed: {reason}", stage=stage) from error

    def take_errants(self) -> tuple[FailedRecord, ...]:
        """Return the records given up since the last call, the one that failed the task among them."""
        errants = tuple(self._errants)
        self._errants.clear()
        return errants
