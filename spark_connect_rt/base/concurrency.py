"""Threads, waiting and timers, as an argument: how work runs in parallel with the tick, and how it waits.

By default they are the machine's own threads. The simulation of the tests passes threads that a seed schedules on
virtual time. Locks that are held only briefly stay ``threading.Lock``: they order accesses, and a thread never waits
for an event while it holds one.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, TypeVar

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched
from spark_connect_rt.errors import as_error

T = TypeVar("T")
NO_THREAD_PAUSE_MS = 1_000


class RunningThread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""


class Condition(Protocol):
    """A lock with waiting, as ``threading.Condition``."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification, at most ``timeout`` seconds; False: time was up."""

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Wait until ``predicate`` is true, at most ``timeout`` seconds; return its last value."""

    def notify_all(self) -> None:
        """Wake every thread that waits for this condition."""


class Event(Protocol):
    """A flag with waiting, as ``threading.Event``."""

    def set(self) -> None:
        """Set the event and wake every waiting thread."""

    def is_set(self) -> bool:
        """Return whether it is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it, at most ``timeout`` seconds; return whether it is up."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Make it never happen, if it has not happened yet."""


class Threads(Protocol):
    """Creates threads, conditions, events and timers. Methods may be called on any thread."""

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """Run ``run`` on a separate thread that does not keep the process alive."""

    def condition(self) -> Condition:
        """Return a new condition with its own lock."""

    def event(self) -> Event:
        """Return a new event that is not set."""

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Run ``call`` once after ``delay_ms``, on a separate thread."""


class _Alarms:
    """Every timer of the process: one thread waits for the first of them, and starts each call on a separate thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Alarm] = []  # a heap
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        alarm = _Alarm(time.monotonic() + delay_ms / 1000, next(self._order), call, self)
        with self._changed:
            heapq.heappush(self._waiting, alarm)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="timers", daemon=True)
                self._thread.start()
            self._changed.notify()
        return alarm

    def cancel(self, alarm: _Alarm) -> None:
        with self._changed:
            if alarm in self._waiting:
                self._waiting.remove(alarm)
                heapq.heapify(self._waiting)

    def _run(self) -> None:
        while True:
            call = self._next()
            try:  # on a separate thread: a call that hangs or raises would delay all others
                threading.Thread(target=call, name="timer", daemon=True).start()
            except RuntimeError:  # the machine has no thread left now
                self.later(NO_THREAD_PAUSE_MS, call)

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while not self._waiting or (wait_s := self._waiting[0].due_s - time.monotonic()) > 0:
                self._changed.wait(wait_s if self._waiting else None)
            return heapq.heappop(self._waiting).call


@dataclass(order=True, slots=True)
class _Alarm:
    """One timer; code that still holds it when it was cancelled holds nothing of its call."""

    due_s: float
    order: int
    call: Callable[[], None] = field(compare=False)
    alarms: _Alarms = field(compare=False)

    def cancel(self) -> None:
        self.alarms.cancel(self)
        self.call = _nothing


def _nothing() -> None: ...


class MachineThreads:
    """The machine's own threads, all daemons."""

    def __init__(self) -> None:
        self._timers = _Alarms()

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """Start a daemon thread of the machine and return it."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def condition(self) -> Condition:
        """Return a new ``threading.Condition`` with its own lock."""
        return threading.Condition()

    def event(self) -> Event:
        """Return a new ``threading.Event`` that is not set."""
        return threading.Event()

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Run ``call`` once after ``delay_ms`` on a separate thread of the machine."""
        return self._timers.later(delay_ms, call)


MACHINE_THREADS = MachineThreads()


# Time, as an argument.


class Clock(Protocol):
    """Wall clock and monotonic clock, both ms."""

    def now_ms(self) -> int:
        """Return ms since the epoch."""

    def monotonic_ms(self) -> int:
        """Return the time of a clock that never goes back, ms."""


class SystemClock:
    """Port Clock by the machine's own clocks."""

    def now_ms(self) -> int:
        """Return the machine's wall clock time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the machine's monotonic time in ms. Its zero is arbitrary."""
        return time.monotonic_ns() // 1_000_000


SYSTEM_CLOCK = SystemClock()


# A thread that runs calls one after another: where a connector's own code runs.
#
# A connector that blocks keeps only itself waiting: the tick runs nothing of a connector's. Daemon threads, so that
# one that never returns cannot keep the process alive.


Call = Callable[[], None]


