"""What a worker's main thread does while its herder works: wait for a reason to end, and return it."""

from __future__ import annotations

import logging
import os
import sys
from typing import Protocol

from spark_connect_rt.base.exit_codes import EXIT_TICK_CRASHED, exit_code_of
from spark_connect_rt.base.supervision import Supervisor

LOOK_EVERY_S = 0.5
END_LIMIT_S = 9.0  # for leaving the group; what hangs then is not waited for

log = logging.getLogger(__name__)


class Flag(Protocol):
    """The reading half of ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; return whether it is up."""


def await_end(stop_asked: Flag, tick_ended: Flag, worker_id: str, supervisor: Supervisor | None = None) -> int:
    """Wait for a signal, for the end of spark-submit, of a part of the worker or of the tick; return the exit code."""
    submitted_by = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None
    while not stop_asked.wait(LOOK_EVERY_S):
        if submitted_by is not None and os.getppid() != submitted_by:
            log.warning("worker=%s stops because spark-submit has ended", worker_id)
            break
        if supervisor is not None and supervisor.failure is not None:
            return exit_code_of(supervisor.failure.part)
        if tick_ended.is_set():  # no one asked for it: the tick thread is gone
            return EXIT_TICK_CRASHED
    return 0


def end_failed(supervisor: Supervisor, herder_stopped: Flag, code: int) -> None:
    """End the process as it stands if a part of the worker has ended, once the herder has left the group.

    With one line for who reads nothing but the last. No interpreter's end: it would wait for threads that a dead JVM
    never answers.
    """
    failure = supervisor.failure
    if failure is None:
        return
    if not herder_stopped.wait(END_LIMIT_S):
        log.error("the herder has not stopped within %.0f s", END_LIMIT_S)
    logging.shutdown()
    sys.stderr.write(f"connectrt: the worker ended. {failure}\n")
    sys.stderr.flush()
    os._exit(code)
