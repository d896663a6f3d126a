"""The JVM next to the driver, where connector instances live and plug-ins are asked what they declare.

Owns its life: started by the first question, ended when nothing was asked for a while and no connector runs in it,
killed when it answers nothing any more. When it is lost, every open question fails with the reason, another JVM is
started, and the connectors that ran are started again in it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from spark_connect_rt.config.connectrt_config import JAVA_HEAP, JAVA_OPTIONS
from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.process import (
    JavaHostGoneError,
    JavaProcess,
    OnFrame,
    OnGone,
    command_line,
    prepare_archive,
)
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.slot_losses import LossLimits, LossRecord, judge_loss
from spark_connect_rt.engine.startup.java_home import java_of_plugins
from spark_connect_rt.errors import ConnectError

ANSWER_LIMIT_S = 80.0  # of a question about no running connector: Connect's REST waits 90, and shall hear why
STACK_LIMIT_S = 2.0
IDLE_LIMIT_S = 180.0
HANG_LIMIT_S = 60.0
LOOK_EVERY_S = 5.0
NOTHING: Mapping[str, Any] = MappingProxyType({})
_JDK = ("java.", "jdk.", "sun.")

log = logging.getLogger(__name__)


class JavaStack(Exception):
    """Java's print of an exception: the cause of a JavaError, so that every trace shows it."""


class JavaError(ConnectError):
    """A Java plug-in raised; the message is Java's."""

    def __init__(self, message: str, java_class: str, java_trace: str) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.__cause__ = JavaStack(java_trace)


class Running(Protocol):
    """A started connector: how the host restarts it when its JVM is lost, and its reports."""

    def question(self) -> Mapping[str, Any]:
        """Return the question that starts it."""

    def started_again(self) -> None:
        """Take note that it runs in another JVM, with no memory of the last one."""

    def failed(self, error: ConnectError) -> None:
        """Take note that it does not run any more."""

    def asks_reconfiguration(self) -> None:
        """It asked for its tasks to be configured once more."""

    def measured(self, beans: Sequence[Mapping[str, Any]]) -> None:
        """Take what changed of the numbers that it measures itself (KIP-877) and of its other MBeans."""

    def stored_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return the source offsets it asks for. Blocks; raises whatever reading them raises."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long what may take, s."""

    answer_s: float = ANSWER_LIMIT_S
    idle_s: float = IDLE_LIMIT_S
    hang_s: float = HANG_LIMIT_S
    look_s: float = LOOK_EVERY_S
    losses: LossLimits = field(default_factory=LossLimits)


