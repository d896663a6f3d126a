"""Threads, time and processes of a simulation: one OS thread, one virtual clock, one seed (port Threads).

Owns: the order of threads (``Scheduler``), and which threads live, freeze and die together (``SimulatedProcess``).
Blocking code runs unchanged on greenlets; a thread yields only where it waits. Time passes only when no thread can run.
"""

from __future__ import annotations

import heapq
import itertools
import random
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

T = TypeVar("T")
Call = Callable[[], object]

MOST_AT_ONCE = 20_000  # steps without time passing
WALL_CLOCK_START_MS = 1_750_000_000_000


class Alarm:
    """A call that is due at a time (port Timer)."""

    __slots__ = ("at_ms", "call")

    def __init__(self, at_ms: int, call: Call) -> None:
        self.at_ms, self.call = at_ms, call

    def cancel(self) -> None:
        """Cancel the call, if it has not run yet."""
        self.call = _nothing


class Scheduler:
    """Decides which thread runs next and when time passes (port Clock)."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.at_ms = 0
        self.steps = 0
        self._at_once = 0
        self.failures: list[BaseException] = []  # errors that threads raised and did not catch
        self.current: SimulatedThread | None = None
        self._ready: list[Call] = []
        self._alarms: list[tuple[int, int, Alarm]] = []  # compared by time, then by order of asking
        self._order = itertools.count()
        self.main = getcurrent()

    def now_ms(self) -> int:
        """Return the virtual time in ms since the epoch."""
        return WALL_CLOCK_START_MS + self.at_ms

    def monotonic_ms(self) -> int:
        """Return the virtual time in ms since the start."""
        return self.at_ms

    def between(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, by the seed."""
        return low + int(self.rng.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with a probability, by the seed."""
        return self.rng.random() < probability

    def later(self, delay_ms: int, call: Call) -> Alarm:
        """Call after ``delay_ms`` of virtual time, even if the caller's process has died."""
        at_ms = self.at_ms + delay_ms if delay_ms > 0 else self.at_ms
        alarm = Alarm(at_ms, call)
        heapq.heappush(self._alarms, (at_ms, next(self._order), alarm))
        return alarm

    def soon(self, call: Call) -> None:
        """Call at this very time, in an order the seed decides."""
        self._ready.append(call)

    def step(self) -> bool:
        """Let one thread run to where it waits, or let time pass to the next alarm; False: nothing is left."""
        self.steps += 1
        self._at_once += 1
        if self._at_once > MOST_AT_ONCE:
            raise AssertionError(f"livelock: {MOST_AT_ONCE} steps at {self.at_ms} ms, and time does not pass")
        ready = self._ready
        if ready:
            chosen = int(self.rng.random() * len(ready))
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
            ready.pop()()
        else:
            alarms = self._alarms
            while alarms and alarms[0][2].call is _nothing:
                heapq.heappop(alarms)
            if not alarms:
                return False
            at_ms, _, alarm = heapq.heappop(alarms)
            if at_ms > self.at_ms:
                self.at_ms, self._at_once = at_ms, 0
            alarm.call()
        if self.failures:
            raise self.failures[0]
        return True

    def give_way(self) -> None:
        """Return to the scheduler from a thread, which resumes when it is runnable again."""
        thread = self.current
        assert thread is not None
        self.main.switch()
        if not thread.process.alive:
            raise GreenletExit


class SimulatedThread:
    """A thread of a process (port RunningThread)."""

    def __init__(self, process: SimulatedProcess, name: str, run: Callable[[], None]) -> None:
        self.process = process
        self.name = name
        self.wait_number = 0  # identifies the current wait: a wake-up for an older one is ignored
        self.notified = False
        self._scheduler = process.scheduler
        self._run = run
        self._ended = False
        self._end = Condition(process)
        self._greenlet = greenlet(self._body, process.scheduler.main)
        process.make_ready(self.resume)

    def is_alive(self) -> bool:
        """Return whether the thread has not ended yet."""
        return not self._ended

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most ``timeout`` seconds of virtual time."""
        self._end.wait_for(lambda: self._ended, timeout)

    def resume(self) -> None:
        """Run on, from the scheduler."""
        self._scheduler.current = self
        self._greenlet.switch()
        self._scheduler.current = None

    def unwind(self) -> None:
        """End the thread where it waits. Otherwise its greenlet keeps its stack, with all objects on it, forever."""
        if not self._greenlet.dead:
            self._greenlet.throw(GreenletExit)

    def where(self) -> str:
        """Return its name and the innermost lines of its stack that are not this module's."""
        frames = traceback.extract_stack(self._greenlet.gr_frame) if self._greenlet.gr_frame else []
        lines = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames if f.filename != __file__]
        return f"{self.name}: {' < '.join(reversed(lines[-5:]))}"

    def wake(self, wait_number: int, notified: bool) -> None:
        """End a wait, unless it is over."""
        if self.wait_number == wait_number:
            self.wait_number += 1
            self.notified = notified
            self.process.make_ready(self.resume)

    def _body(self) -> None:
        try:
            self._run()
        except GreenletExit:
            return
        except BaseException as error:  # noqa: BLE001 - top of the thread: the schedule ends with it
            self._scheduler.failures.append(error)
        self._ended = True
        self._end.notify_all()


