"""Work of the worker's main thread while its herder works: wait for a reason to end, and return it."""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
import time
from types import FrameType
from typing import Protocol

from spark_connect_rt.base.exit_codes import EXIT_TICK_CRASHED, exit_code_of
from spark_connect_rt.base.supervision import Supervisor

LOOK_EVERY_S = 0.5
END_LIMIT_S = 9.0  # for leaving the group; parts that hang then are not waited for

log = logging.getLogger(__name__)


class Flag(Protocol):
    """The reading half of ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; return whether it is up."""


def await_end(stop_asked: Flag, tick_ended: Flag, worker_id: str, supervisor: Supervisor | None = None) -> int:
    """Wait for a signal, or for the end of spark-submit, a part of the worker or the tick; return the exit code."""
    submitted_by = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None
    while not stop_asked.wait(LOOK_EVERY_S):
        if submitted_by is not None and os.getppid() != submitted_by:
            log.warning("worker=%s stops because spark-submit has ended", worker_id)
            break
        if supervisor is not None and supervisor.failure is not None:
            return exit_code_of(supervisor.failure.part)
        if tick_ended.is_set():  # not requested: the tick thread has ended
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


# SIGTERM, SIGINT and SIGHUP: the first asks for an orderly stop, a second SIGTERM or SIGINT ends the process at once.
#
# SIGHUP comes when the terminal is closed, from the kernel and from the shell, so it may come several times: it asks,
# and never ends at once. A user who started the process with SIGHUP ignored (``nohup``) wants it to stay: then it stays
# ignored.


_IMPORT_POLL_S = 0.02
_LOOK_EVERY_S = 0.1
SIGNAL_EXIT_BASE = 128  # a shell's exit code for a process that a signal ended


class SignalFlag:
    """A flag that a signal handler sets and that any thread can wait for.

    An ``Event`` is not safe here. A handler that interrupts code which holds the event's lock would deadlock. The
    kernel may also deliver the signal to another thread, and then the main thread does not wake up to run the handler.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Set the flag. A signal handler may call this."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for at most ``timeout`` seconds; return whether the flag is set."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left_s = _LOOK_EVERY_S if end is None else end - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(_LOOK_EVERY_S, left_s))
        return self._is_set


def stop_asked(second_ends: bool = True) -> SignalFlag:
    """Return what the first signal sets. Main thread only.

    ``second_ends``: a second SIGTERM or SIGINT ends without the drain: nothing more is committed or
    left; the group finds out by the session timeout, as after kill -9. Without it the second does nothing.
    """
    asked, counted = SignalFlag(), SignalFlag()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        asked.set()
        if number == signal.SIGHUP:
            leave_closed_terminal()
            return
        if not (second_ends and counted.is_set()):
            counted.set()
            return
        # No logging: the signal may have come in the middle of it, holding its lock.
        sys.stderr.write(f"received signal {number} a second time: the process ends immediately\n")
        sys.stderr.flush()
        os._exit(SIGNAL_EXIT_BASE + number)

    for number in (signal.SIGTERM, signal.SIGINT, *_hang_up()):
        signal.signal(number, on_signal)
    return asked


def unwind_when_asked() -> None:
    """Have the first SIGTERM or SIGHUP raise SystemExit(128 + its number), so that every ``finally`` runs.

    Main thread only. A second SIGTERM ends the process as it stands. In the middle of an import the exception waits for
    the import's end, as does the KeyboardInterrupt of SIGINT. There the interpreter may swallow it, or keep its lock of
    all imports forever, and every thread that imports something would hang.
    """
    waits = [int(signal.SIGALRM)]  # the signal that came in the middle of an import

    def on_signal(number: int, frame: FrameType | None) -> None:
        wanted = waits[0] if number == signal.SIGALRM else number
        if _imports(frame):
            waits[:] = [wanted]
            # A timer of the kernel, not a thread: the interrupted code may hold a lock that a thread needs.
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_POLL_S)
            return
        if wanted == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if wanted == signal.SIGHUP:
            leave_closed_terminal()
        raise SystemExit(SIGNAL_EXIT_BASE + wanted)

    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, *_hang_up()):
        signal.signal(number, on_signal)


def _imports(frame: FrameType | None) -> bool:
    """Return whether a frame is within an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave_closed_terminal() -> None:
    """Send what is still printed nowhere if the terminal is gone: each write to it would be an error, also at the end.

    A terminal that is still there (SIGHUP was sent by ``kill``) keeps the output, as a file or a pipe does.
    """
    for stream in (sys.stdout, sys.stderr, sys.__stderr__):
        try:
            number = stream.fileno() if stream is not None else -1
            closed = stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number)
        except (OSError, ValueError):  # no file behind it
            continue
        if closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def _hang_up() -> tuple[signal.Signals, ...]:
    """Return SIGHUP, unless the parent process had it ignored."""
    return () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
