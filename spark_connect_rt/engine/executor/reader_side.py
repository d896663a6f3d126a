"""The reader half of a slot: hosts task threads, obeys the driver, yields super-rows.

Owns the table of hosts and the generator that Spark (or a plain thread, in testing) drains. source_task and sink_feed
own the work of each task. A fused host has its writer here, too: its rows are handed over in this process.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from spark_connect_rt.api.records import Delivered
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor.control_wire import (
    Message,
    decode_java,
    decode_launch,
    decode_offsets,
    encode_launch,
)
from spark_connect_rt.engine.executor.frames import (
    GATHER_S,
    MARKER_ROW,
    PACK_ROWS,
    BatchHead,
    Gathering,
    Row,
    RowKind,
    RowQueue,
    is_small,
    packed,
)
from spark_connect_rt.engine.executor.freed_memory import FreedMemory
from spark_connect_rt.engine.executor.hosting import get_ready, is_shortage, tell_or_log, text_of, trace_of
from spark_connect_rt.engine.executor.idle_poller import IDLE_POLLER
from spark_connect_rt.engine.executor.joint_reports import JointReports, Report
from spark_connect_rt.engine.executor.python_source import make_hosted_source
from spark_connect_rt.engine.executor.sink_feed import SinkFeed
from spark_connect_rt.engine.executor.source_task import LookUpEndedError, SourceTaskRunner
from spark_connect_rt.engine.executor.task_logs import hide_secrets
from spark_connect_rt.engine.executor.task_meter import TELL_EACH_S
from spark_connect_rt.engine.executor.writer_side import TaskWriters, not_hosted
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ShuttingDownError, TimedOutError
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.records.pipeline.delivery_runs import metadata_of

if TYPE_CHECKING:
    import pyarrow as pa

STOP_LOOK_EACH_S = 0.2  # while a lookup waits
CALM_BEATS = 10  # heartbeats: once nothing has crossed for so many, one of so many is passed on
AT_STOP_S = 5.0  # for one that a task makes while it stops
_LAST_WORDS = (RowKind.FAILED, RowKind.LOST, RowKind.ENDED)
_SWITCHED = {"pause": {"paused": True}, "resume": {"paused": False}}
log = logging.getLogger(__name__)


class _OffsetQuestion:
    """A lookup that waits for the driver."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.answer: list[Mapping[str, Any] | None] = []
        self.error: str | None = None