class DriverHost:
    """One JVM at most, started when it is needed. Any thread."""

    def __init__(self, start: Callable[[OnFrame, OnGone, str], JavaProcess], limits: Limits | None = None) -> None:
        """``start`` makes a JVM, as JavaProcess does, for a question about the plug-in at a place; raises ConnectError.

        The place may be empty.
        """
        self._start = start
        self._limits = limits or Limits()
        self._lock = threading.Lock()  # of the fields
        self._starting = threading.Lock()  # one JVM at a time
        self._numbers = itertools.count(1)
        self._process: JavaProcess | None = None
        self._open: dict[int, Future[Any]] = {}
        self._running: dict[str, Running] = {}
        self._stacks: dict[str, Future[Sequence[str]]] = {}  # thread -> where it is
        self._used_s = self._alive_s = time.monotonic()
        self._losses = LossRecord()
        self._began_s = time.monotonic()  # of the JVM
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        """Return the JVM's process id, None while there is none."""
        process = self._process
        return process.pid if process else None

    def trouble(self) -> str:
        """Return what is wrong with the JVM, as ``/health`` shows it; empty: nothing."""
        return self._trouble

    def ask(
        self, op: str, question: Mapping[str, Any] = NOTHING, *, instance: str = "", limit_s: float | None = None
    ) -> Any:
        """Return the answer to a question. Blocks.

        Args:
            op: the operation (java/, Connectors).
            question: its fields.
            instance: of a running connector, whose questions are answered in order; empty: of none.
            limit_s: how long to wait; None: a little less than Connect's REST, for a running connector forever.

        Raises JavaError: the plug-in raised; JavaHostGoneError: there is no JVM, or it was lost; ConnectError: no
        answer in time.
        """
        number, answer = self._ask(op, instance, question)
        if limit_s is None and not instance:
            limit_s = self._limits.answer_s
        try:
            return answer.result(limit_s)
        except FutureTimeoutError:
            late = f"the Java plug-in did not answer {op!r} within {limit_s:.0f} s{self._where(number)}"
            raise ConnectError(late, code="CRT-1130") from None
        finally:
            with self._lock:
                self._open.pop(number, None)

    def _where(self, number: int) -> str:
        """Return in which line of its code a question hangs, as far as the JVM says that; the log has the stack."""
        thread, stack = f"connector-question-{number}", Future[Sequence[str]]()
        self._stacks[thread] = stack
        try:
            if (process := self._process) is not None:
                process.send(ToJava.STACKS, 0, thread)
                lines = stack.result(STACK_LIMIT_S)
                log.error("question %d to a Java plug-in hangs:\n    %s", number, "\n    ".join(lines))
                own = (line for line in lines if not line.startswith(_JDK))
                return f": it is in {next(own, lines[0] if lines else 'no code')}"
        except (ConnectError, FutureTimeoutError):
            log.debug("the stack of question %d is unknown", number)
        finally:
            self._stacks.pop(thread, None)
        return ""

    def keep(self, instance: str, running: Running) -> None:
        """Count a connector among the running ones: it is started again when the JVM is lost."""
        with self._lock:
            self._running[instance] = running

    def forget(self, instance: str) -> bool:
        """Count it among them no more; return whether it was."""
        with self._lock:
            self._used_s = time.monotonic()
            return self._running.pop(instance, None) is not None

    def close(self) -> None:
        """End the JVM, and forget what ran in it; a later question starts another one."""
        with self._lock:
            self._running.clear()
        self._end("the worker is stopping")

    def _ask(self, op: str, instance: str, question: Mapping[str, Any]) -> tuple[int, Future[Any]]:
        process = self._there(str(question.get("place", "")))
        number, answer = next(self._numbers), Future[Any]()
        with self._lock:
            self._used_s = time.monotonic()
            self._open[number] = answer
        head = {"op": op, "id": number, **question} | ({"instance": instance} if instance else {})
        try:
            process.send(ToJava.QUESTION, 0, head)
        except (JavaHostGoneError, ValueError):
            with self._lock:
                self._open.pop(number, None)
            raise
        return number, answer

    def _there(self, place: str) -> JavaProcess:
        with self._starting:
            if self._process is None:
                process = self._start(self._take, self._lost, place)
                with self._lock:
                    self._process = process
                    self._used_s = self._alive_s = self._began_s = time.monotonic()
                log.info("the JVM of Java connectors is ready: pid=%d", process.pid)
                threading.Thread(target=self._watch, args=(process,), name="java-watch", daemon=True).start()
            return self._process

    def _take(self, frame: Frame) -> None:
        """Take a frame; called by the thread that reads the socket."""
        if frame.kind is FromJava.ANSWER:
            with self._lock:
                answer = self._open.get(frame.head["id"])
            if answer is not None and not answer.done():
                _answer(answer, frame.head)
        elif frame.kind is FromJava.NEWS:
            with self._lock:
                running = self._running.get(frame.head["instance"])
            if running is not None and frame.head["event"] == "offsets":
                asked = running, frame.head  # read on another thread: every other answer waits on this thread
                threading.Thread(target=self._answer_offsets, args=asked, name="java-offsets", daemon=True).start()
            elif running is not None:
                _hand_on(running, frame.head)
        elif frame.kind is FromJava.STACKS:
            self._alive_s = time.monotonic()
            for entry in frame.head:
                if (stack := self._stacks.pop(entry["thread"], None)) is not None:
                    stack.set_result(entry["stack"])

    def _answer_offsets(self, running: Running, head: Mapping[str, Any]) -> None:
        asked = head["detail"]
        answer: dict[str, Any] = {"op": "offsets", "instance": head["instance"], "question": asked["question"]}
        try:
            answer["offsets"] = running.stored_offsets(asked["partitions"])
        except Exception as error:  # noqa: BLE001 - the connector waits for any answer
            answer["error"] = f"{type(error).__name__}: {error}"
        process = self._process
        with contextlib.suppress(ConnectError):
            if process is not None:
                process.send(ToJava.QUESTION, 0, answer)

    def _watch(self, process: JavaProcess) -> None:
        """Look at the JVM until it is gone: does it answer, is it needed."""
        while self._process is process:
            time.sleep(self._limits.look_s)
            try:
                self._look_at(process)
            except Exception:
                log.exception("the JVM of Java connectors cannot be checked, retrying")

    def _look_at(self, process: JavaProcess) -> None:
        now_s = time.monotonic()
        with self._lock:
            used = bool(self._open or self._running) or now_s - self._used_s < self._limits.idle_s
            if self._process is not process:
                return
        if not used:
            self._end("idle")
        elif now_s - self._alive_s > self._limits.hang_s:
            log.error("the JVM of Java connectors has not answered for %.0f s and is killed", now_s - self._alive_s)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        else:
            # From its own thread: the socket of a JVM that hangs fills up.
            threading.Thread(target=_ask_for_life, args=(process,), name="java-ping", daemon=True).start()

    def _end(self, why: str) -> None:
        with self._lock:
            process, self._process = self._process, None
            self._trouble = ""
            waiting, self._open = list(self._open.values()), {}
        if process is not None:
            log.info("the JVM of Java connectors ends: %s", why)
            process.close()
        for answer in waiting:
            _fail(answer, JavaHostGoneError(f"the JVM of Java connectors has ended: {why}"))

    def _lost(self, reason: str) -> None:
        """The JVM ended by itself. Called by the thread that read its socket."""
        error = JavaHostGoneError(f"the JVM of Java connectors was lost: {reason}", code="CRT-1132")
        with self._lock:
            self._process = None
            waiting, self._open = list(self._open.values()), {}
            running = dict(self._running)
            self._trouble = "" if not running else f"The JVM of Java connectors is being restarted: {reason}"
        log.error("%s; %d connector(s) ran in it", error, len(running))
        for answer in waiting:
            _fail(answer, error)
        if running:
            hosted_s = time.monotonic() - self._began_s
            threading.Thread(
                target=self._restart, args=(running, error, hosted_s), name="java-restart", daemon=True
            ).start()

    def _restart(self, running: Mapping[str, Running], error: ConnectError, hosted_s: float) -> None:
        """Start the connectors again that ran, but for one that ended the JVM by System.exit.

        Which of them ends the JVM otherwise cannot be known. So all of them fail, but only after minutes of losses: a
        shortage of memory or descriptors ends sooner.
        """
        self._fail_all({name for name in running if f"thread connector-{name} called System.exit" in str(error)}, error)
        while True:
            now_ms = time.monotonic() * 1000
            judged = judge_loss(self._losses, now_ms, hosted_s * 1000, (), self._limits.losses)
            self._losses = judged.record
            if judged.guilty:
                self._fail_all(running, error)
                return
            time.sleep(judged.delay_ms / 1000)
            left = {name: connector for name, connector in running.items() if self._running.get(name) is connector}
            began_s = self._began_s
            try:
                answers = {name: self._ask("start", name, connector.question()) for name, connector in left.items()}
                break
            except JavaHostGoneError as wrong:
                if self._began_s != began_s:
                    return  # a JVM started and was lost: the thread that was notified of that continues
                error, hosted_s = wrong, 0.0
                self._trouble = f"No JVM for Java connectors can be started: {wrong}"
                log.warning("the JVM of Java connectors cannot be started, retrying: %s", wrong)
            except BaseException as wrong:  # noqa: BLE001 - top of a thread: its connectors must not wait forever
                self._fail_all(left, wrong if isinstance(wrong, ConnectError) else ConnectError(repr(wrong)))
                self._trouble = f"No JVM for Java connectors can be started: {wrong}"
                return
        self._trouble = ""
        for name, (number, answer) in answers.items():
            self._finish(name, left[name], number, answer)

    def _fail_all(self, names: Iterable[str], error: ConnectError) -> None:
        for name in list(names):
            running = self._running.get(name)
            if running is not None and self.forget(name):
                running.failed(error)

    def _finish(self, name: str, running: Running, number: int, answer: Future[Any]) -> None:
        def done(answer: Future[Any]) -> None:
            with self._lock:
                self._open.pop(number, None)
                still = name in self._running
            wrong = answer.exception()
            if wrong is None and still:
                log.info("connector %s runs in another JVM", name)
                running.started_again()
            elif isinstance(wrong, JavaHostGoneError):
                return  # lost once more: the thread that started that restart continues
            elif isinstance(wrong, ConnectError) and self.forget(name):
                running.failed(wrong)

        answer.add_done_callback(done)