class Condition:
    """Port Condition. Taking its lock never waits: a thread gives way nowhere else but in ``wait``."""

    __slots__ = ("_process", "_waiting")

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process
        self._waiting: list[tuple[SimulatedThread, int]] = []

    def __enter__(self) -> bool:
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified, at most ``timeout`` seconds of virtual time. Returns whether it was notified."""
        scheduler = self._process.scheduler
        thread = scheduler.current
        if not self._process.alive:
            raise GreenletExit  # a ``finally`` of a dead thread, run when its greenlet is thrown away
        if thread is None:
            raise AssertionError("only a simulated thread may wait")
        number = thread.wait_number
        self._waiting.append((thread, number))
        alarm = None
        if timeout is not None:
            alarm = scheduler.later(int(timeout * 1000 + 0.999), lambda: thread.wake(number, False))
        scheduler.give_way()
        if alarm is not None:
            alarm.cancel()
        return thread.notified

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Wait until the predicate holds, at most ``timeout`` seconds of virtual time. Returns its last result."""
        scheduler = self._process.scheduler
        end_ms = None if timeout is None else scheduler.at_ms + int(timeout * 1000 + 0.999)
        while not (result := predicate()):
            left_ms = None if end_ms is None else end_ms - scheduler.at_ms
            if left_ms is not None and left_ms <= 0:
                break
            self.wait(None if left_ms is None else left_ms / 1000)
        return result

    def notify_all(self) -> None:
        """Wake every thread that waits for this condition."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for thread, number in waiting:
                thread.wake(number, True)


class Event:
    """Implements the port Event on virtual time."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._changed = Condition(process)
        self._up = False

    def set(self) -> None:
        """Set the event and wake every waiting thread."""
        self._up = True
        self._changed.notify_all()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        return self._up

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most ``timeout`` seconds of virtual time. Returns whether it is set."""
        return self._changed.wait_for(lambda: self._up, timeout)


class SimulatedProcess:
    """Threads that live, freeze (SIGSTOP) and die (SIGKILL) together (port Threads)."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive = True
        self.frozen = False
        self._parked: list[Call] = []  # threads that could run, were the process not frozen
        self._arrived: deque[Call] = deque()  # calls that arrived over the network meanwhile, in order
        self._threads: list[SimulatedThread] = []
        self._widows: list[Call] = []

    def when_killed(self, call: Call) -> None:
        """Call when it is killed: its connections end then."""
        self._widows.append(call)

    def start(self, name: str, run: Callable[[], None]) -> SimulatedThread:
        """Start a simulated thread in this process."""
        thread = SimulatedThread(self, f"{self.name}/{name}", run)
        self._threads.append(thread)  # kept: a greenlet that is collected while it waits would run its handlers
        return thread

    def condition(self) -> Condition:
        """Return a new condition for threads of this process."""
        return Condition(self)

    def event(self) -> Event:
        """Return a new event for threads of this process."""
        return Event(self)

    def later(self, delay_ms: int, call: Callable[[], None]) -> Alarm:
        """Call in this process after ``delay_ms`` of virtual time."""
        return self.scheduler.later(delay_ms, lambda: self.arrive(call))

    def unwind(self) -> None:
        """Free a dead process's memory, once it can disturb no running thread. Call it outside of any thread."""
        for thread in self._threads:
            thread.unwind()
        self._threads.clear()

    def stacks(self) -> list[str]:
        """Return where each thread waits, to find deadlocks."""
        return [thread.where() for thread in self._threads if thread.is_alive()]

    def make_ready(self, resume: Call) -> None:
        """Let a thread run on when its turn comes."""
        if self.frozen:
            self._parked.append(resume)
        elif self.alive:
            self.scheduler.soon(lambda: self._turn(resume))

    def _turn(self, resume: Call) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._parked.append(resume)
        else:
            resume()

    def arrive(self, call: Call) -> None:
        """Run a call from outside: at once, or in order after a freeze; never in a dead process."""
        if not self.alive:
            return
        if self.frozen or self._arrived:
            self._arrived.append(call)
        else:
            call()

    def freeze(self) -> None:
        """Freeze the process, as SIGSTOP does."""
        self.frozen = True

    def thaw(self) -> None:
        """Resume the process, as SIGCONT does: threads run, and queued arrivals are delivered."""
        self.frozen = False
        parked, self._parked = self._parked, []
        for resume in parked:
            self.make_ready(resume)
        if self._arrived:
            self.scheduler.soon(self._take_in)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, not even a ``finally``."""
        self.alive = self.frozen = False
        widows, self._widows = self._widows, []
        for call in widows:
            call()
        self._parked.clear()
        self._arrived.clear()

    def _take_in(self) -> None:
        if self.frozen or not self._arrived:
            return
        self._arrived.popleft()()
        if self._arrived:
            self.scheduler.soon(self._take_in)


def _nothing() -> Any:
    return None
