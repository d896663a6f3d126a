"""Where log lines go: standard error, one line a state change, ids first."""

from __future__ import annotations

import faulthandler
import logging
import sys
from collections.abc import Mapping
from functools import partial

from spark_connect_rt.base.hidden_values import MaskingFormatter
from spark_connect_rt.base.loggers import quiet_libraries
from spark_connect_rt.config.connectrt_config import JobSettings
from spark_connect_rt.engine.driver_logs import DriverLogs

_STARTED = logging.INFO  # at least: task logs hold what a connector's life is, however quiet the terminal


def set_up_logging(settings: Mapping[str, str]) -> None:
    """Have standard error show ``connectrt.log.level`` and above (default WARNING under the quickstart, else INFO).

    The logs of tasks and connectors hold INFO in any case. A fault in a native library (SIGSEGV in librdkafka) leaves
    the stacks of all threads, else it would end without a word.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__ or sys.stderr)
    job = JobSettings.of(settings)
    level = job.connectrt_log_level or ("WARNING" if job.connectrt_job == "quickstart" else "INFO")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(MaskingFormatter())
    shown = logging.getLevelNamesMapping()[level.upper()]
    if shown > _STARTED:
        handler.addFilter(partial(_is_shown, shown))
    logging.basicConfig(handlers=[handler, DriverLogs()], level=min(shown, _STARTED), force=True)
    quiet_libraries()


def _is_shown(shown: int, record: logging.LogRecord) -> bool:
    """Return whether standard error has a line: of a logger whose level was set since, it has all that passed."""
    return record.levelno >= shown or logging.getLogger(record.name).getEffectiveLevel() < _STARTED
