"""What an executor's Python process writes to standard error, without secrets (the driver: app/logging_setup.py)."""

from __future__ import annotations

import logging
import sys
import threading

from spark_connect_rt.base import hidden_values
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.engine.task_runner import TaskLaunch

log = logging.getLogger(__name__)


def hide_secrets(launch: TaskLaunch) -> None:
    """Hide what the settings of this launch hold; what config providers give is hidden when they are asked."""
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
    """What standard error shows: this level and above, and whatever Java's loggers let through (log4j2 has decided)."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        return record.levelno >= self._level or record.pathname == "java"


def mask_logs() -> None:
    """Hide secrets in every log line of this process, and in the error that ends a thread of a plug-in's."""
    root = logging.getLogger()
    if not root.handlers:  # Python's last resort would write warnings as they are
        stderr = logging.StreamHandler(sys.stderr)
        stderr.addFilter(OnStandardError(logging.WARNING))  # what is below goes to the driver alone (task_logs)
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
