"""Sends the reports of several writers at the same instant as one message, from one thread for the whole process.

The batches of eight tasks are acknowledged by one answer of the broker. Woken for it, each writer's own thread would
fight the others for the interpreter, and its report would wake the driver's threads once more. Owns whose records were
acknowledged and are not reported, and the thread. Must not: wait for a writer, or let its later reports overtake those
that it holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from spark_connect_rt.engine.executor.control_wire import encode_message

GATHER_S = 0.002  # one answer's acknowledgements come one after the other
KEPT_S = 30.0  # a thread without anything to do
log = logging.getLogger(__name__)
Send = Callable[[bytes], None]
"""Sends encoded messages. Any thread."""
Report = Callable[[Mapping[str, Any]], None]
"""Takes one message. Raises TypeError: it cannot be sent."""


class Settling(Protocol):
    """A writer whose records were acknowledged."""

    def settle(self, report: Report) -> bool:
        """Report what became durable, without a wait; True: nothing more is reported before ``settled``."""

    def settled(self) -> None:
        """Take note that the reports of ``settle`` are sent."""

    def look_again(self) -> None:
        """Have the writer's own thread look."""


class JointReports:
    """See the module. Any thread."""

    def __init__(self, send: Send) -> None:
        """Start empty; the thread starts with the first writer."""
        self._send = send
        self._changed = threading.Condition()  # of the following
        self._due: deque[Settling] = deque()
        self._thread: threading.Thread | None = None

    def acknowledged(self, writer: Settling) -> None:
        """Have a writer report soon; does not wait."""
        with self._changed:
            if self._is_up():
                self._due.append(writer)
                self._changed.notify()
                return
        writer.look_again()

    def together(self, tell: Callable[[Report], None]) -> None:
        """Send all reports that ``tell`` makes, at once. The caller's thread."""
        messages = list[bytes]()
        tell(lambda message: messages.append(encode_message(message)))
        if messages:
            self._send(b"".join(messages))

    def _is_up(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="joint-reports", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # there are no more
                self._thread = None
        return self._thread is not None

    # -- its thread

    def _run(self) -> None:
        while due := self._gathered():
            try:
                self._serve(due)
            except Exception:
                log.exception("joint reports failed, so each task reports on its own")
                for writer in due:
                    writer.look_again()

    def _gathered(self) -> list[Settling]:
        """Wait for writers; none came for long: the thread is over."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._due, KEPT_S):
                self._thread = None
                return []
        time.sleep(GATHER_S)
        with self._changed:
            due = list(self._due)
            self._due.clear()
            return due

    def _serve(self, due: list[Settling]) -> None:
        held = list[Settling]()

        def settle(report: Report) -> None:
            for writer in due:
                if writer.settle(report):
                    held.append(writer)
                else:
                    writer.look_again()

        try:
            self.together(settle)
        finally:
            for writer in held:
                writer.settled()
