"""Lines of Java's loggers in this process's log, under Java's names.

The JVM has the levels, so a line that came passes here whatever Python's logger of that name would let through.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.base.log_subjects import ATTRIBUTE, java_subject
from spark_connect_rt.base.loggers import NUMBERS


def take_line(head: Mapping[str, Any]) -> None:
    """Log a line: {"logger", "level", "message", "thread", "trace" where something was thrown}."""
    text = head["message"] + (f"\n{head['trace']}" if "trace" in head else "")
    logger = logging.getLogger(head["logger"] or "java")
    level = NUMBERS.get(head["level"], logging.INFO)
    record = logger.makeRecord(logger.name, level, "java", 0, "%s", (text,), None)
    setattr(record, ATTRIBUTE, java_subject(head["message"], head.get("thread") or ""))
    record.threadName = head.get("thread", record.threadName)
    logger.handle(record)
