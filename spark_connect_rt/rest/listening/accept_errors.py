"""A listener that is short of descriptors: says so once a minute, and keeps some back for clients that ask meanwhile.

asyncio reports each attempt to accept a connection with a traceback, and tries as often as its backlog is long.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from spark_connect_rt.base.descriptor_limit import NOWHERE, descriptor_limit

log = logging.getLogger(__name__)

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
LOG_EVERY_S = 60.0
RESERVED = 8


class ReservedDescriptors:
    """Descriptors that are held only to be given back when there are no others."""

    def __init__(self, count: int = RESERVED) -> None:
        self._count = count
        self._held: list[int] = []

    def hold(self) -> None:
        """Take as many as are to be had, up to the wanted number."""
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(NOWHERE, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:  # there is still a shortage; this is called again
            return

    def release(self) -> int:
        """Give all of them back; return how many that were."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)
        return len(held)


class AcceptErrors:
    """An event loop's exception handler. It runs on the loop, between two attempts to accept."""

    def __init__(
        self,
        reserved: ReservedDescriptors,
        lower: Callable[[float], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lower`` has fewer connections open for a while; it takes the time, s."""
        self._reserved = reserved
        self._lower = lower
        self._now_s = now_s
        self._count = 0
        self._logged_s = -LOG_EVERY_S

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what asyncio reports; anything but a shortage takes the default way."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in SHORTAGES and "accept" in context.get("message", "")):
            loop.default_exception_handler(context)
            return
        self._count += 1
        self._reserved.release()
        self._lower(self._now_s())
        self.report(error)

    def report(self, error: OSError) -> None:
        """Log how often connections could not be accepted since the last line, once a minute at most."""
        now_s = self._now_s()
        if now_s - self._logged_s < LOG_EVERY_S:
            return
        log.error(
            "REST cannot accept connections: %s (%d attempts since the last such line; ulimit -n is %d). Idle "
            "connections are closed and the next ones accepted as soon as files are closed.",
            error.strerror or error,
            self._count,
            descriptor_limit().soft,
        )
        self._logged_s, self._count = now_s, 0
