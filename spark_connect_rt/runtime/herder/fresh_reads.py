"""Reading the config topic to its end for a reader that found nothing: what another worker answered is known then.

Any thread, never the tick. One read at a time; it serves every request made before it began.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

log = logging.getLogger(__name__)


class FreshReads:
    """Answers when the snapshot is as new as the topic was at the call, or cannot be had."""

    def __init__(self, deps: HerderDependencies, started: Future[None]) -> None:
        self._deps = deps
        self._started = started
        self._lock = threading.Lock()
        self._waiting: list[Future[None]] = []
        self._reading = False

    def read(self) -> Future[None]:
        """Return an answer that never fails: what cannot be read further is answered from what is known."""
        asked: Future[None] = Future()
        with self._lock:
            self._waiting.append(asked)
            if self._reading:
                return asked
            self._reading = True
        self._deps.threads.start("read-config", self._run)
        return asked

    def _run(self) -> None:
        while True:
            with self._lock:
                served, self._waiting = self._waiting, []
                if not served:
                    self._reading = False
                    return
            self._read()
            for asked in served:
                if asked.set_running_or_notify_cancel():
                    asked.set_result(None)

    def _read(self) -> None:
        limit_ms = self._deps.settings.worker_sync_timeout_ms
        try:
            # Before the start is over there is no snapshot at all: nothing is missing because of that.
            self._started.exception(limit_ms / 1000)
            self._deps.config_store.refresh(limit_ms)
        except (ConnectError, TimeoutError) as error:
            log.warning(
                "worker=%s answers with the state that it has read so far: %s", self._deps.settings.worker_id, error
            )
