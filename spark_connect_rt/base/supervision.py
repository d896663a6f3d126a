"""The place that is notified when a part of the worker ended by an error. The first failure ends the worker.

A worker that continued without one of its threads would keep its place in the group and its tasks, and move nothing.
So each part reports here, the herder ends the work and leaves the group, ``/health`` shows the reason, and the process
ends with the exit code of the part. Nothing is restarted in place: the process's own supervisor does that.
Some work (``Repeated``) is not essential: the worker continues without it, and ``/health`` names it if it ended or
hangs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)

STUCK_S = 120.0
AGAIN = "Start the worker again. If it fails again, report the log above."


class SupervisedPart(Enum):
    """The parts that can end, with the name and the advice that an operator sees."""

    HERDER = ("the herder", AGAIN)
    GROUP = ("the group membership", AGAIN)
    REFUSED = ("the group rejected this worker", "Correct the setting named here, or the rights, and start it again.")
    ENGINE = ("the engine", AGAIN)
    CHANNEL = ("the control channel", AGAIN)
    LOG = ("the reader of an internal topic", AGAIN)
    REST = ("the REST server", AGAIN)
    SPARK = (
        "Spark",
        "Look for the cause (memory, kill, the cluster manager) in Spark's log, then start the worker again.",
    )

    def __init__(self, title: str, advice: str) -> None:
        self.title = title
        self.advice = advice


@dataclass(frozen=True, slots=True)
class PartFailure:
    """The first part that ended, and why."""

    part: SupervisedPart
    reason: str

    def __str__(self) -> str:
        """Return the line for operators: the part, the reason and the advice."""
        return f"{self.part.title}: {self.reason.rstrip('.')}. {self.part.advice}"


Report = Callable[[SupervisedPart, BaseException | str], None]
"""Takes the part that ended and the reason. Any thread; returns at once."""


def report_nowhere(part: SupervisedPart, error: BaseException | str) -> None:
    """Only log the failure. Used by code that runs without a supervisor."""
    log.error("%s ended: %s", part.title, error, exc_info=error if isinstance(error, BaseException) else None)


class Supervisor:
    """Keeps the first failure and notifies its listeners. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failure: PartFailure | None = None
        self._listeners: list[Callable[[PartFailure], None]] = []
        self._beside: list[Callable[[], str]] = []

    @property
    def failure(self) -> PartFailure | None:
        """Return the failure that ended the worker; None: there was none."""
        return self._failure

    def failed(self, part: SupervisedPart, error: BaseException | str) -> None:
        """Note that a part ended; only the first one counts."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        failure = PartFailure(part, reason)
        with self._lock:
            if self._failure is not None:
                log.warning("also ended: %s", failure)
                return
            self._failure = failure
            listeners = list(self._listeners)
        log.error("the worker ends: %s", failure, exc_info=error if isinstance(error, BaseException) else None)
        for listener in listeners:
            listener(failure)

    def watch(self, trouble: Callable[[], str]) -> None:
        """Have ``/health`` show the trouble of a part that the worker can do without.

        An empty text means no trouble.
        """
        self._beside.append(trouble)

    def troubles(self) -> str:
        """Return the troubles of the parts that the worker can do without, joined by semicolons; empty: none."""
        return "; ".join(filter(None, (trouble() for trouble in self._beside)))

    def on_failure(self, listener: Callable[[PartFailure], None]) -> None:
        """Call ``listener`` at the first failure, at once if there was one. It must be quick and raise nothing."""
        with self._lock:
            self._listeners.append(listener)
            failure = self._failure
        if failure is not None:
            listener(failure)


def watched(
    run: Callable[[], None], part: SupervisedPart, report: Report, may_end: Callable[[], bool] = lambda: True
) -> Callable[[], None]:
    """Return a thread's ``run`` that reports its end: by an error, or by returning before it ``may_end``."""

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - top of a thread: the report handles every error
            report(part, error)
        else:
            if not may_end():
                report(part, "its thread ended unasked")

    return guarded


class Repeated:
    """A piece of work that one thread repeats. An error of the work is logged, and the next round follows."""

    def __init__(self, name: str, work: Callable[[], object], wait_s: Callable[[], float], failed: str) -> None:
        """Take the work and its schedule.

        Args:
            name: of the thread.
            work: one round; it may block, and may raise.
            wait_s: seconds until the next round.
            failed: the meaning of a failed round, for the log.
        """
        self._name = name
        self._work = work
        self._wait_s = wait_s
        self._failed = failed
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun_s: float | None = None  # when the current round began; None: between rounds

    @property
    def stopped(self) -> bool:
        """Return whether it is to end: long rounds look."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Start the thread; the first round follows the first wait."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, join_s: float = 0.0) -> None:
        """End the thread, and wait up to ``join_s`` seconds for the current round. Works also if it never started."""
        self._stopped.set()
        if self._thread is not None and join_s:
            self._thread.join(join_s)

    def trouble(self) -> str:
        """Return why the work is not done; empty: nothing is known to be in its way."""
        begun_s = self._begun_s
        if begun_s is not None and (lasted_s := time.monotonic() - begun_s) > STUCK_S:
            return f"{self._name} has been busy with one round for {lasted_s:.0f} s: {self._failed}"
        return "" if self.stopped else ended(self._thread, self._failed)

    def _run(self) -> None:
        while not self._stopped.wait(self._wait_s()):
            self._begun_s = time.monotonic()
            try:
                self._work()
            except (ConnectError, LateError) as error:
                log.warning("%s: %s", self._failed, error)
            except Exception:
                log.exception("%s, continuing with the next round", self._failed)
            self._begun_s = None


def ended(thread: threading.Thread | None, failed: str) -> str:
    """Return a line when a thread that was started, and not asked to end, is no more; else nothing."""
    return f"the thread {thread.name} ended: {failed}" if thread is not None and not thread.is_alive() else ""
