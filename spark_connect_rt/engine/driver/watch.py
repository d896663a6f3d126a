"""Notices that the JVM behind a session is gone, or that its SparkContext was stopped.

A connection to the JVM's gateway that no one speaks on ends when the JVM does, however it ends (kill -9, out of memory,
System.exit), whether it is a child of this process or its parent. Calls into a dead JVM only fail one by one.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

LOOK_EVERY_S = 5.0
CONNECT_LIMIT_S = 10.0
JVM_ENDED = "its JVM ended"
CONTEXT_STOPPED = "its SparkContext was stopped"
log = logging.getLogger(__name__)


class JvmWatch:
    """Watches from a thread of its own until ``stop``."""

    def __init__(self, address: tuple[str, int], is_stopped: Callable[[], bool], gone: Callable[[str], None]) -> None:
        """Watch the gateway at ``address``; ``gone`` gets the reason, once. ``is_stopped`` asks the JVM; may raise."""
        self._address = address
        self._is_stopped = is_stopped
        self._gone = gone
        self._stopped = False
        threading.Thread(target=self._run, name="jvm-watch", daemon=True).start()

    def stop(self) -> None:
        """Say nothing any more: Spark is being stopped."""
        self._stopped = True

    def _run(self) -> None:
        why = self._await_end()
        if not self._stopped:
            self._gone(why)

    def _await_end(self) -> str:
        try:
            with socket.create_connection(self._address, CONNECT_LIMIT_S) as line:
                line.settimeout(LOOK_EVERY_S)
                while not self._stopped and not self._ended(line):
                    if self._context_stopped():
                        return CONTEXT_STOPPED
        except OSError as error:
            log.debug("the gateway's connection broke: %s", error)
        return JVM_ENDED

    @staticmethod
    def _ended(line: socket.socket) -> bool:
        try:
            return not line.recv(1)
        except TimeoutError:
            return False

    def _context_stopped(self) -> bool:
        try:
            return self._is_stopped()
        except Exception as error:  # noqa: BLE001 - whatever py4j says: the connection tells whether the JVM lives
            log.debug("the SparkContext does not answer: %s", error)
            return False


def watch_jvm(session: Any, gone: Callable[[str], None]) -> JvmWatch | None:
    """Watch the JVM of a session; None: it has none of its own in reach (Spark Connect)."""
    context = getattr(session, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if context is None or gateway is None:
        return None
    parameters = gateway.gateway_parameters
    return JvmWatch((parameters.address, parameters.port), lambda: bool(context._jsc.sc().isStopped()), gone)