class SerialExecutor:
    """Runs calls in order on one thread. The thread starts with the first call and ends with ``close``."""

    def __init__(
        self, name: str, threads: Threads, report: Report = report_nowhere, linger_s: float | None = None
    ) -> None:
        """``report`` is called with an unexpected error of a call, which ends the thread.

        ``linger_s``: a thread without a call for so long ends, and the next call starts another one, because few of
        thousands are busy. None: it stays.
        """
        self._linger_s = linger_s
        self._name = name
        self._report = report
        self._threads = threads
        self._calls: deque[Call | None] = deque()  # None: the end
        self._thread: RunningThread | None = None
        self._changed = threads.condition()

    def submit(self, call: Call) -> None:
        """Queue a call that raises nothing. Any thread."""
        with self._changed:
            if self._thread is None:
                self._thread = self._threads.start(self._name, watched(self._run, SupervisedPart.HERDER, self._report))
            self._calls.append(call)
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread once everything queued before has run. Does not wait."""
        with self._changed:
            self._calls.append(None)
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; return whether it was reached."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            call()

    def _next(self) -> Call | None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._calls, self._linger_s):
                self._thread = None
                return None
            return self._calls.popleft()


# Answers of requests: a Future gets the result or the error of a call.
#
# The one place where a request's work, plug-in code included, ends: no error passes to the thread that ran it.


def answered(call: Callable[[], T | Future[T]]) -> Future[T]:
    """Return a call's result or error, or those of the Future that it returned."""
    answer: Future[T] = Future()
    answer_by(answer, call)
    return answer


def answer_by(answer: Future[T], call: Callable[[], T | Future[T]]) -> None:
    """Give ``answer`` a call's result or error, or those of the Future that it returned.

    A cancelled answer does not need the call. From here on it cannot be cancelled.
    """
    if not _is_wanted(answer):
        return
    try:
        outcome = call()
    except BaseException as error:  # noqa: BLE001 - the request's failure is its answer, SystemExit of a plug-in too
        answer.set_exception(as_error(error))
        return
    if isinstance(outcome, Future):
        outcome.add_done_callback(lambda done: copy_outcome(done, answer))
    else:
        answer.set_result(outcome)


def copy_outcome(done: Future[T], answer: Future[T]) -> None:
    """Give ``answer`` the result or error of ``done``, unless it was cancelled meanwhile."""
    if not _is_wanted(answer):
        return
    try:
        error = done.exception()
    except CancelledError as cancelled:
        error = cancelled
    if error is not None:
        answer.set_exception(as_error(error))
    else:
        answer.set_result(done.result())


def _is_wanted(answer: Future[T]) -> bool:
    """Return whether an answer may be set; if so it cannot be cancelled any more."""
    return answer.running() or (not answer.cancelled() and answer.set_running_or_notify_cancel())


# Threads for frequent short calls: an idle thread waits a while for the next call.
#
# A port Threads in front of another one. Starting a thread costs its caller a wait for it to come up; thousands of
# connectors that are created in a row would cost the tick one each. Hundreds of calls that come at once run on a few
# threads, one after the other: with a thread each they keep each other, and REST, from the interpreter. While calls
# wait, a thread is added every few ms: a call that never returns keeps its thread, as ever, and no other from running.
# Where the number of threads is limited, calls that hang stop counting. Java has no limit. So a plug-in whose
# ``validate`` never returns takes threads, but it does not stop the worker.
#
# Not a ThreadPoolExecutor, for two reasons. At exit the interpreter joins each of its threads, so a plug-in's call that
# hangs would keep the process. And the tests' simulation schedules threads itself, which takes a port.


KEPT_S, KEPT_MOST = 2.0, 4  # threads that have nothing to do
AT_ONCE, MORE_EACH_MS = 8, 10  # threads that are started without waiting; and then
STUCK_AFTER_MS = 10_000  # between two checks of a full pool: a call that runs at both hangs
NAMED_STUCK = 10
STUCK_MOST = 1_000  # calls that hang and do not count; a thread costs a megabyte of address space

log = logging.getLogger(__name__)


class _Run:
    """One call, as the thread that its caller thinks it has."""

    def __init__(self, name: str, call: Callable[[], None], over: Event) -> None:
        self.name = name
        self.call = call
        self.over = over

    def join(self, timeout: float | None = None) -> None:
        """Wait until the call has ended, at most ``timeout`` seconds."""
        self.over.wait(timeout)

    def is_alive(self) -> bool:
        """Return whether the call has not ended yet."""
        return not self.over.is_set()


