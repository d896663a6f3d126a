"""In-memory twin of ``app.logging_setup``: levels that no logging obeys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.base.loggers import ROOT, LoggerLevel


class MemoryLoggers:
    """Port Loggers over a mapping."""

    def __init__(self) -> None:
        self._levels = {ROOT: LoggerLevel("INFO")}

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return every logger with its own level."""
        return dict(self._levels)

    def level(self, name: str) -> LoggerLevel | None:
        """Return a logger's own level, None if it has none."""
        return self._levels.get(name)

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set the level of a logger and of all loggers below it; return the names of the changed ones."""
        below = ROOT if namespace == ROOT else f"{namespace}."
        names = {namespace, *(name for name in self._levels if below == ROOT or name.startswith(below))}
        changed = sorted(name for name in names if name not in self._levels or self._levels[name].level != level)
        self._levels.update(dict.fromkeys(changed, LoggerLevel(level, now_ms)))
        return changed
