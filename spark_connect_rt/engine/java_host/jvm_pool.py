"""The JVMs of one Python process of a slot: shared by equal Java code, kept warm a little while after their last task.

Owns which JVM hosts what, the numbers of the hosted, and the dispatch of frames to them. The end of a JVM, for any
reason, is reported once to each task that it hosted and to nothing else. Tasks that share a JVM are separated if it
ends repeatedly. A JVM lives no longer than this process: it ends when its socket does.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config, linked_plugins, with_plugins
from spark_connect_rt.engine.java_host.process import (
    JavaHostGoneError,
    JavaProcess,
    command_line,
    for_records,
    prepare_archive,
)
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.startup.java_home import Java, java_of_plugins
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

WARM_S = 30.0  # as an empty slot (idle_linger_ms): a moved or restarted task finds its JVM running, compiled
LOSSES_PART, PARTED_S = 2, 60.0  # a shared JVM that ends by itself so often is not shared for so long
APART_MAX = 4  # JVMs of equal code while it is not: memory, where there are many tasks
_LOOK_EACH_S = 0.2  # while a JVM starts
log = logging.getLogger(__name__)


class Hosted(Protocol):
    """The receiver of one number's frames. Both are called on the JVM's thread and must not wait."""

    def on_frame(self, frame: Frame) -> None:
        """Take a frame of this number."""

    def on_gone(self, reason: str) -> None:
        """Take note that the JVM is gone, and why: nothing comes any more. Called at most once."""


@runtime_checkable
class HeartbeatListener(Protocol):
    """A Hosted that wants to know what its JVM says of it once a second."""

    def on_heartbeat(self, head: Mapping[str, Any], pid: int) -> None:
        """Take a heartbeat of this number (``heartbeats.py``) and the JVM's process id. Must not wait nor raise."""


