"""The frames of one source task in a JVM, and the room it has for polls.

Owns what came and is not served yet: frames in their order, then the JVM's end. Any frame wakes the task's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.engine.java_host.heartbeats import OnMeter
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.slot_hosts import HostedNumber
from spark_connect_rt.engine.java_host.wire import Frame, ToJava

MOST_POLLS, FEWEST_POLLS = 16, 2  # granted ahead
AHEAD_BYTES = 4 << 20  # as far as it is known how large a poll is


@dataclass(frozen=True, slots=True)
class _Gone:
    reason: str


class SourceCalls(OnMeter):
    """What crosses for one task. The task's thread, but for ``on_frame`` and ``on_gone``."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called when something came, on the JVM's thread."""
        self._wake = wake
        self._came: deque[Frame | _Gone] = deque()
        self._jvm: HostedNumber | None = None
        self._granted = 0  # polls that may still come
        self._poll_bytes = 0  # of the poll that comes
        self._most = FEWEST_POLLS
        self._gone = False

    def on_frame(self, frame: Frame) -> None:
        """See slot_hosts.Hosted."""
        self._came.append(frame)
        self._wake()

    def on_gone(self, reason: str) -> None:
        """See slot_hosts.Hosted."""
        self._came.append(_Gone(reason))
        self._wake()

    def begin(self, jvm: HostedNumber) -> None:
        """Speak to this JVM from now on."""
        self._jvm = jvm

    @property
    def has_jvm(self) -> bool:
        """Whether there is one that lives, as far as is known."""
        return self._jvm is not None and not self._gone

    def next(self) -> Frame | None:
        """Return the next frame, None: there is none yet. Raises JavaHostGoneError."""
        if not self._came:
            return None
        frame = self._came.popleft()
        if isinstance(frame, _Gone):
            self._gone = True
            raise JavaHostGoneError(f"the Java host is gone: {frame.reason}")
        return frame

    def send(self, kind: ToJava, head: Any = None) -> None:
        """Send a frame. Raises JavaHostGoneError."""
        assert self._jvm is not None
        self._jvm.send(kind, head)

    def taken(self, data_bytes: int, *, poll_ends: bool) -> None:
        """Take note of a batch that was handed over: there is room for more."""
        self._poll_bytes += data_bytes
        if poll_ends:
            self._granted -= 1
            self._most = max(FEWEST_POLLS, min(MOST_POLLS, AHEAD_BYTES // max(1, self._poll_bytes)))
            self._poll_bytes = 0

    def grant(self) -> None:
        """Let the task poll, some polls ahead."""
        if self._granted <= self._most // 2:
            self.send(ToJava.ROOM, self._most - self._granted)
            self._granted = self._most

    def call_back(self) -> None:
        """Let it poll no more, until ``grant``; IDLE says that no poll is under way."""
        self.send(ToJava.ROOM, 0)
        self._granted = 0

    def stacks(self, task: object, limit_s: float) -> str:
        """Return what the task's threads are doing."""
        assert self._jvm is not None
        threads = [stack for kind in ("task", "commit") for stack in self._jvm.stacks(f"{kind}-{task}", limit_s)]
        return "\n".join(f"{thread['thread']}\n    " + "\n    ".join(thread["stack"]) for thread in threads)

    def kill(self, reason: str) -> None:
        """End the JVM; its other tasks are lost, too, and hosted again."""
        assert self._jvm is not None
        self._gone = True
        self._jvm.kill_jvm(reason)

    def release(self) -> None:
        """Let the JVM go."""
        if self._jvm is not None:
            self._jvm.release()
