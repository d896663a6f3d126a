"""Where log lines go: standard error, one line a state change, ids first."""

from __future__ import annotations

import faulthandler
import logging
import sys
from collections.abc import Mapping

from spark_connect_rt.app.management.driver_logs import DriverLogs
from spark_connect_rt.config.worker.own_settings import JobSettings
from spark_connect_rt.ports.hidden_values import MaskingFormatter

QUIET = ("py4j", "aiokafka", "httpx", "httpcore", "uvicorn.access", "asyncio")


def set_up_logging(settings: Mapping[str, str]) -> None:
    """Set the root level from ``connectrt.log.level`` (default WARNING under the quickstart, else INFO).

    A fault in a native library (SIGSEGV in librdkafka) leaves the stacks of all threads, else it would end without a
    word.
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__ or sys.stderr)
    job = JobSettings.of(settings)
    level = job.connectrt_log_level or ("WARNING" if job.connectrt_job == "quickstart" else "INFO")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(MaskingFormatter())
    logging.basicConfig(handlers=[handler, DriverLogs()], level=level.upper(), force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