class FusedRows:
    """Takes the place of the queue for a fused host: its rows go to a writer of this process. The host's thread."""

    def __init__(self, writers: TaskWriters, rows: RowQueue) -> None:
        self._writers = writers
        self._rows = rows

    def put(self, row: Row) -> None:
        """Hand a row on. Raises ShuttingDownError once the slice is over."""
        if row.kind in _LAST_WORDS:  # behind what the reader's own thread still has to report (E2)
            self._rows.put(row)
            return
        if self._writers.abandoned:
            raise ShuttingDownError("the slice is over, so rows are discarded")
        self._writers.give(row)

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Have a small batch served on this thread, where its writer has nothing else to do."""
        return self._writers.serve_at_once(host, head, batch)


class ReaderSide:
    """All hosts of one slice, on the reading side; of those that are fused, the writing side, too."""

    def __init__(
        self,
        clients: ExecutorClients,
        send: Callable[[Message], None],
        heartbeat_s: float = 1.0,
        freed: FreedMemory | None = None,
        joint: JointReports | None = None,
    ) -> None:
        """``freed``: of a process that is this slice's alone; ``joint``: see TaskWriters."""
        self._clients = clients
        self._freed = freed
        self._send = send
        self._heartbeat_s = heartbeat_s
        self._rows = RowQueue()
        self._joint = joint
        self._writers = TaskWriters(clients, self._report_of_writer, joint)
        self._fused = FusedRows(self._writers, self._rows)
        self._hosts: dict[int, SourceTaskRunner | SinkFeed] = {}
        self._ending = False
        self._numbers = itertools.count(1)
        self._questions: dict[int, _OffsetQuestion] = {}
        self._reported_s = 0.0
        self._calm_beats = 0  # since a row has crossed
        self._gathering = Gathering()

    def rows(self) -> Iterator[Row]:
        """Yield rows until the driver ends the slice: behind each queue run-out a marker, and each second or so."""
        while True:
            row = self._rows.get(self._heartbeat_s)
            self._tell_measures(time.monotonic())
            if row is not None:
                if row.kind in (RowKind.FAILED, RowKind.ENDED):
                    self._tell_last_measures(row.host)
                if row.kind is RowKind.ENDED:
                    self._hosts.pop(row.host, None)
                if row.host in self._writers.totals:
                    self._writers.give(row)
                    continue
                self._calm_beats = 0
                row = self._with_more(row)
                last = self._rows.empty()
                yield replace(row, last=last)
                if not last:
                    continue
            elif self._ending:
                self._rows.close()
                yield from self._books()
                return
            elif not self._beats():
                continue
            yield MARKER_ROW

    def _beats(self) -> bool:
        """Return whether a second without a row is worth a marker: each costs the JVM and both processes some 3 ms.

        A writer without hosts has nothing to do at it; its end, and Spark's, are noticed without
        (docs/explanation/engine.md).
        """
        if self._hosts.keys() - self._writers.totals.keys():
            return True
        self._calm_beats += 1
        return self._calm_beats <= CALM_BEATS or self._calm_beats % CALM_BEATS == 0

    def _books(self) -> Iterator[Row]:
        """Yield what the writers of this process reported durable, once they have ended (E4)."""
        self._writers.join()
        if self._writers.totals:
            totals = [(host, total.records, total.batches) for host, total in self._writers.totals.items()]
            yield Row(0, RowKind.TOTALS, orjson.dumps(totals))

    def _report_of_writer(self, message: Mapping[str, Any]) -> None:
        """Send a writer's report; how full it is concerns this process alone."""
        if message["op"] != "throttle":
            self._send(dict(message))
        elif (host := self._hosts.get(message["host"])) is not None:
            host.switches.set(throttled=message["on"])

    def _with_more(self, row: Row) -> Row:
        """Return a small batch with those queued behind it, after a moment for more where they come often."""
        if not is_small(row):
            return row
        if self._gathering.seen(time.monotonic()) and self._rows.empty():
            time.sleep(GATHER_S)
        more = self._rows.take_while(is_small, PACK_ROWS - 1)
        now_s = time.monotonic()
        for _ in more:
            self._gathering.seen(now_s)
        return packed([row, *more])

    def _tell_measures(self, now_s: float) -> None:
        """Report the work of the hosts to the driver, about once a second."""
        if now_s - self._reported_s < TELL_EACH_S:
            return
        self._reported_s = now_s
        if self._joint is None:
            self._tell_all(self._report_of_writer, now_s)
        else:
            self._joint.together(lambda report: self._tell_all(report, now_s))
        IDLE_POLLER.check(now_s)
        if self._freed is not None:
            self._freed.look(now_s, self._rows.taken + self._writers.batches())

    def _tell_all(self, report: Report, now_s: float) -> None:
        for number, host in list(self._hosts.items()):
            news = host.news(now_s)
            if news is not None:
                tell_or_log(report, {"op": "measures", "host": number, **news})
        self._writers.tell_measures(report)

    def _tell_last_measures(self, number: int) -> None:
        """Report ahead of the row that ends a host: it sends nothing behind that (E2)."""
        news = self._hosts[number].news(time.monotonic(), last=True) if number in self._hosts else None
        if news is not None:
            tell_or_log(self._send, {"op": "measures", "host": number, **news})

    def tasks(self) -> list[ConnectorTaskId]:
        """Return the tasks that are hosted now. Any thread."""
        return list({*(host.task for host in list(self._hosts.values())), *self._writers.tasks()})

    def abandon(self) -> None:
        """Stop everything without ceremony: the channel or the job is gone."""
        self._ending = True
        self._writers.abandon()
        for host in list(self._hosts.values()):
            host.switches.set(stopping=True)
        self._rows.close()

    def handle(self, message: Message) -> None:
        """Obey one message of the driver (channel thread); never blocks for long.

        What goes wrong with one task is the end of that task alone: this thread is every task's link to the driver.
        """
        try:
            self._obey(message)
        except ShuttingDownError:
            log.info("the slice is over, ignoring %s", message["op"])
        except BaseException as error:  # a plug-in's own settings are read here, too
            log.exception("host=%s: %s failed", message.get("host"), message["op"])
            if "host" in message:
                self._give_up(message["host"], error)

    def _give_up(self, number: int, error: BaseException) -> None:
        """End a host that cannot continue, or that never started."""
        host = self._hosts.get(number)
        if host is None:  # no row of it was given to anyone: nothing of it is to be drained
            self._send(not_hosted(number, error))
            self._send({"op": "ended", "host": number})
            return
        rows = self._fused if number in self._writers.totals else self._rows
        if is_shortage(error):
            rows.put(Row(number, RowKind.LOST, text_of(error).encode()))
        else:
            rows.put(Row(number, RowKind.FAILED, trace_of(error).encode()))
        if not host.is_alive():
            rows.put(Row(number, RowKind.ENDED))

    def _obey(self, message: Message) -> None:
        match message["op"]:
            case "start":
                self._start(message["host"], decode_launch(message["launch"]))
            case "end":
                self._ending = True
                self._rows.wake()
            case "expect":
                get_ready(decode_java(message["java"]), message["worker_config"], self._clients)
            case "offsets":
                self._answer(message)
            case "ping":
                pass
            case _:
                self._handle_for_host(message)

    def _handle_for_host(self, message: Message) -> None:
        host = self._hosts.get(message["host"])
        if host is None:  # it ended meanwhile; its ENDED row is on the way
            return
        match message["op"]:
            case "stop":
                host.switches.stop(message["within_ms"])
            case "pause" | "resume" as op:
                host.switches.set(**_SWITCHED[op])
            case "throttle":
                host.switches.set(throttled=message["on"])
            case "assign" | "steer" | "generation" | "revoke" if isinstance(host, SinkFeed):
                _handle_for_feed(host, message)
            case "claimed" if isinstance(host, SourceTaskRunner):
                host.claimed.set()
                host.switches.nudge()
            case "durable" if isinstance(host, SourceTaskRunner):
                delivered = [Delivered(*entry) for entry in message.get("delivered", ())]
                host.durable(message["rows"], delivered, metadata_of(message.get("metadata", ())))
            case other:
                log.error("unknown control message %s for host %s, ignored", other, message["host"])

    def _start(self, number: int, launch: TaskLaunch) -> None:
        hide_secrets(launch)
        rows = self._fused if launch.fused else self._rows
        if launch.kind is TaskKind.SOURCE:
            host: SourceTaskRunner | SinkFeed = SourceTaskRunner(
                number, launch, rows, self._clients, self, make_hosted_source
            )
        else:
            host = SinkFeed(number, launch, rows, self._clients)
        if launch.fused:
            self._writers.open(number, launch, fused=True)
        else:
            self._rows.put(Row(number, RowKind.LAUNCH, orjson.dumps(encode_launch(launch))))
        self._hosts[number] = host
        host.start()

    def wants_commits(self, host: int) -> None:
        """Ask the driver for "durable" messages; only where the task listens, as they cost a message a batch."""
        self._send({"op": "wants_commits", "host": host})

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Send a lookup and wait for its answer (task thread), as long as it takes.

        A task that stops may ask, too, as in Java: the driver tries once. Raises LookUpEndedError: the task is to stop.
        TimedOutError: the driver could not read them.
        """
        number, question = next(self._numbers), _OffsetQuestion()
        until_s = time.monotonic() + (AT_STOP_S if self._is_stopping(host) else 0.0)
        self._questions[number] = question
        try:
            self._send({"op": "offsets", "host": host, "id": number, "partitions": list(partitions)})
            # The driver gives up a lookup once the task is to stop: an error after that does not fail it.
            while not question.answered.wait(STOP_LOOK_EACH_S) or question.error is not None:
                answerable = question.error is None and time.monotonic() < until_s
                if self._is_stopping(host) and not answerable:
                    raise LookUpEndedError("the task was stopped before its source offsets could be read")
                if question.error is not None:
                    raise TimedOutError(f"source offsets could not be read: {question.error}")
        finally:
            del self._questions[number]
        return question.answer

    def _is_stopping(self, host: int) -> bool:
        return host not in self._hosts or self._hosts[host].switches.stopping

    def _answer(self, message: Message) -> None:
        question = self._questions.get(message["id"])
        if question is None:
            return
        question.answer = message.get("answer", [])
        question.error = message.get("error")
        question.answered.set()


def _handle_for_feed(feed: SinkFeed, message: Message) -> None:
    match message["op"]:
        case "assign":
            feed.assign(decode_offsets(message["offsets"]))
        case "steer":
            hold = [TopicPartition(topic, partition) for topic, partition in message["hold"]]
            feed.steer(hold, {TopicPartition(topic, p): offset for topic, p, offset in message["seek"]})
        case "generation":
            feed.note_generation(message)
        case _:
            feed.revoke([TopicPartition(topic, partition) for topic, partition in message["partitions"]])