def _ask_for_life(process: JavaProcess) -> None:
    with contextlib.suppress(ConnectError):
        process.send(ToJava.STACKS, 0, "none of them")


def _answer(answer: Future[Any], head: Mapping[str, Any]) -> None:
    error = head.get("error")
    if error is None:
        answer.set_result(head.get("ok"))
    else:
        answer.set_exception(java_error(error))


def java_error(head: Mapping[str, Any]) -> JavaError:
    """Return the error that a frame reports: {"class", "message", "trace"}."""
    message = head["message"] if head["message"] != "null" else head["class"]
    return JavaError(message, head["class"], head.get("trace", ""))


def _fail(answer: Future[Any], error: ConnectError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _hand_on(running: Running, head: Mapping[str, Any]) -> None:
    if head["event"] == "reconfigure":
        running.asks_reconfiguration()
    elif head["event"] == "beans":
        running.measured(head["beans"])
    else:
        running.failed(java_error(head["detail"]))


# Starts the JVM next to a driver: its jars, its heap, and what it is given of the worker (no secrets).


_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_WORKER = {  # plug-ins are named by their places, question by question
    "key.converter": _CONVERTER,
    "value.converter": _CONVERTER,
    "plugin.discovery": "service_load",
}

SEARCH_IDLE_S = 10.0

_RUNTIME = "org.apache.kafka.connect.runtime"
_LEVELS = {f"{_RUNTIME}.isolation": "WARN", f"{_RUNTIME}.standalone": "WARN"}  # of what is set up for no task


@dataclass(frozen=True, slots=True)
class JvmSettings:
    """The JVM's settings in the worker's file, as texts without any change."""

    heap: str
    options: str = ""


def driver_host(settings: JvmSettings, limits: Limits | None = None) -> DriverHost:
    """Return the host of a driver's connectors; its JVM starts when it is asked something."""
    return DriverHost(lambda on_frame, on_gone, place: _start(settings, on_frame, on_gone, place), limits)


def searching_host(settings: JvmSettings) -> DriverHost:
    """Return the host in which plug-ins are looked for, and made to be asked their versions; it ends soon."""
    return driver_host(settings, Limits(idle_s=SEARCH_IDLE_S))


def _start(settings: JvmSettings, on_frame: OnFrame, on_gone: OnGone, place: str) -> JavaProcess:
    java = java_of_plugins()
    program = HostProgram(java.executable, tuple(program_jars(java)), (Path(place),) if place else ())

    def command(socket: Path) -> Sequence[str]:
        options = ["-XX:TieredStopAtLevel=1", *shlex.split(settings.options)]  # it moves no records
        return command_line(program, socket, settings.heap, options)

    try:
        process = JavaProcess(command, _WORKER, on_frame, on_gone, _LEVELS)
    except JavaHostGoneError as error:
        raise JavaHostGoneError(
            f"{error} ({JAVA_HEAP}={settings.heap}, {JAVA_OPTIONS}={settings.options!r}, Java {java.major} of "
            f"{java.home})",
            code="CRT-1131",
        ) from error
    prepare_archive(program)
    return process
