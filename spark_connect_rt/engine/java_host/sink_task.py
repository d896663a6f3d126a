"""A Java sink task behind the contract of sinks (``HostedSink`` of ``engine/executor/python_sink.py``).

Owns the calls of the task and the requests in their answers. Consumed columns go to the JVM as they are, where Java's
converters and transformations read them. Everything else (offsets, commits, revocations) belongs to
``SinkTaskRunner``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import ConsumeRow
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome, SinkParts
from spark_connect_rt.engine.java_host.chains import PythonPart, cut_of
from spark_connect_rt.engine.java_host.jvm_pool import slot_hosts
from spark_connect_rt.engine.java_host.latest_config import latest_config, refers
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config, with_converters
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.sink_calls import CallWait, SinkCalls, plugin_error
from spark_connect_rt.engine.java_host.wire import Frame, ToJava, consumed, pieces
from spark_connect_rt.errors import BadConfigError, ConnectError, JavaPluginError, ShuttingDownError
from spark_connect_rt.kafka.interfaces import GroupGeneration
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, Stage
from spark_connect_rt.records.pipeline.sink_pipeline import place_of

# Errant records of a sink task in a JVM, from its frames to the confirmation that their dead letters are durable. The
# log, the counts and the dead letter queue are those of every sink (``engine/executor/errant_reports.py``).


Original = Callable[[ConsumeRow], ConsumeRow]


class JavaErrants:
    """The errant records of one task in a JVM. The task's thread."""

    def __init__(
        self, reports: ErrantReports, confirm: Callable[[Mapping[str, Any]], None], flush_timeout_ms: int
    ) -> None:
        """Take the reports of the task, and the call that confirms dead letters to the JVM.

        ``confirm`` is given {"to": number} when letters up to this number are durable. With "error" they never will be.
        """
        self._reports = reports
        self._confirm = confirm
        self._flush_timeout_ms = flush_timeout_ms
        self._last = self._confirmed = 0
        self.original: Original = lambda row: row  # from a row of the JVM to the consumed row
        self.skipped = 0  # given up before put; taken by the caller
        self.reported = 0  # by the task itself; taken by the caller

    def take(self, frame: Frame) -> None:
        """Log the errant record of a frame and send it to the queue. Raises ConnectError if the queue rejects it."""
        errant = errant_of(frame, self.original)
        self._last = frame.head["number"]
        by_task = errant.stage is Stage.TASK_PUT
        if by_task:
            self.reported += 1
        else:
            self.skipped += 1
        try:
            self._reports.tell((errant,), by_task=by_task)
        except ConnectError as error:
            self._refuse(error)
            raise

    def settle(self) -> None:
        """Wait until all dead letters are durable, and confirm them. Raises ConnectError if one was rejected.

        After a timeout nothing is confirmed, and a later call tries again.
        """
        if self._last == self._confirmed:
            return
        try:
            durable = self._reports.flush(self._flush_timeout_ms)
        except ConnectError as error:
            self._refuse(error)
            raise
        if durable:
            self._confirmed = self._last
            self._confirm({"to": self._last})

    def _refuse(self, error: ConnectError) -> None:
        self._confirmed = self._last
        self._confirm({"to": self._last, "error": str(error)})


def errant_of(frame: Frame, original: Original = lambda row: row) -> FailedRecord:
    """Return the errant record of an ERRANT frame."""
    head, at = frame.head, 0

    def part(size: int) -> bytes | None:
        nonlocal at
        if size < 0:
            return None
        at += size
        return bytes(frame.data[at - size : at])

    key, value = part(head["key"]), part(head["value"])
    headers = [{"key": name, "value": part(size)} for name, size in head["headers"]]
    row: ConsumeRow = (
        head["topic"],
        head["partition"],
        head["offset"],
        head["timestamp"],
        key,
        value,
        headers or None,
    )
    row = original(row)
    said = head.get("error") or {"class": "", "message": None, "trace": ""}
    error = JavaPluginError(said["class"], said["message"], said["trace"])
    return FailedRecord(place_of(row), Stage(head["stage"]), error, head["executing_class"] or "", row)


FRAME_BYTES = 8 * 1024 * 1024  # that the JVM holds at once, without what the task itself keeps
FRAME_RECORDS = 20_000  # of several puts: the way there and back costs as much as converting 5,000
PUT_RECORDS = 2_000  # unless max.poll.records says otherwise: few stay in the cache, many share a task's transaction
_NOTHING = {"rows": 0, "columns": {}}
log = logging.getLogger(__name__)

