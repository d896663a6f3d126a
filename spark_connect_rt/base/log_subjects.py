"""Which task or connector a log line is about, on the driver and on executors.

Owns the signs: what a thread works for, the task that a line names, the context that Java's logging puts before a line.
A line without any is of the whole process.
"""

from __future__ import annotations

import logging
import re
import threading

from spark_connect_rt.base.ids import ConnectorTaskId

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
    """Return what a line is about; None: nothing says it. On the thread that logs."""
    known: Subject | None = getattr(record, ATTRIBUTE, None)
    if known is not None:
        return known
    args = record.args if isinstance(record.args, tuple) else ()
    for arg in args:
        if isinstance(arg, ConnectorTaskId):
            return arg
    return _named_connector(record.msg, args) or getattr(_thread, "subject", None)


def java_subject(message: str, thread: str) -> Subject | None:
    """Return what a line of a JVM is about: its context stands before the message (``[name|task-0] ``)."""
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
