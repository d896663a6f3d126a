"""The last log lines of the tasks and connectors of this process, of its executors' processes too, in memory.

One for a process, as logging is. Owns their bounds: lines and bytes of each task, bytes of all. Lines are forgotten
after an hour without a new line, so they stay readable for a while where a task was.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import Subject, subject_of
from spark_connect_rt.engine.log_lines import LogRateLimit, RawLine, at_least, dropped_line, raw_line

LINES_EACH = 1_000
BYTES_EACH = 256 * 1024
BYTES_IN_ALL = 32 * 1024 * 1024
KEPT_S = 3_600.0


class KeptLine(NamedTuple):
    """A line, its number in this process, and where it was logged."""

    number: int
    where: str  # one of log_lines.PLACES
    host: str
    line: RawLine


@dataclass(slots=True)
class _Log:
    """The lines of one task or connector."""

    lines: deque[KeptLine] = field(default_factory=deque)
    size: int = 0
    last_s: float = 0.0

    def drop_first(self) -> int:
        """Drop the oldest line; return its size."""
        size = self.lines.popleft().line.size()
        self.size -= size
        return size


class TaskLogs:
    """Subject -> its last lines. Any thread."""

    def __init__(self, bytes_in_all: int = BYTES_IN_ALL, now_s: Callable[[], float] = time.monotonic) -> None:
        self.run = secrets.token_hex(4)  # numbers begin again in another process
        self._bytes_in_all = bytes_in_all
        self._now_s = now_s
        self._lock = threading.Lock()
        self._number = 0
        self._size = 0
        self._logs: dict[Subject, _Log] = {}

    def add(self, subjects: Iterable[Subject], where: str, host: str, lines: Sequence[RawLine]) -> None:
        """Keep lines of each of these."""
        with self._lock:
            for subject in subjects:
                self._add(subject, where, host, lines)
            if self._size > self._bytes_in_all:
                self._make_room()

    def lines(
        self, connector: str, task: int | None, *, after: int = 0, tail: int = LINES_EACH, level: str = "TRACE"
    ) -> list[tuple[int | None, KeptLine]]:
        """Return (task, line) of a task, or with ``task`` None of a connector and all its tasks, oldest first."""
        shown = at_least(level)
        with self._lock:
            self._forget_old()
            found = [
                (its, kept)
                for its, log in self._of(connector, task)
                for kept in log.lines
                if kept.number > after and kept.line.level in shown
            ]
        found.sort(key=lambda entry: (entry[1].line.at_ms, entry[1].number))  # executors say theirs a second later
        return found[-tail:] if tail else []

    def _of(self, connector: str, task: int | None) -> list[tuple[int | None, _Log]]:
        if task is not None:
            log = self._logs.get(ConnectorTaskId(connector, task))
            return [] if log is None else [(task, log)]
        found: list[tuple[int | None, _Log]] = []
        for subject, log in self._logs.items():
            if isinstance(subject, ConnectorTaskId):
                if subject.connector == connector:
                    found.append((subject.task, log))
            elif subject == connector:
                found.append((None, log))
        return found

    def _add(self, subject: Subject, where: str, host: str, lines: Sequence[RawLine]) -> None:
        log = self._logs.setdefault(subject, _Log())
        log.last_s = self._now_s()
        for line in lines:
            self._number += 1
            log.lines.append(KeptLine(self._number, where, host, line))
            log.size += line.size()
            self._size += line.size()
        while len(log.lines) > LINES_EACH or log.size > BYTES_EACH:
            self._size -= log.drop_first()

    def _make_room(self) -> None:
        """Halve the longest logs until there is some room again; those of quiet tasks stay whole."""
        self._forget_old()
        while self._size > self._bytes_in_all * 9 // 10:
            longest = max(self._logs.values(), key=lambda log: log.size)
            half = longest.size // 2
            while longest.lines and longest.size > half:
                self._size -= longest.drop_first()

    def _forget_old(self) -> None:
        old_s = self._now_s() - KEPT_S
        for subject in [idle for idle, log in self._logs.items() if log.last_s < old_s]:
            self._size -= self._logs.pop(subject).size


TASK_LOGS = TaskLogs()


# Log lines of this process that are about a connector or task, into its memory of task logs.


class DriverLogs(logging.Handler):
    """Keeps lines that say what they are about; all others are the worker's own log."""

    def __init__(self, logs: TaskLogs = TASK_LOGS) -> None:
        super().__init__()
        self._logs = logs
        self._gate = LogRateLimit()
        self._host = socket.gethostname()
        self._dropped_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; the handler's lock is held."""
        subject = subject_of(record)
        if subject is None:
            return
        now_s = time.monotonic()
        if now_s - self._dropped_s >= 1.0:
            self._dropped_s = now_s
            for whose, number in self._gate.take_dropped().items():
                if whose is not None:
                    line = dropped_line(number, time.time_ns() // 1_000_000)
                    self._logs.add([whose], "driver", self._host, [line])
        if self._gate.passes(subject, record.levelno, now_s):
            self._logs.add([subject], "driver", self._host, [raw_line(record)])
