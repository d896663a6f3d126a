"""The calls of one sink task in a JVM: each is a question, and waits for its answer, for as long as it takes.

Owns the frames of one number. While it waits it serves the errant records that the task reports, and logs
what a task that does not return is doing. It gives up when the JVM is gone or the slice is over.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.java_host.heartbeats import OnMeter
from spark_connect_rt.engine.java_host.jvm_pool import HostedNumber
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.errors import JavaPluginError

LOOK_EACH_S = 0.1
SHOW_AFTER_S, SHOW_AFTER_HURRIED_S = 30.0, 3.0  # when a call has not returned its stack is logged, then ever later
HURRY_EACH_S = 1.0  # one may come before the call it is for
_STACK_LIMIT_S = 2.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Gone:
    reason: str


@dataclass(frozen=True, slots=True)
class CallWait:
    """Callbacks for the time in which a call has not returned. The task's thread."""

    on_errant: Callable[[Frame], None]  # the task reported a record
    settle: Callable[[], None]  # nothing else came: make what was reported durable
    ending: Callable[[], bool]  # the task is to end
    hurried: Callable[[], bool]  # or partitions leave: something waits for this call
    latest: Callable[[], Mapping[str, Any]]  # the task asked what its configuration is now


class SinkCalls(OnMeter):
    """The frames of one task. The task's thread, but for ``on_frame``, ``on_gone`` and ``give_up``."""

    def __init__(self, task: ConnectorTaskId, waiting: CallWait) -> None:
        """Take what to do while a call has not returned; ``begin`` gives it a JVM."""
        self._task = task
        self._waiting = waiting
        self._frames: queue.SimpleQueue[Frame | _Gone] = queue.SimpleQueue()
        self._jvm: HostedNumber | None = None
        self._unanswered = 0  # calls that were given up on: their answers are dropped when they come
        self._end_said = False
        self._hurried_at_s = 0.0
        self._gave_up = False
        self._member: Mapping[str, Any] | None = None
        self._member_lock = threading.Lock()

    def on_frame(self, frame: Frame) -> None:
        """Queue a frame for the task's thread."""
        self._frames.put(frame)

    def on_gone(self, reason: str) -> None:
        """Queue the JVM's end, and why, for the task's thread."""
        self._frames.put(_Gone(reason))

    def begin(self, jvm: HostedNumber, start: Mapping[str, Any]) -> Any:
        """Start the task; return what it says of itself. Raises JavaPluginError, JavaHostGoneError."""
        with self._member_lock:
            self._jvm = jvm
            jvm.send(ToJava.START, start)
            if self._member is not None:
                jvm.send(ToJava.MEMBER, self._member)
        return self._await(FromJava.STARTED, "start").head

    def ask(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> Mapping[str, Any]:
        """Make a call and return its answer. Raises JavaHostGoneError, JavaPluginError (the task is over)."""
        while self._unanswered:
            self._await(FromJava.DONE, "an earlier call")
            self._unanswered -= 1
        self._running.send(kind, head, data)
        self._unanswered += 1
        answer: Mapping[str, Any] = self._await(FromJava.DONE, kind.name).head
        self._unanswered -= 1
        return answer

    def say(self, kind: ToJava, head: Any = None) -> None:
        """Send what has no answer. Any thread. Raises JavaHostGoneError."""
        self._running.send(kind, head)

    def note_member(self, member: Mapping[str, Any]) -> None:
        """Have the task know its group member; also before ``begin``. Any thread."""
        with self._member_lock:
            self._member = member
            if self._jvm is not None:
                with contextlib.suppress(JavaHostGoneError):  # the task's thread is about to notice
                    self._jvm.send(ToJava.MEMBER, member)

    def end(self) -> None:
        """Stop the task and return when it has ended; a JVM that is gone has ended it."""
        if self._jvm is None or self._gave_up:
            return
        try:
            self.say(ToJava.STOP)
            self._await(FromJava.ENDED, "stop")
        finally:
            self._jvm.release()

    def give_up(self) -> None:
        """End the JVM, whatever it does. Any thread."""
        self._gave_up = True
        if self._jvm is not None:
            self._jvm.kill_jvm("the slice is over")

    @property
    def _running(self) -> HostedNumber:
        assert self._jvm is not None
        return self._jvm

    def _await(self, kind: FromJava, name: str) -> Frame:
        began_s = time.monotonic()
        shown_s = 0.0  # how long it had taken when its stack was shown last
        while not self._gave_up:
            try:
                frame = self._frames.get(timeout=LOOK_EACH_S)
            except queue.Empty:
                self._waiting.settle()
                self._hurry_on()
                waited_s = time.monotonic() - began_s
                after_s = SHOW_AFTER_HURRIED_S if self._waiting.hurried() else SHOW_AFTER_S
                if waited_s > max(after_s, 2 * shown_s):
                    shown_s = waited_s
                    self._show(name, waited_s)
                continue
            if (found := self._taken(frame, kind)) is not None:
                return found
        raise JavaHostGoneError("the slice is over")

    def _taken(self, frame: Frame | _Gone, kind: FromJava) -> Frame | None:
        """Serve a frame; return it if it is what is waited for."""
        if isinstance(frame, _Gone):
            self._frames.put(frame)  # for every later call
            raise JavaHostGoneError(f"the Java host is gone: {frame.reason}")
        if frame.kind is kind:
            return frame
        if frame.kind is FromJava.ERRANT:
            self._waiting.on_errant(frame)
        elif frame.kind is FromJava.CONFIG:
            self.say(ToJava.CONFIG, {"question": frame.head["question"], **self._waiting.latest()})
        elif frame.kind is FromJava.FAILED:
            if kind is not FromJava.ENDED:
                raise plugin_error(frame.head)
            log.warning("task=%s: its end failed, ignored: %s", self._task, frame.head["trace"])
        elif frame.kind is FromJava.ENDED:
            self._frames.put(frame)  # for every later call
            raise JavaHostGoneError("the task's thread has ended unexpectedly")
        return None

    def _hurry_on(self) -> None:
        """A record that is tried again and again must not hold up partitions that leave, nor the end of its task."""
        ending, now_s = self._waiting.ending(), time.monotonic()
        if ending and not self._end_said:
            self._end_said = True
            self.say(ToJava.HURRY, head=True)
        elif not ending and self._waiting.hurried() and now_s - self._hurried_at_s > HURRY_EACH_S:
            self._hurried_at_s = now_s
            self.say(ToJava.HURRY, head=False)

    def _show(self, name: str, waited_s: float) -> None:
        stacks = self._running.stacks(f"task-{self._task}", _STACK_LIMIT_S)
        text = "\n".join(f"{stack['thread']}\n    " + "\n    ".join(stack["stack"]) for stack in stacks)
        log.warning("task=%s: %s has not returned for %.0f s; it is at\n%s", self._task, name, waited_s, text)


def plugin_error(head: Mapping[str, Any]) -> JavaPluginError:
    """Return the error of {"class", "message", "trace"}."""
    return JavaPluginError(head["class"], head["message"], head["trace"])
