"""Levels of this process's loggers, as ``/admin/loggers`` shows and sets them (KIP-495, KIP-976; Java ``Loggers``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.ports.json_shape import JsonShape, renamed

ROOT = "root"
LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
"""log4j's names, from silent to everything."""


@dataclass(frozen=True, slots=True)
class LoggerLevel(JsonShape):
    """The level of a logger, and when it was last set on this worker."""

    level: str
    last_modified_ms: int | None = field(
        default=None, metadata=renamed("last_modified", "Milliseconds since 1970; null: as it started.")
    )


class Loggers(Protocol):
    """Reads and sets levels. Any thread."""

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers that have a level of their own, ``root`` among them, sorted by name."""

    def level(self, name: str) -> LoggerLevel | None:
        """Return the level a logger works at, None when there is no such logger. ``root`` in any case of letters."""

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set a logger and everything below it (``root``: all) to one of LEVELS; return those that changed, sorted."""
