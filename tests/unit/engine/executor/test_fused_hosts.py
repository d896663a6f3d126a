"""Hosts with both halves in the process that reads: what crosses to the writer, and what holds them back."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor import reader_side, task_writer
from spark_connect_rt.engine.executor.control_wire import (
    MessageSplitter,
    decode_launch,
    encode_expected,
    encode_launch,
    encode_message,
)
from spark_connect_rt.engine.executor.frames import Row, RowKind, RowQueue
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.python_source import make_hosted_source
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.source_task import SourceTaskRunner
from spark_connect_rt.engine.executor.writer_side import TaskWriters, WriterSide
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.task_runner import Expect, JavaCode, TaskKind, TaskLaunch
from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until

STRING = "spark_connect_rt.records.converters.primitive_converters:StringConverter"
CONVERTERS = {f"{part}.converter": STRING for part in ("key", "value", "header")}


class Half:
    """A reader whose rows are collected, as Spark would take them."""

    def __init__(self) -> None:
        self.clients = MemoryExecutorClients(find_plugin=load_class)
        self.reports: list[Mapping[str, Any]] = []
        self.rows: list[Row] = []
        self.side = ReaderSide(self.clients, self.reports.append, 0.02)
        self._thread = threading.Thread(target=lambda: self.rows.extend(self.side.rows()), daemon=True)
        self._thread.start()

    def start(self, host: int, folder: Path, **config: str) -> None:
        task_config = {"name": "a", "folder": str(folder), **config}
        launch = TaskLaunch(
            ConnectorTaskId("a", 0),
            1,
            1,
            TaskKind.SOURCE,
            "tests.contract.task_samples:CountingSource",
            task_config,
            {},
            CONVERTERS,
            fused=True,
        )
        self.side.handle({"op": "start", "host": host, "launch": encode_launch(launch)})
        threading.Thread(target=self._answer_look_ups, daemon=True).start()

    def _answer_look_ups(self) -> None:
        wait_until(lambda: bool(self.ops("offsets")))
        self.side.handle({"op": "offsets", "id": self.ops("offsets")[-1]["id"], "answer": [None]})

    def ops(self, *wanted: str) -> list[Mapping[str, Any]]:
        return [report for report in list(self.reports) if report["op"] in wanted]

    def end(self) -> None:
        self.side.handle({"op": "end"})
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_nothing_of_a_fused_host_crosses_but_its_totals(tmp_path: Path) -> None:
    half = Half()
    half.start(7, tmp_path, count="10")
    wait_until(lambda: sum(op["n"] for op in half.ops("durable")) == 10)
    half.side.handle({"op": "stop", "host": 7, "within_ms": None})
    wait_until(lambda: bool(half.ops("ended")))
    half.end()
    batches = len(half.ops("durable"))
    crossed = [row for row in half.rows if row.kind is not RowKind.MARKER]
    assert [row.kind for row in crossed] == [RowKind.TOTALS]
    assert [report["op"] for report in half.reports if report["op"] not in ("measures", "offsets", "durable")] == [
        "running",
        "ended",
    ]
    assert half.clients.topics.values("numbers") == [b"a-%d" % number for number in range(10)]
    totals = WriterSide(half.clients, lambda message: None).run(iter(half.rows))
    assert {host: (total.records, total.batches) for host, total in totals.items()} == {7: (10, batches)}


def test_a_full_lane_rests_its_host_without_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_writer, "THROTTLE_BYTES", 1)
    monkeypatch.setattr(task_writer, "UNTHROTTLE_BYTES", 1)
    rested: list[bool] = []
    half = Half()
    real = half.side._report_of_writer

    def listen(message: Mapping[str, Any]) -> None:
        real(message)
        if message["op"] == "throttle":
            rested.append(half.side._hosts[7].switches.throttled)

    half.side._writers._report = listen
    half.start(7, tmp_path, count="200")
    wait_until(lambda: len(half.clients.topics.values("numbers")) == 200)
    half.side.handle({"op": "stop", "host": 7, "within_ms": None})
    wait_until(lambda: bool(half.ops("ended")))
    half.end()
    assert rested[:2] == [True, False]
    assert not half.ops("throttle")
    assert half.clients.topics.values("numbers") == [b"a-%d" % number for number in range(200)]


def test_a_task_whose_lane_gets_no_thread_is_to_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    half = Half()
    with monkeypatch.context() as patched:
        patched.setattr(task_writer.TaskWriter, "start", no_threads)
        half.side.handle({"op": "start", "host": 1, "launch": _launch(tmp_path)})
    assert [report["op"] for report in half.reports if report["op"] != "measures"] == ["lost", "ended"]
    half.start(2, tmp_path, count="3")
    wait_until(lambda: len(half.clients.topics.values("numbers")) == 3)
    half.side.handle({"op": "stop", "host": 2, "within_ms": None})
    wait_until(lambda: len(half.ops("ended")) == 2)
    half.end()


def test_heartbeats_become_rare_while_nothing_crosses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes through the JVM and both processes; a writer with hosts of its own needs them all."""
    monkeypatch.setattr(reader_side, "CALM_BEATS", 4)
    side = ReaderSide(MemoryExecutorClients(find_plugin=load_class), lambda message: None, 0.0)
    rows, looks, passed = side.rows(), list[float](), list[int]()
    monkeypatch.setattr(side._rows, "get", looks.append)
    for _ in range(6):
        assert next(rows).kind is RowKind.MARKER
        passed.append(len(looks))
    assert passed == [1, 2, 3, 4, 8, 12]
    crossing = SourceTaskRunner(
        3, decode_launch(_launch(tmp_path)), RowQueue(), MemoryExecutorClients(), side, make_hosted_source
    )
    side._hosts[3] = crossing
    for _ in range(3):
        next(rows)
    assert len(looks) == 15


