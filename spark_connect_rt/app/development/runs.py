"""One run of a connector in a harness: each step polls or puts once, and shows what came of it.

A run ends with a reload, a failure, or when nothing is left. Its offsets live in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.app.development.broker import Broker
from spark_connect_rt.app.development.given_records import GivenRecord, RecordFile
from spark_connect_rt.app.development.project import LoadedConnector
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.cli.terminal import Terminal
from spark_connect_rt.config.connector_config import topics_that_are_read
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.testing.connector_harness import MemoryOffsets, ProducedRecord, SourceHarness
from spark_connect_rt.testing.sink_harness import SinkHarness

# How ``connectrt dev`` shows records and offsets: one line each. Pure.


Headers = Iterable[tuple[str, bytes | None]]
_BREAKS = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_SHOWN = 300  # characters of a key, a value or a header


def record_line(
    place: TopicPartition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    source: tuple[Any, Any] | None = None,
) -> str:
    """Return a record in one line; ``source``: its source partition and the offset behind it."""
    parts = [f"{place.topic}-{place.partition}@{offset}", f"key {content(key)}", f"value {content(value)}"]
    named = ", ".join(f"{name}={content(text)}" for name, text in headers)
    if named:
        parts.append(f"headers {named}")
    if source is not None:
        parts.append(f"offset {as_json(source[1])}")
    return "  ".join(parts)


def content(data: bytes | None) -> str:
    """Return bytes as text where they are text, else in hexadecimal; cut after 300 characters."""
    if data is None:
        return "null"
    try:
        text = data.decode("utf-8").translate(_BREAKS)
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        return _cut(f"0x{data.hex()}", f" ({len(data)} byte{'' if len(data) == 1 else 's'})")
    return _cut(text or '""')


def source_offset_lines(before: Mapping[str, Any], after: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return a line for each source partition whose offset differs from ``before`` (partition as JSON -> offset)."""
    return [
        f"would commit {as_json(partition)} -> {as_json(offset)}"
        for partition, offset in after
        if before.get(as_json(partition)) != offset
    ]


