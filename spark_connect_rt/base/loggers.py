"""Levels of this process's loggers, as ``/admin/loggers`` shows and sets them (KIP-495, KIP-976; Java ``Loggers``)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import JsonShape, renamed

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
        """Return the loggers that have their own level, ``root`` among them, sorted by name."""

    def level(self, name: str) -> LoggerLevel | None:
        """Return the level a logger works at, None when there is no such logger. ``root`` in any case of letters."""

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set a logger and everything below it (``root``: all) to one of LEVELS; return those that changed, sorted."""


# Levels that were set for Java's loggers while this process ran (``PUT /admin/loggers``), for all of its JVMs.
#
# One for a process: a worker sets them and sends them to its executors' processes. Each JVM starts with them and gets
# every change. Owns them in the order in which they were set: a later level of a namespace covers everything below it.


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


# Which task or connector a log line is about, on the driver and on executors.
#
# Owns the signs: the task or connector that a thread works for, the task that a line names, and the context with which
# Java's logging begins a line. A line without any belongs to the whole process.


Subject = ConnectorTaskId | str
"""A task, or a connector by its name."""

ATTRIBUTE = "connectrt_subject"  # of a log record that another process made
_CONNECTOR = "connector=%s"
_JAVA_CONTEXT = re.compile(r"\[(?P<connector>.+?)\|(?:task-(?P<task>\d{1,9})|worker)(?:\|offsets)?\] ", re.DOTALL)
_JAVA_THREAD = re.compile(r"connector-(?P<connector>.+)#\d+", re.DOTALL)
_thread = threading.local()


def working_for(subject: Subject) -> None:
    """Have the lines of this thread be about a task or connector, from now on."""
    _thread.subject = subject


def subject_of(record: logging.LogRecord) -> Subject | None:
    """Return the subject of a line, None if it is unknown. Call it on the thread that logs."""
    known: Subject | None = getattr(record, ATTRIBUTE, None)
    if known is not None:
        return known
    args = record.args if isinstance(record.args, tuple) else ()
    for arg in args:
        if isinstance(arg, ConnectorTaskId):
            return arg
    return _named_connector(record.msg, args) or getattr(_thread, "subject", None)


def java_subject(message: str, thread: str) -> Subject | None:
    """Return the subject of a JVM's log line. Java's context is in front of the message (``[name|task-0] ``)."""
    found = _JAVA_CONTEXT.match(message)
    if found is not None:
        name, task = found["connector"], found["task"]
        return name if task is None else ConnectorTaskId(name, int(task))
    started = _JAVA_THREAD.fullmatch(thread)
    return None if started is None else started["connector"]


def _named_connector(template: object, args: tuple[object, ...]) -> str | None:
    if not isinstance(template, str) or _CONNECTOR not in template:
        return None
    before = template[: template.index(_CONNECTOR)]
    position = before.count("%") - 2 * before.count("%%")
    found = args[position] if 0 <= position < len(args) else None
    return found if isinstance(found, str) else None