def test_a_row_that_crosses_is_followed_by_every_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_side, "CALM_BEATS", 4)
    side = ReaderSide(MemoryExecutorClients(find_plugin=load_class), lambda message: None, 0.001)
    rows = side.rows()
    for _ in range(5):
        next(rows)
    side._rows.put(Row(1, RowKind.ENDED))
    assert [next(rows).kind for _ in range(2)] == [RowKind.ENDED, RowKind.MARKER]
    assert side._calm_beats == 0


def _launch(folder: Path) -> Mapping[str, Any]:
    config = {"name": "a", "folder": str(folder)}
    task = ConnectorTaskId("a", 0)
    return encode_launch(
        TaskLaunch(
            task, 1, 1, TaskKind.SOURCE, "tests.contract.task_samples:CountingSource", config, {}, {}, fused=True
        )
    )


def test_lanes_that_are_abandoned_take_no_more(tmp_path: Path) -> None:
    half = Half()
    half.start(7, tmp_path, count="1000000", per_poll="1")
    wait_until(lambda: len(half.clients.topics.values("numbers")) > 10)
    half.side.abandon()
    half._thread.join(10)
    reports = [report["op"] for report in half.reports]
    wait_until(lambda: not half.side._writers.tasks())
    assert [report["op"] for report in half.reports][len(reports) :] in ([], ["durable"])  # one was on its way
    with pytest.raises(ShuttingDownError):
        half.side._fused.put(Row(7, RowKind.BATCH))
    with pytest.raises(ShuttingDownError):
        WritersThatAreOver().open(8, TaskLaunch(ConnectorTaskId("b", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {}))


class WritersThatAreOver(TaskWriters):
    """One whose slice is over."""

    def __init__(self) -> None:
        super().__init__(MemoryExecutorClients(), lambda message: None)
        self.abandon()


def test_a_slot_prepares_for_a_task_and_an_error_there_fails_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: queue.Queue[tuple[JavaCode, dict[str, str]]] = queue.Queue()

    def warm_up(code: JavaCode, worker_config: dict[str, str], _: object) -> None:
        asked.put((code, worker_config))
        raise JavaHostGoneError("no such option")

    monkeypatch.setattr("spark_connect_rt.engine.java_host.jvm_pool.warm_up", warm_up)
    code = JavaCode(("/p/a",), connector_class="a.B", contents=("d",))
    side = ReaderSide(MemoryExecutorClients(), lambda _: None)
    expected = Expect(ConnectorTaskId("j", 0), code, {"key.converter": "K"})
    side.handle(next(iter(MessageSplitter().feed(encode_message(encode_expected(expected))))))
    assert asked.get(timeout=20) == (code, {"key.converter": "K"})
    assert side.tasks() == []
