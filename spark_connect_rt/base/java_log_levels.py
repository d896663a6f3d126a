"""Levels that were set for Java's loggers while this process ran (``PUT /admin/loggers``), for every JVM it has.

One for a process: a worker sets them, its executors' processes are sent them, each JVM starts with them and is given
every change. Owns them in the order in which they were set: a later level of a namespace covers what is below it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from spark_connect_rt.base.loggers import ROOT

Listener = Callable[[Mapping[str, str]], None]
"""Takes all levels, in their order. Must not wait."""


class JavaLogLevels:
    """Namespace -> one of ``loggers.LEVELS``. Any thread."""

    def __init__(self) -> None:
        """Start with no level set."""
        self._lock = threading.Lock()
        self._levels: dict[str, str] = {}
        self._listeners: list[Listener] = []

    def current(self) -> dict[str, str]:
        """Return all levels, in the order in which they were set."""
        with self._lock:
            return dict(self._levels)

    def set(self, namespace: str, level: str) -> None:
        """Set a namespace and all below it."""
        with self._lock:
            kept = {name: its for name, its in self._levels.items() if not _covers(namespace, name)}
            self._levels = {**kept, namespace: level}
        self._say()

    def replace(self, levels: Mapping[str, str]) -> None:
        """Take the levels of the worker."""
        with self._lock:
            if list(self._levels.items()) == list(levels.items()):
                return
            self._levels = dict(levels)
        self._say()

    def listen(self, listener: Listener) -> None:
        """Have a listener called after each change."""
        with self._lock:
            self._listeners.append(listener)

    def forget(self, listener: Listener) -> None:
        """Call it no more. Any number of times."""
        with self._lock:
            self._listeners = [other for other in self._listeners if other != listener]

    def _say(self) -> None:
        with self._lock:
            levels, listeners = dict(self._levels), list(self._listeners)
        for listener in listeners:
            listener(levels)


def _covers(namespace: str, name: str) -> bool:
    return namespace == ROOT or name == namespace or name.startswith(f"{namespace}.")


JAVA_LOG_LEVELS = JavaLogLevels()
