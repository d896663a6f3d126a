"""Log lines of this process that are about a connector or task, into its memory of task logs."""

from __future__ import annotations

import logging
import socket
import time

from spark_connect_rt.base.log_subjects import subject_of
from spark_connect_rt.engine.log_lines import LineGate, dropped_line, raw_line
from spark_connect_rt.engine.task_logs import TASK_LOGS, TaskLogs


class DriverLogs(logging.Handler):
    """Keeps lines that say what they are about; all others are the worker's own log."""

    def __init__(self, logs: TaskLogs = TASK_LOGS) -> None:
        super().__init__()
        self._logs = logs
        self._gate = LineGate()
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
