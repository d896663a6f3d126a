"""Log lines of tasks: which task they are of, their bounds, their secrets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import java_subject, subject_of, working_for
from spark_connect_rt.engine.java_host.process import take_line
from spark_connect_rt.engine.log_lines import (
    BURST,
    LINE_LIMIT,
    LINES_A_SECOND,
    LogRateLimit,
    RawLine,
    level_name,
    text_of,
)
from spark_connect_rt.engine.task_logs import BYTES_EACH, KEPT_S, LINES_EACH, TaskLogs

A0 = ConnectorTaskId("a", 0)


def record(message: object, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("x", level, "f", 1, message, args, None)


def line(message: str, level: str = "INFO", at_ms: int = 0) -> RawLine:
    return RawLine(at_ms, level, "x", message)


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        (record("task=%s run=%d FAILED", A0, 1), A0),
        (record("run=%d of %s", 1, ConnectorTaskId("odd name: 1\n", 7)), ConnectorTaskId("odd name: 1\n", 7)),
        (record("connector=%s task configs: %s", "b c", "why"), "b c"),
        (record("100%% worker=%s connector=%s", "w", "b"), "b"),
        (record("connector=%s"), None),
        (record("worker=%s started", "w"), None),
        (record({"not": "text"}), None),
    ],
)
def test_a_line_is_of_the_task_or_connector_that_it_names(logged: logging.LogRecord, expected: object) -> None:
    assert subject_of(logged) == expected


def test_a_line_that_names_none_is_of_what_its_thread_works_for() -> None:
    found = []

    def work() -> None:
        working_for(A0)
        found.append(subject_of(record("hello")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [A0]
    assert subject_of(record("hello")) is None


@pytest.mark.parametrize(
    ("message", "thread", "expected"),
    [
        ("[a|task-0] polled", "task-a-0", A0),
        ("[a|task-0|offsets] committed", "x", A0),
        ("[my [odd] name|worker] started", "x", "my [odd] name"),
        ("plain", "connector-b#3", "b"),
        ("plain", "main", None),
        ("[a|task-99999999999] no number", "x", None),
    ],
)
def test_lines_of_java_say_it_by_connects_context(message: str, thread: str, expected: object) -> None:
    assert java_subject(message, thread) == expected


def test_a_java_line_reaches_the_handlers_with_its_task() -> None:
    found: list[object] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(subject_of(record))

    handler = Keep()
    logging.getLogger().addHandler(handler)
    try:
        take_line({"logger": "org.x", "level": "INFO", "message": "[a|task-0] hi", "thread": "t", "trace": "E: no"})
    finally:
        logging.getLogger().removeHandler(handler)
    assert found == [A0]


def test_a_flood_of_lines_is_limited_and_counted_and_warnings_pass() -> None:
    gate = LogRateLimit()
    passed = sum(gate.passes(A0, logging.INFO, n / 100_000) for n in range(300_000))  # three seconds of it
    assert LINES_A_SECOND * BURST <= passed <= LINES_A_SECOND * (BURST + 4)
    assert gate.passes(A0, logging.ERROR, 3.0)
    assert gate.passes(ConnectorTaskId("b", 0), logging.INFO, 3.0)
    assert gate.take_dropped() == {A0: 300_000 - passed}
    assert gate.take_dropped() == {}


@pytest.fixture
def secret() -> Iterator[str]:
    hidden_values.remember(["hunter2hunter2"])
    yield "hunter2hunter2"
    hidden_values.forget()


def test_secrets_are_hidden_in_messages_and_traces_also_of_huge_ones(secret: str) -> None:
    try:
        raise ValueError(f"no entry for {secret}")
    except ValueError as error:
        logged = record("password=%s", secret)
        logged.exc_info = (ValueError, error, error.__traceback__)
    text = text_of(logged)
    assert text.startswith("password=[hidden]\nTraceback")
    assert secret not in text
    huge = text_of(record("x" * 100_000_000 + secret))
    assert len(huge) <= LINE_LIMIT
    assert huge.endswith("[hidden]")


def test_arguments_that_do_not_fit_cost_nothing_but_their_values() -> None:
    assert text_of(record("%d of %s", "no number")) == "'%d of %s' (its arguments do not fit)"


def test_the_last_lines_of_each_are_kept_and_a_noisy_one_takes_no_room_of_quiet_ones() -> None:
    logs = TaskLogs(bytes_in_all=2 * 1024 * 1024)
    quiet = [ConnectorTaskId("quiet", number) for number in range(100)]
    for task in quiet:
        logs.add([task], "executor", "h", [line("hello")])
    logs.add([A0], "executor", "h", [line(str(number)) for number in range(5_000)])
    assert [kept.line.message for _, kept in logs.lines("a", 0)] == [str(n) for n in range(4_000, 5_000)]
    for number in range(50):
        logs.add([ConnectorTaskId("b", number)], "executor", "h", [line("y" * 8_000)] * LINES_EACH)
    size = sum(kept.line.size() for number in range(50) for _, kept in logs.lines("b", number))
    assert size <= 2 * 1024 * 1024
    assert sum(kept.line.size() for _, kept in logs.lines("b", 49)) <= BYTES_EACH
    assert all(len(logs.lines("quiet", task.task)) == 1 for task in quiet)


def test_lines_of_a_connector_are_its_own_and_its_tasks_by_level_and_behind_a_number() -> None:
    logs = TaskLogs()
    logs.add(["a"], "driver", "h", [line("starts")])
    logs.add([A0, ConnectorTaskId("a", 1)], "executor", "h", [line("shared", "WARN")])
    logs.add([ConnectorTaskId("ab", 0)], "executor", "h", [line("of another")])
    assert [(task, kept.line.message) for task, kept in logs.lines("a", None)] == [
        (None, "starts"),
        (0, "shared"),
        (1, "shared"),
    ]
    assert [task for task, _ in logs.lines("a", None, level="WARN")] == [0, 1]
    assert [task for task, _ in logs.lines("a", None, after=2)] == [1]
    assert [task for task, _ in logs.lines("a", None, tail=1)] == [1]
    assert logs.lines("a", None, tail=0) == []


def test_old_lines_are_forgotten_after_a_while() -> None:
    now_s = [0.0]
    logs = TaskLogs(now_s=lambda: now_s[0])
    logs.add([A0], "executor", "h", [line("hello")])
    now_s[0] = KEPT_S - 1
    assert len(logs.lines("a", 0)) == 1
    now_s[0] = KEPT_S + 1
    assert logs.lines("a", 0) == []


def test_levels_have_log4js_names() -> None:
    assert [level_name(number) for number in (1, 5, 10, 20, 25, 30, 40, 50, 60)] == [
        "TRACE",
        "TRACE",
        "DEBUG",
        "INFO",
        "INFO",
        "WARN",
        "ERROR",
        "FATAL",
        "FATAL",
    ]
