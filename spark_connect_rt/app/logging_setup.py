"""Where log lines go: standard error, one line a state change, ids first."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from spark_connect_rt.ports.hidden_values import MaskingFormatter

FORMAT = "%(asctime)s %(levelname)s %(threadName)s %(name)s %(message)s"
QUIET = ("py4j", "aiokafka", "httpx", "httpcore", "uvicorn.access", "asyncio")


def set_up_logging(settings: Mapping[str, str]) -> None:
    """Set the root level from ``connectrt.log.level`` (default WARNING under the quickstart, else INFO)."""
    default = "WARNING" if settings.get("connectrt.job") == "quickstart" else "INFO"
    level = settings.get("connectrt.log.level", default).upper()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(MaskingFormatter(logging.Formatter(FORMAT)))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
