"""Levels of this process's loggers, as ``/admin/loggers`` shows and sets them (KIP-495, KIP-976; Java ``Loggers``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.json_shape import JsonShape, renamed

ROOT = "root"
NUMBERS: Mapping[str, int] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""log4j's names -> Python's numbers, from silent to everything."""
LEVELS = tuple(NUMBERS)
CHATTY = ("py4j", "aiokafka", "httpx", "httpcore", "uvicorn.access", "asyncio", "pyspark")
_PASSING = ("Topic %s not found in cluster metadata", "Topic %s is not available during auto-create initialization")


def quiet_libraries() -> None:
    """Have libraries log from WARN on, and nothing of topics that the next request creates. Any number of times."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(logging.getLogger(name).level, logging.WARNING))
    logging.getLogger("aiokafka.cluster").addFilter(_lasts)


def _lasts(record: logging.LogRecord) -> bool:
    """Return whether a line of Kafka's metadata is about more than a topic that does not exist yet."""
    return record.msg not in _PASSING


@dataclass(frozen=True, slots=True)
class LoggerLevel(JsonShape):
    """The level of a logger, and when it was last set on this worker."""

    level: str
    last_modified_ms: int | None = field(
        default=None, metadata=renamed("last_modified", "Milliseconds since 1970; null: not changed since the start.")
    )


class Loggers(Protocol):
    """Reads and sets levels. Any thread."""

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers that have a level of their own, ``root`` among them, sorted by name."""

    def level(self, name: str) -> LoggerLevel | None:
        """Return the level a logger works at, None when there is no such logger. ``root`` in any case of letters."""

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set a logger and everything below it (``root``: all) to one of LEVELS; return those that changed, sorted."""
