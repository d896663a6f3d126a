"""Lines of executors over the control channel: they arrive, and never hold anything up."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import orjson

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.driver.slice_runner import take_lines
from spark_connect_rt.engine.executor.task_logs import MESSAGE_BYTES, WAITING_BYTES, ExecutorLogs
from spark_connect_rt.engine.log_lines import BURST, LINES_A_SECOND
from spark_connect_rt.engine.task_logs import TaskLogs

A0, B0 = ConnectorTaskId("a", 0), ConnectorTaskId("b", 0)


class Wire:
    """Takes what is sent at once, as long as it may."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.free = True
        self.longest = 0

    def send_now(self, data: bytes) -> bool:
        if self.free:
            self.longest = max(self.longest, len(data))
            self.messages.append(orjson.loads(data[4:]))
        return self.free


def logged(handler: ExecutorLogs, message: str, *args: object, level: int = logging.INFO) -> None:
    handler.handle(logging.LogRecord("x", level, "f", 1, message, args, None))


def received(wire: Wire) -> TaskLogs:
    logs = TaskLogs()
    for message in wire.messages:
        take_lines(message, logs)
    return logs


def messages(logs: TaskLogs, connector: str) -> list[str]:
    return [kept.line.message for _, kept in logs.lines(connector, 0)]


def test_lines_of_tasks_arrive_in_order_and_other_lines_belong_to_the_process() -> None:
    handler, wire = ExecutorLogs(), Wire()
    handler.attach(lambda: [A0, B0])
    logged(handler, "task=%s one", A0)
    logged(handler, "task=%s two", B0)
    logged(handler, "task=%s three", A0)
    logged(handler, "of a library's thread")
    handler.flush_to(wire.send_now)
    logs = received(wire)
    assert messages(logs, "a") == ["task=a-0 one", "task=a-0 three", "of a library's thread"]
    assert messages(logs, "b") == ["task=b-0 two", "of a library's thread"]
    (_, kept) = logs.lines("a", 0)[0]
    assert (kept.where, kept.line.level, kept.line.logger) == ("executor", "INFO", "x")
    assert [kept.where for _, kept in logs.lines("a", 0)] == ["executor", "executor", "process"]


def test_of_a_hundred_thousand_lines_a_second_some_are_sent_and_the_others_counted() -> None:
    each_s = (number / 100_000 for number in itertools.count())
    handler, wire = ExecutorLogs(lambda: next(each_s)), Wire()
    handler.attach(lambda: [A0])
    for number in range(100_000):
        logged(handler, "task=%s line %d", A0, number)
    handler.flush_to(wire.send_now)
    lines = messages(received(wire), "a")
    assert LINES_A_SECOND * BURST < len(lines) <= LINES_A_SECOND * (BURST + 1) + 1
    dropped = int(lines[-1].split()[0])
    assert dropped + len(lines) - 1 == 100_000


def test_a_driver_that_takes_nothing_is_not_waited_for() -> None:
    handler, wire = ExecutorLogs(), Wire()
    handler.attach(lambda: [A0])
    wire.free = False
    for number in range(400):
        logged(handler, "task=%s %s", A0, f"{number} " + "x" * 7_000)
        handler.flush_to(wire.send_now)
    assert handler._size <= WAITING_BYTES
    wire.free = True
    handler.flush_to(wire.send_now)
    numbers = [int(message.split()[1]) for message in messages(received(wire), "a")]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 399


def test_no_message_is_longer_than_a_socket_takes_at_once() -> None:
    handler, wire = ExecutorLogs(), Wire()
    handler.attach(lambda: [A0])
    logged(handler, "task=%s %s", A0, "\x01" * 8_000)  # six bytes each in JSON
    logged(handler, "task=%s %s", A0, "😀" * 8_000)
    logged(handler, "task=%s end", A0)
    handler.flush_to(wire.send_now)
    assert wire.longest <= MESSAGE_BYTES
    assert messages(received(wire), "a")[-1] == "task=a-0 end"


def test_lines_for_another_slice_are_not_sent_to_this_one() -> None:
    handler, wire = ExecutorLogs(), Wire()
    handler.attach(lambda: [A0])
    logged(handler, "task=%s of before", A0)
    handler.attach(lambda: [B0])
    working_for(B0)
    try:
        logged(handler, "now")
    finally:
        working_for(None)  # type: ignore[arg-type]
    handler.flush_to(wire.send_now)
    assert messages(received(wire), "a") == []
    assert messages(received(wire), "b") == ["now"]


def test_lines_that_cannot_be_read_cost_these_lines_alone() -> None:
    logs = TaskLogs()
    good = {"op": "lines", "tasks": [["a", 0]], "machine": "h", "lines": [[1, "INFO", "x", "hello"]]}
    for broken in ({"tasks": 1}, {"lines": [[1, "LOUD", "x", "y"]]}, {"lines": [[1]]}, {"tasks": [["a", "x"]]}):
        take_lines(good | broken, logs)
    assert logs.lines("a", 0) == []
    take_lines(good, logs)
    assert messages(logs, "a") == ["hello"]
