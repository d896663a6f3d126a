"""One Java plug-in that serves a Python connector: its number in a JVM, and questions to it.

Owns the way of a question and its answer, and what happens when the JVM dies meanwhile. Another is started once and
asked the same, so a killed JVM costs a Python connector a second and not its task.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from spark_connect_rt.engine.java_host.jvm_pool import HostedNumber, slot_hosts
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError, TimedOutError

log = logging.getLogger(__name__)


class JavaStage:
    """A plug-in in a JVM. Made at the first question, and again in another JVM when its own has died. One thread."""

    def __init__(self, code: JavaCode, makes: Mapping[str, Any], limit_s: float | None = None) -> None:
        """Take the code and the question that makes the plug-in (``kind``, ``class`` and so on).

        ``limit_s``: how long an answer may take; None: as long as it wants, as a Python plug-in may.
        """
        self._code = code
        self._makes = dict(makes)
        self._limit_s = limit_s
        self._link: _Link | None = None

    def prepare(self) -> None:
        """Make the plug-in. Raises BadConfigError: it refuses its settings; otherwise as ``ask``."""
        self._linked()

    def ask(self, op: str, head: Mapping[str, Any] | None = None, data: Sequence[Any] = ()) -> Frame:
        """Return the answer.

        Raises JavaHostGoneError if two JVMs died of it or none starts, TimedOutError, and the error that ``failed``
        makes.
        """
        try:
            return self._linked().ask(op, head or {}, data, self._limit_s)
        except JavaHostGoneError as error:
            log.warning("the Java host of %s is gone, starting another one: %s", self.name, error)
            self._link = None
            return self._linked().ask(op, head or {}, data, self._limit_s)

    @property
    def name(self) -> str:
        """Return the Java class, or the kind where there are several."""
        return str(self._makes.get("class") or self._makes.get("kind"))

    @property
    def jvm_pid(self) -> int | None:
        """Return the process of its JVM, None while there is none."""
        return None if self._link is None else self._link.pid

    def close(self) -> None:
        """Close the plug-in. Any number of times."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _linked(self) -> _Link:
        if self._link is None:
            link = _Link(self._code)
            try:
                if self._makes:
                    link.ask("make", self._makes, (), self._limit_s)
            except BaseException:
                link.close()
                raise
            self._link = link
        return self._link


def describe(code: JavaCode, java_class: str, version: str = "", limit_s: float = 60.0) -> Mapping[str, Any]:
    """Return {"version": ..., "keys": [as REST shows them]} of a plug-in other than a connector. Raises as ``ask``."""
    stage = JavaStage(code, {}, limit_s)
    try:
        return stage.ask("describe", {"class": java_class, "version": version}).head["ok"]  # type: ignore[no-any-return]
    finally:
        stage.close()


def failed(error: Mapping[str, Any]) -> ConnectError:
    """Return what a Java plug-in raised as ours: a class, a message, Java's trace as a note."""
    text = f"{error['class']}: {error['message']}"
    if "problems" in error:
        return BadConfigError(error["problems"] or {"type": [error["message"]]})
    raised: ConnectError = RetriableError(text) if error.get("retriable") else DataError(text)
    raised.add_note(error["trace"])
    return raised


class _Link:
    """A number in a JVM, and the questions in flight."""

    def __init__(self, code: JavaCode) -> None:
        self._open: dict[int, Future[Frame]] = {}
        self._ids = itertools.count(1)
        self._gone = ""
        self._lock = threading.Lock()
        self._number: HostedNumber = slot_hosts().acquire(code, {}, str, self)

    @property
    def pid(self) -> int:
        return self._number.pid

    def ask(self, op: str, head: Mapping[str, Any], data: Sequence[Any], limit_s: float | None) -> Frame:
        answer: Future[Frame] = Future()
        question = next(self._ids)
        with self._lock:
            if self._gone:
                raise JavaHostGoneError(self._gone)
            self._open[question] = answer
        try:
            self._number.send(ToJava.STAGE, {"id": question, "op": op, **head}, data)
            frame = answer.result(limit_s)
        except FutureTimeoutError:
            raise TimedOutError(f"a Java plug-in did not answer {op} within {limit_s:g} s") from None
        finally:
            self._open.pop(question, None)
        if "error" in frame.head:
            raise failed(frame.head["error"])
        return frame

    def close(self) -> None:
        with contextlib.suppress(JavaHostGoneError):
            self._number.send(ToJava.STAGE, {"id": 0, "op": "close"})
        self._number.release()

    def on_frame(self, frame: Frame) -> None:
        """Take an answer. The JVM's thread."""
        waiting = self._open.get(frame.head["id"]) if frame.kind is FromJava.STAGE else None
        if waiting is not None:
            waiting.set_result(frame)

    def on_gone(self, reason: str) -> None:
        """Fail every open question with JavaHostGoneError."""
        with self._lock:
            self._gone = reason
            waiting = list(self._open.values())
        for future in waiting:
            future.set_exception(JavaHostGoneError(f"the Java host is gone: {reason}"))
