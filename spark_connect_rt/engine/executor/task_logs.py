"""Log lines of an executor's tasks on their way to the driver, in batches over the control channel.

Owns what waits to be sent. Lines never block anything: they wait if the socket is full, and are dropped and counted if
they wait too long. A line of a thread that no task is known of is sent to every task of the process, marked as the
process's.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS, NUMBERS, ROOT, Subject, quiet_libraries, subject_of
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.engine.executor.control_wire import encode_message
from spark_connect_rt.engine.log_lines import LogRateLimit, RawLine, dropped_line, encoded, raw_line, shortened
from spark_connect_rt.engine.task_runner import TaskLaunch

# Standard error of an executor's Python process, without secrets (the driver: app/logging_setup.py).


log = logging.getLogger(__name__)


def hide_secrets(launch: TaskLaunch) -> None:
    """Hide the secret values in a launch's settings. Values from config providers are hidden when they are resolved."""
    configs = (
        launch.config.written(),
        launch.connector_config.written(),
        launch.worker_config,
        launch.client_config,
        launch.dead_letter_producer,
        launch.dead_letter_admin,
        launch.topic_admin,
    )
    hidden_values.remember(secrets_in(configs, launch.secret_settings))


class OnStandardError(logging.Filter):
    """Filter of standard error: this level and above, and every line of Java's loggers (log4j2 has decided)."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether standard error shows the record."""
        return record.levelno >= self._level or record.pathname == "java"


def mask_logs() -> None:
    """Hide secrets in every log line of this process, and in the error that ends a thread of a plug-in's."""
    root = logging.getLogger()
    if not root.handlers:  # Python's last resort would write warnings as they are
        stderr = logging.StreamHandler(sys.stderr)
        stderr.addFilter(OnStandardError(logging.WARNING))  # lower levels go to the driver alone (task_logs)
        root.addHandler(stderr)
    for handler in root.handlers:
        if not isinstance(handler.formatter, hidden_values.MaskingFormatter):
            handler.setFormatter(hidden_values.MaskingFormatter(handler.formatter))
    threading.excepthook = _thread_ended


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is SystemExit or ended.exc_value is None:
        return
    name = ended.thread.name if ended.thread else "?"
    log.error("thread %s ended by an error", name, exc_info=ended.exc_value)


OP = "lines"
WAITING_LINES, WAITING_BYTES = 2_000, 512 * 1024
MESSAGE_BYTES = 16 * 1024  # a socket that takes anything takes so much at once
BATCH_BYTES = 12 * 1024  # of it, as counted before JSON


class ExecutorLogs(logging.Handler):
    """Takes the lines of this process; ``flush_to`` sends them."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._gate = LogRateLimit()
        self._waiting: deque[tuple[Subject | None, RawLine]] = deque()
        self._size = 0
        self._host = socket.gethostname()
        self._hosted: Callable[[], Sequence[ConnectorTaskId]] = tuple
        self._flushing = threading.Lock()

    def attach(self, hosted: Callable[[], Sequence[ConnectorTaskId]]) -> None:
        """Take note of a new slice. ``hosted`` is asked when a line that belongs to no task is sent."""
        with self._flushing:
            self._hosted = hosted
        self.take_dropped_away()

    def take_dropped_away(self) -> None:
        """Forget what waits: it was of another slice."""
        self.acquire()
        try:
            self._waiting.clear()
            self._size = 0
            self._gate.take_dropped()
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; the handler's lock is held."""
        subject = subject_of(record)
        if not self._gate.passes(subject, record.levelno, self._now_s()):
            return
        line = raw_line(record)
        self._waiting.append((subject, line))
        self._size += line.size()
        while len(self._waiting) > WAITING_LINES or self._size > WAITING_BYTES:
            self._size -= self._waiting.popleft()[1].size()

    def flush_to(self, send_now: Callable[[bytes], bool]) -> None:
        """Send what waits, as far as ``send_now`` takes it: it returns False where that would have to wait.

        Raises nothing: by the thread that calls it lives the process.
        """
        try:
            self._flush_to(send_now)
        except Exception:
            log.exception("log lines cannot be sent")

    def _flush_to(self, send_now: Callable[[bytes], bool]) -> None:
        with self._flushing:
            while (batch := self._next()) is not None:
                subject, lines = batch
                tasks = self._tasks_of(subject)
                if tasks and not send_now(self._message(tasks, lines, shared=subject is None)):
                    self._put_back(subject, lines)
                    return

    def _tasks_of(self, subject: Subject | None) -> Sequence[ConnectorTaskId]:
        if isinstance(subject, ConnectorTaskId):
            return [subject]
        hosted = self._hosted()
        return hosted if subject is None else [task for task in hosted if task.connector == subject]

    def _message(self, tasks: Sequence[ConnectorTaskId], lines: Sequence[RawLine], *, shared: bool) -> bytes:
        """Return a message of these lines, within ``MESSAGE_BYTES``. Lines that JSON makes too long are truncated."""
        message = {
            "op": OP,
            "tasks": [list(task) for task in tasks],
            "machine": self._host,
            "shared": shared,
            "lines": [encoded(line) for line in lines],
        }
        data = encode_message(message)
        for limit in (1_000, 100, 0):
            if len(data) > MESSAGE_BYTES:
                data = encode_message(message | {"lines": [encoded(shortened(line, limit)) for line in lines]})
        return data

    def _next(self) -> tuple[Subject | None, list[RawLine]] | None:
        """Take the next lines of one task out of the queue; None: nothing waits."""
        self.acquire()
        try:
            now_ms = time.time_ns() // 1_000_000
            for subject, number in self._gate.take_dropped().items():
                self._waiting.append((subject, dropped_line(number, now_ms)))
                self._size += self._waiting[-1][1].size()
            if not self._waiting:
                return None
            subject, size, lines = self._waiting[0][0], 0, list[RawLine]()
            while self._waiting and self._waiting[0][0] == subject:
                length = self._waiting[0][1].size()
                if lines and size + length > BATCH_BYTES:
                    break
                size += length
                lines.append(self._waiting.popleft()[1])
            self._size -= size
            return subject, lines
        finally:
            self.release()

    def _put_back(self, subject: Subject | None, lines: Sequence[RawLine]) -> None:
        self.acquire()
        try:
            self._waiting.extendleft((subject, line) for line in reversed(lines))
            self._size += sum(line.size() for line in lines)
        finally:
            self.release()


EXECUTOR_LOGS = ExecutorLogs()


def take_logs(root_level: str) -> None:
    """Take this process's lines from this level on; its standard error stays the same. Any number of times.

    ``root_level``: a name or number of Python's.
    """
    root = logging.getLogger()
    if EXECUTOR_LOGS not in root.handlers:
        for handler in root.handlers:
            if getattr(handler, "stream", None) is sys.stderr:
                handler.addFilter(OnStandardError(max(handler.level, root.level)))
                handler.setLevel(logging.NOTSET)
        quiet_libraries()
        root.addHandler(EXECUTOR_LOGS)
        JAVA_LOG_LEVELS.listen(set_levels)
    root.setLevel(root_level)
    set_levels(JAVA_LOG_LEVELS.current())


def set_levels(levels: Mapping[str, str]) -> None:
    """Set this process's loggers as the worker's were (``PUT /admin/loggers``), in this order."""
    for namespace, level in levels.items():
        if level in NUMBERS:
            logging.getLogger(None if namespace == ROOT else namespace).setLevel(NUMBERS[level])
