"""One thread looks for all tasks of a process that wait for something new, so that theirs sleep: ``idle_look``.

Five hundred tasks that each woke to check a file fought for the interpreter: 0.13 ms of CPU per check.
Owns who waits, and when checks run. A check that hangs costs its neighbours seconds: another thread takes over,
and every sleeper polls now and then whatever is decided here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.engine.executor.hosting import Switches

OFTEN_S, RARELY_S = 0.1, 0.5  # at the instants of the monotonic clock that these divide: all tasks share them
RARELY_FROM_S = 0.2  # a task that would wait so long is checked RARELY
OWN_POLL_S = {OFTEN_S: 10.0, RARELY_S: 30.0}  # then a sleeper polls, though nothing was seen
HANGS_S = 5.0
log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Sleeper:
    look: IdleLook
    wake: Callable[[], None]
    each_s: float


class IdlePoller:
    """The checks of one process. Any thread, unless a method names one."""

    def __init__(self) -> None:
        """Start empty; the thread starts with the first sleeper."""
        self._changed = threading.Condition()  # of the following
        self._sleepers: dict[float, dict[_Sleeper, None]] = {OFTEN_S: {}, RARELY_S: {}}
        self._thread: threading.Thread | None = None
        self._looking: tuple[_Sleeper, float] | None = None  # the check in progress, since when

    def wait(self, switches: Switches, look: IdleLook, wait_s: float) -> None:
        """Sleep until a check says yes, a switch turns, a nudge, or for long; a task's own thread.

        ``wait_s``: after so long the task itself would look.
        """
        each_s = RARELY_S if wait_s >= RARELY_FROM_S else OFTEN_S
        sleeper = _Sleeper(look, switches.nudge, each_s)
        if not self._add(sleeper):
            switches.wait(wait_s)
            return
        try:
            switches.wait(OWN_POLL_S[each_s])
        finally:
            with self._changed:
                self._drop(sleeper)

    def check(self, now_s: float) -> None:
        """Continue without a check that hangs: its task is woken, and finds out by itself. Call it every second."""
        with self._changed:
            if self._looking is None or now_s - self._looking[1] < HANGS_S:
                return
            hanging = self._looking[0]
            self._drop(hanging)
            log.warning("a poll of an idle task hangs, so the others continue in another thread")
            self._start()
        hanging.wake()

    def _add(self, sleeper: _Sleeper) -> bool:
        """Take one in; return whether it is checked here."""
        with self._changed:
            ring = self._sleepers[sleeper.each_s]
            ring[sleeper] = None
            if self._thread is None or not self._thread.is_alive():
                return self._start()
            if len(ring) == 1:  # else its next instant is waited for as it is
                self._changed.notify_all()
            return True

    def _drop(self, sleeper: _Sleeper) -> None:
        self._sleepers[sleeper.each_s].pop(sleeper, None)

    def _start(self) -> bool:
        """Start a thread in the place of the one there may be; False: there are no more, each task looks for itself."""
        self._thread, self._looking = threading.Thread(target=self._run, name="idle-looks", daemon=True), None
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
            return False
        return True

    # -- its thread

    def _run(self) -> None:
        while (due := self._due()) is not None:
            for sleeper in due:
                if self._is_mine() and sleeper in self._sleepers[sleeper.each_s]:
                    self._look(sleeper)

    def _due(self) -> list[_Sleeper] | None:
        """Wait for the next instant with sleepers; return them. None: another thread has taken over."""
        with self._changed:
            while self._is_mine():
                each_s = self._pace_s()
                if each_s is None:
                    self._changed.wait()
                    continue
                at_s = (int(time.monotonic() / each_s) + 1) * each_s
                if self._changed.wait_for(partial(self._is_over, each_s), at_s - time.monotonic()):
                    continue
                often = list(self._sleepers[OFTEN_S])
                shared = each_s == RARELY_S or round(at_s / OFTEN_S) % round(RARELY_S / OFTEN_S) == 0
                return [*often, *self._sleepers[RARELY_S]] if shared else often
            return None

    def _pace_s(self) -> float | None:
        """Return how often to look for the sake of the most eager sleeper; None: there is none."""
        return next((each_s for each_s, ring in self._sleepers.items() if ring), None)

    def _is_over(self, each_s: float) -> bool:
        return not self._is_mine() or self._pace_s() != each_s

    def _is_mine(self) -> bool:
        return self._thread is threading.current_thread()

    def _look(self, sleeper: _Sleeper) -> None:
        """Look once, and wake the task where it says yes. Without the lock: it would be half of the price."""
        self._looking = sleeper, time.monotonic()
        try:
            found = sleeper.look()
        except BaseException:  # noqa: BLE001 - the task's poll meets it, too
            found = True
        if not self._is_mine():  # it took too long: the task was woken
            return
        self._looking = None
        if found:
            with self._changed:
                self._drop(sleeper)
            sleeper.wake()


IDLE_POLLER = IdlePoller()