class ElasticPool:
    """Runs each call on an idle thread or a new one, and keeps a few idle threads.

    Methods may be called on any thread.
    """

    def __init__(
        self,
        threads: Threads,
        kept_s: float = KEPT_S,
        most: int = KEPT_MOST,
        at_most: int | None = None,
        stuck_after_ms: int = STUCK_AFTER_MS,
    ) -> None:
        """``most``: idle threads that are kept; ``at_most``: threads that there may be, None: as many as calls wait.

        Calls that hang for ``stuck_after_ms``, twice that at most, while others wait do not count towards ``at_most``.
        """
        self._threads = threads
        self._at_most = at_most
        self._stuck_after_ms = stuck_after_ms
        self._running: set[_Run] = set()
        self._suspects: set[_Run] = set()  # that ran at the last check
        self._stuck: set[_Run] = set()
        self._kept_s = kept_s
        self._most = most
        self._changed = threads.condition()
        self._waiting: deque[_Run] = deque()
        self._count = 0  # of threads, idle ones among them
        self._idle = 0
        self._grows = False

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """See Threads. Raises RuntimeError: the machine has no thread left."""
        thread = _Run(name, run, self._threads.event())
        with self._changed:
            if self._idle > len(self._waiting) or self._count - self._idle >= AT_ONCE or self._is_full():
                self._waiting.append(thread)
                self._changed.notify_all()
                self._grow_later()
                return thread
            self._count += 1
        try:
            self._threads.start(name, lambda: self._work(thread))
        except RuntimeError:
            with self._changed:
                self._count -= 1
            raise
        return thread

    def _grow_later(self) -> None:
        """Have a thread added if calls still wait then for one. Under the lock."""
        if not self._grows and self._idle < len(self._waiting):
            self._grows = True
            self._threads.later(self._stuck_after_ms if self._is_full() else MORE_EACH_MS, self._grow)

    def _grow(self) -> None:
        with self._changed:
            self._grows = False
            if self._idle >= len(self._waiting):
                return
            if self._is_full():
                self._note_stuck()
            if self._is_full():
                self._grow_later()
                return
            self._count += 1
            self._grow_later()
        try:
            self._threads.start("brief", lambda: self._work(self._next()))
        except RuntimeError:  # the machine has no thread left now: try again later
            with self._changed:
                self._count -= 1
                self._grow_later()

    def _is_full(self) -> bool:
        return self._at_most is not None and self._count - len(self._stuck) >= self._at_most

    def _note_stuck(self) -> None:
        """Take calls that have run since the last check for hanging. Under the lock."""
        found = sorted((self._suspects & self._running) - self._stuck, key=lambda run: run.name)
        found = found[: STUCK_MOST - len(self._stuck)]
        self._stuck.update(found)
        self._suspects = set(self._running)
        if found:
            names = ", ".join(run.name for run in found[:NAMED_STUCK])
            log.warning(
                "%d calls have not returned for %.0f s while others wait. They keep their threads and do not count "
                "any more: %s",
                len(found),
                self._stuck_after_ms / 1000,
                names if len(found) <= NAMED_STUCK else f"{names} ...",
            )

    def answer(self, name: str, call: Callable[[], T | Future[T]]) -> Future[T]:
        """Run a call that may block; answer with its result or error, or with those of a Future that it returns.

        Raises RuntimeError: the machine has no thread left.
        """
        answer: Future[T] = Future()
        self.start(name, lambda: answer_by(answer, call))
        return answer

    def condition(self) -> Condition:
        """Return a new condition of the port behind this one."""
        return self._threads.condition()

    def event(self) -> Event:
        """Return a new event of the port behind this one."""
        return self._threads.event()

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Run ``call`` once after ``delay_ms`` on a timer of the port behind this one."""
        return self._threads.later(delay_ms, call)

    def _work(self, run: _Run | None) -> None:
        while run is not None:
            threading.current_thread().name = run.name
            with self._changed:
                self._running.add(run)
            try:
                run.call()
            except BaseException:  # SystemExit too: the thread is for the calls that follow
                log.exception("thread=%s a call raised", run.name)
            finally:
                with self._changed:
                    self._running.discard(run)
                    self._stuck.discard(run)
                run.over.set()
            run = self._next()

    def _next(self) -> _Run | None:
        with self._changed:
            if not self._waiting and self._idle < self._most:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting, self._kept_s)
                self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._count -= 1
            return None