def sink_offset_line(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> str | None:
    """Return the offsets that a sink's group would have, None: no other ones than before."""
    moved = {place: offset for place, offset in sorted(after.items()) if before.get(place) != offset}
    if not moved:
        return None
    return "would commit " + ", ".join(f"{place.topic}-{place.partition}: {offset}" for place, offset in moved.items())


def as_json(tree: Any) -> str:
    """Return JSON in one line, keys sorted."""
    return json.dumps(tree, sort_keys=True, ensure_ascii=False)


def _cut(text: str, end: str = "") -> str:
    return text + end if len(text) <= _SHOWN else f"{text[:_SHOWN]}…{end}"


_RETRY_S = 1.0
_IDLE_MS = 1_000
_IDLE_S = 1.0  # a worker calls an idle sink task about once a second
_REASON = "__connect.errors.exception.message"


class RunStep(NamedTuple):
    """The result of one poll or put: in how many seconds the next one is due, and whether nothing is left to read."""

    wait_s: float
    is_last: bool = False


class DevelopmentRun(Protocol):
    """A connector that runs in this process. One thread."""

    records: int
    """How many records were shown."""

    def start(self) -> None:
        """Check the configuration and start the connector. Raises what the connector does, BadConfigError."""

    def step(self, most: int | None = None) -> RunStep:
        """Poll or put once and show at most ``most`` records. Raises what fails the task."""

    def stop(self) -> None:
        """Stop the connector and close what was opened for it."""


class SourceRun:
    """A source connector with all its tasks; with a broker its records are sent there."""

    def __init__(
        self,
        loaded: LoadedConnector,
        terminal: Terminal,
        worker: Mapping[str, str],
        offsets: MemoryOffsets,
        broker: Broker | None = None,
    ) -> None:
        """Take the connector, its worker's converters, and the offsets to start from. Raises ConnectError."""
        _refuse_others(loaded, SourceTask)
        self.records = 0
        self._terminal = terminal
        self._broker = broker
        self._harness = SourceHarness(loaded.connector_class, loaded.config, worker, loaded.find_plugin)
        self._harness.offsets = offsets
        self._ends: Counter[TopicPartition] = Counter()
        self._letters = 0

    def start(self) -> None:
        """Check the broker, if there is one, and start the connector."""
        if self._broker is not None:
            self._broker.check()
        self._harness.start()

    def step(self, most: int | None = None) -> RunStep:
        """Poll once; show or send the records, and return when the next poll is due."""
        harness = self._harness
        before = {as_json(partition): offset for partition, offset in harness.offsets.all()}
        try:
            records = harness.poll()
        except RetriableError as error:
            self._terminal.line(f"poll asked to be called again: {error}", "yellow")
            return RunStep(_RETRY_S)
        finally:
            self._show_errants()
        places = self._broker.send(records) if self._broker is not None and records else ()
        for number, record in enumerate(records[:most]):
            place, offset = self._place(record)
            if number < len(places) and (where := places[number]) is not None:
                place, offset = TopicPartition(where.topic, where.partition), where.offset
            self._terminal.line(record_line(place, offset, record.key, record.value, record.headers, record.source))
        self.records += len(records[:most])
        for line in source_offset_lines(before, harness.offsets.all()):
            self._terminal.line(line, "faint")
        if records:
            return RunStep(0)
        wait_ms = min((task.idle_wait_ms() for task in harness.tasks), default=_IDLE_MS)
        return RunStep(wait_ms / 1000, is_last=not any(task.has_more() for task in harness.tasks))

    def _place(self, record: ProducedRecord) -> tuple[TopicPartition, int]:
        place = TopicPartition(record.topic, record.partition or 0)
        self._ends[place] += 1
        return place, self._ends[place] - 1

    def _show_errants(self) -> None:
        for errant in self._harness.errants[self._letters :]:
            self._terminal.line(f"skipped: {errant.place}: {errant.error}", "yellow")
        self._letters = len(self._harness.errants)

    def stop(self) -> None:
        """Stop the connector and close the broker's clients."""
        try:
            self._harness.stop()
        finally:
            if self._broker is not None:
                self._broker.close()


class SinkRun:
    """A sink connector with its tasks, given the records of a file, or of topics.

    Task t of n has the partitions whose number modulo n is t. A record of a file without a partition goes to a
    partition by its key, or without a key to the next one.
    """

    def __init__(
        self,
        loaded: LoadedConnector,
        terminal: Terminal,
        worker: Mapping[str, str],
        committed: Mapping[TopicPartition, int],
        given: RecordFile | Broker,
    ) -> None:
        """Take the connector, its worker's converters, the offsets to start from, and where its records come from.

        Raises ConnectError.
        """
        _refuse_others(loaded, SinkTask)
        self.records = 0
        self._terminal = terminal
        self._given = given
        self._reads = topics_that_are_read(loaded.config)
        most = int(loaded.config.get("tasks.max") or 1)
        self._harness = SinkHarness(loaded.connector_class, loaded.config, worker, loaded.find_plugin, tasks=most)
        self._letter_topic = ReportSettings.from_config(loaded.config).topic
        self._next_partition = 0
        self._harness.committed.update(committed)
        self._shown: Counter[TopicPartition] = Counter(committed)
        self._letters = 0

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The offsets that would be committed."""
        return self._harness.committed

    def start(self) -> None:
        """Check the broker, if there is one, start the connector and subscribe to its topics."""
        if isinstance(self._given, Broker):
            self._given.check()
        self._harness.start()
        if isinstance(self._given, Broker):
            for topic in self._given.subscribe(named_topics(self._harness.hosted.config), self._reads):
                self._terminal.line(f"topic {topic} does not exist", "yellow")
        if len(self._harness.tasks) > 1:
            self._terminal.line(f"{len(self._harness.tasks)} tasks share the partitions", "faint")

    def step(self, most: int | None = None) -> RunStep:
        """Put the available records once, commit, and return when the next put is due."""
        came = self._take_given()
        self._show_new(most)
        before = dict(self._harness.committed)
        if not self._harness.deliver():
            wait_s = self._harness.asked_wait_s or _RETRY_S
            self._terminal.line(f"put asked for the same records again after {wait_s:.1f} s", "yellow")
            return RunStep(wait_s)
        line = sink_offset_line(before, self._harness.commit())
        if line is not None:
            self._terminal.line(line, "faint")
        self._show_letters()
        if came or (isinstance(self._given, Broker) and not self._given.is_read()):
            return RunStep(0)
        return RunStep(_IDLE_S, is_last=True)

    def _take_given(self) -> bool:
        if isinstance(self._given, Broker):
            rows = self._given.read()
            self._harness.topics.append(rows)
            return bool(rows)
        records = self._given.new_records()
        for record in records:
            self._harness.send(
                record.topic,
                record.value,
                key=record.key,
                partition=self._partition_of(record),
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
        return bool(records)

    def _partition_of(self, record: GivenRecord) -> int:
        tasks = len(self._harness.tasks)
        if record.partition is not None:
            return record.partition
        if record.key is not None:
            return crc32(as_json(record.key).encode()) % tasks
        self._next_partition += 1
        return (self._next_partition - 1) % tasks

    def _show_new(self, most: int | None) -> None:
        """Show the records that the task is about to get, at most ``most``."""
        left = 1 << 30 if most is None else most
        topics = self._harness.topics
        for place in sorted(topics.partitions):
            if not self._reads(place.topic) or place.topic == self._letter_topic:
                continue
            for row in topics.read(place, self._shown[place], left):
                headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
                self._terminal.line(record_line(place, row["offset"], row["key"], row["value"], headers))
                self._shown[place] = row["offset"] + 1
                self.records += 1
                left -= 1

    def _show_letters(self) -> None:
        letters = self._harness.dead_letters()
        for letter in letters[self._letters :]:
            headers = {header["key"]: header["value"] for header in letter.get("headers") or ()}
            reason = f": {content(headers[_REASON])}" if _REASON in headers else ""
            self._terminal.line(f"dead letter: value {content(letter['value'])}{reason}", "yellow")
        self._letters = len(letters)

    def stop(self) -> None:
        """Stop the connector and close the broker's clients."""
        try:
            self._harness.stop()
        finally:
            if isinstance(self._given, Broker):
                self._given.close()


def named_topics(config: Mapping[str, str]) -> Sequence[str]:
    """Return the topics that a sink's ``topics`` lists, none where it has ``topics.regex``."""
    return [name.strip() for name in (config.get("topics") or "").split(",") if name.strip()]


def _refuse_others(loaded: LoadedConnector, task: type[Any]) -> None:
    """Raise ConnectError: Spark runs this connector's tasks, so there is none that a harness could call."""
    made: Callable[[], Any] = loaded.connector_class
    try:
        found = made().task_class()
    except Exception:  # noqa: BLE001 - the author's code: the run meets the same, where it is shown
        return
    if isinstance(found, type) and not issubclass(found, task):
        name = loaded.connector_class.__name__
        raise ConnectError(f"{name} runs only in a worker. Use connectrt preview on a running worker.")