class HostedNumber:
    """One number of a JVM, through which a task sends its frames. Any thread."""

    def __init__(self, jvm: _Jvm, number: int) -> None:
        self._jvm = jvm
        self.number = number

    @property
    def pid(self) -> int:
        """Return the JVM's process id."""
        return self._jvm.process.pid

    def send(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> None:
        """Send a frame. Raises JavaHostGoneError, ValueError (too large)."""
        self._jvm.process.send(kind, self.number, head, data)

    def stacks(self, thread_prefix: str, timeout_s: float) -> list[Mapping[str, Any]]:
        """Return [{"thread", "stack"}] of the JVM's threads whose name begins so; empty: no answer in time."""
        return self._jvm.stacks(thread_prefix, timeout_s)

    def kill_jvm(self, reason: str) -> None:
        """End the JVM and all it hosts; each of the others is given ``reason``."""
        self._jvm.end(reason, but=self.number)

    def release(self) -> None:
        """Take no frames any more. The last one lets the JVM go, after a while. May be called twice."""
        self._jvm.release(self.number)


class Listening(Protocol):
    """The receiver of a JVM's reports."""

    def on_frame(self, frame: Frame) -> None:
        """Take a frame of any number."""

    def on_gone(self, reason: str) -> None:
        """Take note of its end."""


StartJvm = Callable[[JavaCode, Mapping[str, str], Listening], JavaProcess]


class _Jvm:
    """One JVM and what it hosts."""

    def __init__(self, alone: bool, warm_s: float, lost: Callable[[], None] = lambda: None) -> None:
        self.started: Future[JavaProcess] = Future()
        self.used = False  # a task was there
        self._lost = lost  # it ended by itself
        self.gone = False
        self._warm_s = 0.0 if alone else warm_s
        self._hosted: dict[int, Hosted] = {}
        self._numbers = itertools.count(1)
        self._questions: deque[Future[list[Mapping[str, Any]]]] = deque()
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._timer: threading.Timer | None = None
        self._claims = 0  # of those that wait for its start

    @property
    def process(self) -> JavaProcess:
        return self.started.result(0)

    def claim(self) -> bool:
        """Keep it from ending until ``join`` or ``give_up``; False: it is gone."""
        with self._lock:
            if self.gone:
                return False
            self._claims += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return True

    def join(self, hosted: Hosted) -> HostedNumber:
        """Give a number to it. Raises JavaHostGoneError."""
        with self._lock:
            self._claims -= 1
            if self.gone:
                raise JavaHostGoneError("the Java host ended before the task started there")
            self.used = True
            number = next(self._numbers)
            self._hosted[number] = hosted
            return HostedNumber(self, number)

    def give_up(self) -> None:
        with self._lock:
            self._claims -= 1
            self._idle()

    def release(self, number: int) -> None:
        with self._lock:
            if self._hosted.pop(number, None) is not None:
                self._idle()

    def _idle(self) -> None:
        if not self._hosted and not self._claims and not self.gone and self._timer is None:
            self._timer = threading.Timer(self._warm_s, self._end_if_idle)
            self._timer.name = "java-host-idle"
            self._timer.daemon = True
            self._timer.start()

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._timer is None or self._hosted or self._claims or self.gone:
                return
            self.gone = True
        self._close("no task is left")

    def _close(self, why: str) -> None:
        if self.started.done() and self.started.exception() is None:
            log.info("Java host pid=%d ends: %s", self.process.pid, why)
            self.process.close()

    def on_frame(self, frame: Frame) -> None:
        if frame.kind is FromJava.STACKS:
            if self._questions:
                self._questions.popleft().set_result(frame.head)
            return
        hosted = self._hosted.get(frame.host)
        if frame.kind is FromJava.HEARTBEAT:
            if isinstance(hosted, HeartbeatListener):
                hosted.on_heartbeat(frame.head, self.process.pid)
        elif hosted is not None:  # else it was released, and its frames are dropped
            try:
                hosted.on_frame(frame)
            except Exception as error:
                log.exception("the frame %s for number %d cannot be handled", frame.kind.name, frame.host)
                self._hosted.pop(frame.host, None)
                hosted.on_gone(f"a frame of the Java host cannot be handled: {error!r}")

    @property
    def load(self) -> int:
        """How many it hosts or will."""
        return len(self._hosted) + self._claims

    def on_gone(self, reason: str) -> None:
        if self.used:
            self._lost()  # before its tasks return
        self._lose(reason)

    def _lose(self, reason: str, but: int = 0) -> None:
        """Say so to all that it hosted, but the one of that number."""
        with self._lock:
            self.gone = True
            hosted, self._hosted = self._hosted, {}
        for number, guest in hosted.items():
            if number != but:
                try:
                    guest.on_gone(reason)
                except Exception:
                    log.exception("number %d cannot be notified of the end of its Java host", number)

    def end(self, reason: str, but: int = 0) -> None:
        self._lose(reason, but)
        self._close(reason)

    def stacks(self, prefix: str, timeout_s: float) -> list[Mapping[str, Any]]:
        question: Future[list[Mapping[str, Any]]] = Future()
        with self._asking:  # answers come in the order of the questions
            self._questions.append(question)
            self.process.send(ToJava.STACKS, 0, prefix)
        try:
            return question.result(timeout_s)
        except FutureTimeoutError:
            return []


@dataclass(slots=True)
class JvmPool:
    """The JVMs of this process."""

    start: StartJvm = field(default_factory=lambda: _start)
    warm_s: float = WARM_S
    now_s: Callable[[], float] = time.monotonic
    _shared: dict[Any, _Jvm] = field(default_factory=dict)
    _apart: dict[Any, list[_Jvm]] = field(default_factory=dict)
    _losses: dict[Any, deque[float]] = field(default_factory=dict)  # when shared JVMs of equal code ended
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def acquire(
        self,
        code: JavaCode,
        worker_config: Mapping[str, str],
        location: Callable[[str], str],
        hosted: Hosted,
        wanted: Callable[[], bool] = lambda: True,
    ) -> HostedNumber:
        """Return a number in a JVM for this code; waits for the JVM's start, which takes a second or two.

        Args:
            worker_config: resolved; the part of the worker's settings that converters and plug-ins see.
            location: from a path on the driver to the same here (``ExecutorClients.plugin_location``).
            hosted: takes what the JVM says about that number.
            wanted: asked while a JVM starts; False: the caller has no more use for it.

        Raises:
            JavaHostGoneError: no JVM starts, or it ended meanwhile; the message holds what it printed.
            NotFoundError: a plug-in is not on this machine. StartupError: there is no Java.
            ShuttingDownError: it is not wanted any more.
        """
        jvm = self._claimed(code, dict(worker_config), location)
        try:
            while True:
                try:
                    jvm.started.result(_LOOK_EACH_S)
                    break
                except FutureTimeoutError:
                    if not wanted():
                        raise ShuttingDownError("the task was stopped before its Java host was ready") from None
        except BaseException:
            jvm.give_up()
            raise
        return jvm.join(hosted)

    def warm_up(self, code: JavaCode, worker_config: Mapping[str, str], location: Callable[[str], str]) -> None:
        """Have a JVM for this code running before its task is there; it ends after a while in which none comes. Blocks.

        Does nothing if the task gets a separate JVM, or while another JVM waits for its first task: configurations that
        are refused must not fill the memory. Raises as ``acquire``.
        """
        key = _key(code, worker_config)
        with self._lock:
            waits = any(other != key and not (jvm.used or jvm.gone) for other, jvm in self._shared.items())
            if code.alone or waits or self._parted(key):
                return
        jvm = self._claimed(code, dict(worker_config), location)
        try:
            process = jvm.started.result()
            if code.connector_class and not jvm.used:  # its classes, as a list of plug-ins asks for them
                about = {"connector.class": code.connector_class}
                process.send(ToJava.QUESTION, 0, {"op": "describe", "id": 0, "config": about})
        finally:
            jvm.give_up()

    def _claimed(self, code: JavaCode, worker_config: dict[str, str], location: Callable[[str], str]) -> _Jvm:
        key = _key(code, worker_config)
        with self._lock:
            apart = not code.alone and self._parted(key)
            jvm = None if code.alone else self._apart_jvm(key) if apart else self._shared.get(key)
            if jvm is not None and jvm.claim():
                return jvm
            jvm = _Jvm(code.alone or apart, self.warm_s, lambda: self._note_loss(key))
            jvm.claim()
            if apart:
                self._apart.setdefault(key, []).append(jvm)
            elif not code.alone:
                self._shared[key] = jvm
                for other in [known for known, its in self._shared.items() if its.gone]:
                    del self._shared[other]
        threading.Thread(
            target=self._start_in, args=(jvm, code, worker_config, location), name="java-host-start", daemon=True
        ).start()
        return jvm

    def _note_loss(self, key: Any) -> None:
        with self._lock:
            self._losses.setdefault(key, deque(maxlen=LOSSES_PART)).append(self.now_s())

    def _parted(self, key: Any) -> bool:
        """Return whether tasks of equal code get JVMs apart now: which of them ends a shared one cannot be known."""
        losses = self._losses.get(key)
        return bool(losses and len(losses) == LOSSES_PART and self.now_s() - losses[0] < PARTED_S)

    def _apart_jvm(self, key: Any) -> _Jvm | None:
        """Return the JVM to join, None: another one is to be started."""
        there = self._apart[key] = [jvm for jvm in self._apart.get(key, []) if not jvm.gone]
        return None if len(there) < APART_MAX else min(there, key=lambda jvm: jvm.load)

    def _start_in(
        self, jvm: _Jvm, code: JavaCode, worker_config: dict[str, str], location: Callable[[str], str]
    ) -> None:
        """Thread body: start a JVM. Threads that wait for it get its error."""
        try:
            plugins = [location(plugin) for plugin in code.plugins]
            process = self.start(code, with_plugins(worker_config, plugins, code.connector_class), jvm)
        except BaseException as error:  # noqa: BLE001 - others wait for it, and raise it
            jvm.gone = True
            jvm.started.set_exception(error)
        else:
            jvm.started.set_result(process)
            if jvm.gone:  # its tasks have ended meanwhile
                process.close()


def _key(code: JavaCode, worker_config: Mapping[str, str]) -> Any:
    return (code, tuple(sorted(worker_config.items())))


def warm_up(code: JavaCode, worker_config: Mapping[str, str], clients: ExecutorClients) -> None:
    """Have a JVM for this code running in this process (``task_runner.WARM_UP``). Blocks; raises what may fail."""
    resolved = clients.resolve(worker_config, worker_config)
    slot_hosts().warm_up(code, jvm_worker_config(resolved), clients.plugin_location)


def _start(code: JavaCode, worker_config: Mapping[str, str], jvm: Listening) -> JavaProcess:
    java, jars = _program()
    program = HostProgram(java.executable, jars, linked_plugins(worker_config))

    def command(socket: Path) -> Sequence[str]:
        options = [*for_records(code.heap, code.options), *code.options]
        return command_line(program, socket, code.heap, options)

    process = JavaProcess(command, worker_config, jvm.on_frame, jvm.on_gone, dict(code.levels))
    prepare_archive(program)
    return process


@functools.cache
def _program() -> tuple[Java, tuple[Path, ...]]:
    """Return Java, and the jars of a host."""
    java = java_of_plugins()
    return java, tuple(program_jars(java))


@functools.cache
def slot_hosts() -> JvmPool:
    """Return those of this process."""
    return JvmPool()
