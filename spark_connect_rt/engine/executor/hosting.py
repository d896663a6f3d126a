"""Common parts of source and sink hosts: the driver's switches, and the creation of a task object.

A host is one hosting of one run in one slice: a thread of the reader (and a task writer of the writer). Owns no policy:
the driver decides, a host obeys.
"""

from __future__ import annotations

import errno
import importlib
import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.json_text import tellable
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.engine.task_runner import WARM_UP, JavaCode
from spark_connect_rt.errors import ExternalError, JavaPluginError, NotFoundError

if TYPE_CHECKING:
    from spark_connect_rt.kafka.executor_clients import ExecutorClients

_SHORTAGES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT))
END_MARGIN_MS, END_MARGIN_SHARE = 1_500, 0.3  # of a stop's time: for the last flush, and what is in flight
log = logging.getLogger(__name__)


class HostLostError(ExternalError):
    """The process that hosts the task (a JVM) is gone. The task is not at fault and is hosted again."""


class Switches:
    """The driver's orders to one host; set from the channel's thread, read by the host's."""

    def __init__(self, *, paused: bool) -> None:
        self._changed = threading.Condition()
        self._nudged = False
        self.stopping = False
        self.paused = paused
        self.throttled = False
        self.end_by_ms: int | None = None  # monotonic clock; None: a drain may take its time

    def stop(self, within_ms: float | None) -> None:
        """Turn ``stopping``. Work not drained ``within_ms`` is dropped, so the drain ends a little before that."""
        if within_ms is not None:
            margin_ms = min(END_MARGIN_MS, within_ms * END_MARGIN_SHARE)
            self.end_by_ms = monotonic_ms() + int(within_ms - margin_ms)
        self.set(stopping=True)

    def set(self, **wanted: bool) -> None:
        """Turn some of ``stopping``, ``paused``, ``throttled`` and wake the host."""
        with self._changed:
            for name, value in wanted.items():
                setattr(self, name, value)
            self._nudged = True
            self._changed.notify_all()

    def nudge(self) -> None:
        """Wake the host: there is something else for it."""
        self.set()

    def wait_ms(self, wait_ms: int) -> bool:
        """Wait between attempts at one record; False when the host is to stop."""
        end_s = time.monotonic() + wait_ms / 1000
        while not self.stopping and (left_s := end_s - time.monotonic()) > 0:
            self.wait(left_s)
        return not self.stopping

    def wait(self, timeout_s: float | None) -> None:
        """Sleep until a switch turns, a nudge, or the time is up. A nudge before the call counts."""
        with self._changed:
            if not self._nudged:
                self._changed.wait(timeout_s)
            self._nudged = False


def tell_or_log(report: Callable[[dict[str, Any]], None], measures: dict[str, Any]) -> None:
    """Report the counts. If a plug-in's own metrics cannot be sent, only this report is lost."""
    try:
        report(measures)
    except TypeError:
        log.exception("host=%s: its metrics cannot be sent", measures.get("host"))


def monotonic_ms() -> int:
    """Return the monotonic clock, ms; both halves of a slot are on one machine and so have the same."""
    return int(time.monotonic() * 1000)


def load_named(name: str) -> Any:
    """Return what "package.module:name" names. Raises ImportError, AttributeError."""
    module_name, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module_name), attribute)


def get_ready(code: JavaCode, worker_config: Mapping[str, str], clients: ExecutorClients) -> None:
    """Begin to start the JVM of a task that is likely to come; returns at once. Nothing depends on it."""
    hidden_values.remember(secrets_in((worker_config,), ()))

    def warm_up() -> None:
        try:
            load_named(WARM_UP)(code, worker_config, clients)
        except BaseException:  # for any error: the task that comes next meets it and reports it
            log.info("no JVM could be prepared for tasks of %s", code.connector_class, exc_info=True)

    try:
        threading.Thread(target=warm_up, name="java-host-expected", daemon=True).start()
    except RuntimeError:  # no more threads
        log.info("no thread is available to prepare for tasks of %s", code.connector_class)


def load_clients(name: str) -> ExecutorClients:
    """Return ``factory()`` of "package.module:factory"; a "?argument" after it is handed to the factory."""
    factory, has_argument, argument = name.partition("?")
    make = load_named(factory)
    clients: ExecutorClients = make(argument) if has_argument else make()
    return clients


def load_class(name: str) -> type[Any]:
    """Return the class of ``package.module:ClassName``. Raises NotFoundError."""
    try:
        found = load_named(name)
    except (ImportError, AttributeError) as error:
        raise NotFoundError(f"task class {name} cannot be imported on this executor: {error}") from error
    if not isinstance(found, type):
        raise NotFoundError(f"task class {name} is not a class")
    return found


def text_of(error: BaseException) -> str:
    """Return what an error says, as ``trace_of`` shows it."""
    return tellable(without_secrets(str(error)))


def is_shortage(error: BaseException) -> bool:
    """Return whether this machine is short of threads, descriptors, memory or disk now, which no task causes."""
    if isinstance(error, RuntimeError):
        return "can't start new thread" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES)


def trace_of(error: BaseException) -> str:
    """Return the trace that a FAILED status shows: one that can be sent, and without values of config providers."""
    try:
        java = error.java_trace if isinstance(error, JavaPluginError) else ""  # not where the socket was read
        return tellable(without_secrets(java or "".join(traceback.format_exception(error))))
    except BaseException:
        log.exception("an error without a text")
        return type(error).__name__