Prepared = tuple[dict[str, Any], list[pa.Buffer]]
"""The head and the buffers of a PUT frame."""


class JavaSinkTask(HostedSink):
    """One Java sink task in a JVM of this process."""

    joins_partitions = True

    def __init__(self, parts: SinkParts) -> None:
        """Take the parts. Raises BadConfigError if the launch holds no Java code."""
        super().__init__(parts)
        if parts.launch.java is None:
            raise BadConfigError({"connector.class": ["this task is started without its Java plug-in"]})
        self._java = parts.launch.java
        self._cut = cut_of(parts)
        keeps_originals = ReportSettings.from_config(parts.connector_config).reports
        self._python = PythonPart(self._cut, parts, keeps_originals=keeps_originals) if self._cut else None
        self._errants: JavaErrants | None = None
        self._again = False  # the task asked for its last records again
        self._counts = (0, 0)
        self._most = PUT_RECORDS  # of one put
        self._rows_taken = self._rows_left = 0  # of what was prepared last
        waiting = CallWait(
            on_errant=lambda frame: self._reporting.take(frame),
            settle=lambda: self._reporting.settle(),
            ending=parts.ending,
            hurried=parts.must_not_wait,
            latest=lambda: latest_config(
                lambda: parts.clients.resolve(parts.launch.config, parts.launch.worker_config)
            ),
        )
        self._calls = SinkCalls(parts.launch.task, waiting)
        self._calls.meter = parts.meter

    @property
    def _reporting(self) -> JavaErrants:
        assert self._errants is not None
        return self._errants

    def start(self, reports: ErrantReports) -> None:
        """Get a JVM and start the task there.

        Raises JavaHostGoneError if no JVM is available. That does not fail the task: it is started again.
        """
        parts, launch = self.parts, self.parts.launch
        self._errants = JavaErrants(reports, self._confirm, launch.flush.offset_flush_timeout_ms)
        self._reports = reports
        if self._python is not None:
            self._errants.original = self._python.original
        config = parts.clients.resolve(launch.config, launch.worker_config)
        consumer = parts.clients.resolve(launch.client_config, launch.worker_config)
        self._most = int(consumer.get("max.poll.records", PUT_RECORDS))
        worker = jvm_worker_config(parts.worker_config)
        location = parts.clients.plugin_location
        try:
            jvm = slot_hosts().acquire(self._java, worker, location, self._calls, lambda: not parts.ending())
        except ShuttingDownError as error:  # no failure: it ends before it began
            raise JavaHostGoneError(str(error)) from error
        start = {
            "name": launch.task.connector,
            "number": launch.task.task,
            "sink": True,
            "connector": {"name": launch.task.connector, **self._java_config()},
            "task": config,
            "refers": refers(launch.config.written()),
            "consumer": consumer,
        }
        with parts.meter.call("start"):
            about = self._calls.begin(jvm, start)
        self.pre_commit_has_effects = about["acts_when_asked"]

    def _java_config(self) -> Mapping[str, str]:
        if self._cut is not None:
            return self._cut.java
        return with_converters(self.parts.connector_config, self.parts.worker_config)

    def _confirm(self, letters: Mapping[str, Any]) -> None:
        self._calls.say(ToJava.LETTERS, letters)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Open partitions that are newly assigned to the task."""
        self._raise(self._ask(ToJava.OPEN, _pairs(partitions)))

    def split(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return pieces that a small heap can hold, because the JVM has each twice, as bytes and as objects."""
        return pieces(batch, FRAME_BYTES)

    def max_put_records(self) -> int | None:
        """Return as many records as a frame holds. A chain that is partly in Python joins no reads."""
        return None if self._python is not None else max(FRAME_RECORDS, self._most)

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> Prepared | None:
        """Return the columns of a part. If the chain is partly in Python, its Python part runs first."""
        self._again = False
        self._reporting.skipped = 0
        self._rows_left = batch.num_rows
        if self._python is None:
            head, buffers = consumed(batch)
            return head | {"most": self._most}, buffers
        crossing = self._python.cross(batch, self._reports)
        self._reporting.skipped = self._python.skipped
        if crossing is None:
            return None
        self._rows_left = crossing.num_rows
        return consumed(crossing)

    def deliver(self, prepared: Prepared) -> PutOutcome:
        """Put the columns, or have the JVM continue. Logs the reason if the task asked for a retry."""
        self._rows_taken = 0
        answer = self._ask_put(ToJava.PUT_AGAIN) if self._again else self._ask_put(ToJava.PUT, *prepared)
        self._again = "again" in answer
        self._take(answer)
        self._raise(answer)
        if self._again:
            self._log_retry(answer)
            return PutOutcome.RETRY
        return PutOutcome.PARTIAL if self._rows_left else PutOutcome.TAKEN

    def _ask_put(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> Mapping[str, Any]:
        """Make a call that puts, and measure the puts as the JVM reports them."""
        with self.parts.meter.call("put", counted=False):
            answer = self._ask(kind, head, data)
        if "puts" in answer:
            self.parts.meter.made("put", answer["puts"], answer["put_ms"], answer["put_ms_max"])
        return answer

    def _take(self, answer: Mapping[str, Any]) -> None:
        """Note which rows were put, also if the put raised."""
        if not (rows := answer.get("rows")):
            return
        self._rows_left -= rows
        self._rows_taken = rows if self._python is None else 0  # its Python part made other rows
        self._counts = answer["records"], self._reporting.skipped
        self._reporting.skipped = 0
        if answer["records"]:
            self.parts.meter.moved("put", answer["records"])

    @property
    def rows_taken(self) -> int:
        """How many first rows of the part the last delivery put. 0 if a Python part has changed the rows."""
        return self._rows_taken

    def _log_retry(self, answer: Mapping[str, Any]) -> None:
        if "again" in answer:
            why = f"{answer['again']['class']}: {answer['again']['message']}"
            log.warning("task=%s: put will be retried: %s", self.parts.launch.task, why)

    @property
    def counts(self) -> tuple[int, int]:
        """The records that the last delivery put, and the tolerated errant records."""
        return self._counts

    def put_empty(self) -> None:
        """Put an empty batch, after its dead letters so far are confirmed."""
        self._reporting.settle()
        answer = self._ask_put(ToJava.PUT, _NOTHING)
        self._raise(answer)
        self._log_retry(answer)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return which of these next offsets the task says are safe. Raises JavaPluginError for its error."""
        self._reporting.settle()
        answer = self._ask(ToJava.SAFE, [(tp.topic, tp.partition, at) for tp, at in offsets.items()])
        self._raise(answer)
        return {TopicPartition(topic, partition): at for topic, partition, at in answer["offsets"]}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that leave the task."""
        self._raise(self._ask(ToJava.CLOSE, _pairs(partitions)))

    def take_reported_count(self) -> int:
        """Return how many records the task itself has reported as errant since the last call."""
        taken, self._reporting.reported = self._reporting.reported, 0
        return taken

    def stop(self) -> None:
        """Stop the task and close the Python part of its chain. Nothing is stopped in a JVM that is gone."""
        with ExitStack() as last_first:
            if self._python is not None:
                last_first.callback(self._python.close)
            try:
                self._calls.end()
            except JavaHostGoneError as error:
                log.info("task=%s needs no stop: %s", self.parts.launch.task, error)

    def note_generation(self, generation: GroupGeneration) -> None:
        """Pass the group generation on. Some tasks commit offsets in their own transactions (Iceberg's)."""
        self._calls.note_member(asdict(generation))

    def abandon(self) -> None:
        """Kill the JVM of the task."""
        self._calls.give_up()

    def _ask(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> Mapping[str, Any]:
        """Make a call, and put the requests of the task into its context, also if the call raised."""
        answer = self._calls.ask(kind, head, data)
        context = self.parts.context
        if "paused" in answer:
            context.pause_only(frozenset(TopicPartition(*pair) for pair in answer["paused"]))
        if "rewinds" in answer:
            context.offset({TopicPartition(topic, partition): at for topic, partition, at in answer["rewinds"]})
        if "timeout_ms" in answer:
            context.timeout(answer["timeout_ms"])
        if answer.get("commit"):
            context.request_commit()
        return answer

    @staticmethod
    def _raise(answer: Mapping[str, Any]) -> None:
        if "error" in answer:
            raise plugin_error(answer["error"])


def _pairs(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(tp.topic, tp.partition) for tp in partitions]
