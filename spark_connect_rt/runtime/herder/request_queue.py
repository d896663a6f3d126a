"""A request of the herder from ``submit`` to its answer.

It reads in the order in which things happen. Any thread adds a request to the queue and gets a Future. The step ``serve
requests`` takes it when it is due and the group is stable. Its action begins a call of an internal topic on another
thread. The step ``collect answers`` brings the outcome back to the tick, which completes the Future.

So the tick reads group events and can stop work however late a broker answers (Java's tick thread waits itself). Calls
run one at a time: no request is judged by a snapshot that a write is about to change.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from spark_connect_rt.base.concurrency import Clock, SerialExecutor, Threads, answer_by, answered, copy_outcome
from spark_connect_rt.base.supervision import Report
from spark_connect_rt.errors import ConnectError, FencedError, ShuttingDownError, TimedOutError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.event_log import EventLog
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict

log = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000


# ---- It waits for its turn ----


@dataclass(order=True, slots=True)
class QueuedRequest(Generic[T]):
    """A request that waits for its turn. ``action`` runs on the tick thread and may return a Future to wait for."""

    due_ms: int
    sequence: int
    what: str = field(compare=False)  # ``create connector a``
    action: Callable[[], T | Future[T]] = field(compare=False)
    answer: Future[T] = field(compare=False)
    needs_group: bool = field(compare=False)
    expires_ms: int = field(compare=False)
    begun: bool = field(default=False, compare=False)

    def run(self, again: Callable[[QueuedRequest[T]], None]) -> None:
        """Run the action and complete the answer, whatever the action raises.

        FencedError means that it had no effect: ``again`` queues the request once more.
        """
        if not self.begin():
            return
        outcome = answered(self.action)
        outcome.add_done_callback(lambda done: self._end(done, again))

    def begin(self) -> bool:
        """Return whether the client still waits. After this call the answer cannot be cancelled."""
        if not self.begun:
            self.begun = self.answer.set_running_or_notify_cancel()
        return self.begun

    def _end(self, done: Future[T], again: Callable[[QueuedRequest[T]], None]) -> None:
        if isinstance(done.exception(), FencedError):
            again(self)
        else:
            copy_outcome(done, self.answer)


class RequestQueue:
    """Requests by due time, then by order of arrival. Any thread fills it, and the tick empties it."""

    def __init__(self, clock: Clock, wakeup: Callable[[], None], limit_ms: int = REQUEST_LIMIT_MS) -> None:
        self._clock = clock
        self._wakeup = wakeup
        self._limit_ms = limit_ms
        self._heaps: dict[bool, list[QueuedRequest[Any]]] = {True: [], False: []}  # by needs_group
        self._none_expires_before_ms: int | None = None  # of the waiting requests; None: nothing has been put since
        self._sequence = itertools.count()
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._heaps.values()))

    def add(
        self, what: str, action: Callable[[], T | Future[T]], *, needs_group: bool = True, delay_ms: int = 0
    ) -> Future[T]:
        """Queue an action and return its future answer. A closed queue answers ShuttingDownError.

        ``needs_group`` False: the action may run during a rebalance.
        """
        answer: Future[T] = Future()
        due_ms = self._clock.monotonic_ms() + delay_ms
        request: QueuedRequest[T] = QueuedRequest(
            due_ms, next(self._sequence), what, action, answer, needs_group, due_ms + self._limit_ms
        )
        self.put(request)
        return answer

    def put(self, request: QueuedRequest[Any]) -> None:
        """Queue a request, for the first time or once more. A closed queue answers ShuttingDownError."""
        with self._lock:
            if not self._closed:
                heapq.heappush(self._heaps[request.needs_group], request)
                before_ms = self._none_expires_before_ms
                self._none_expires_before_ms = min(request.expires_ms, before_ms or request.expires_ms)
                self._wakeup()
                return
        if request.begin():
            request.answer.set_exception(ShuttingDownError("Worker is shutting down"))

    def take_due(self, now_ms: int, group_is_stable: bool, only: str | None = None) -> QueuedRequest[Any] | None:
        """Remove and return the first request that is due and may run now, or None.

        ``only`` limits the answer to a first request with this ``what``.
        """
        with self._lock:
            heaps = self._heaps.values() if group_is_stable else [self._heaps[False]]
            runnable = [heap for heap in heaps if heap and heap[0].due_ms <= now_ms]
            if not runnable:
                return None
            first = min(runnable, key=lambda heap: heap[0])
            if only is not None and first[0].what != only:
                return None
            return heapq.heappop(first)

    def expire(self, now_ms: int, explain: Callable[[], str]) -> None:
        """Answer TimedOutError to every request that waited too long."""
        late: list[QueuedRequest[Any]] = []
        with self._lock:
            if self._none_expires_before_ms is None or now_ms < self._none_expires_before_ms:
                return
            for heap in self._heaps.values():
                late += (request for request in heap if request.expires_ms <= now_ms)
                heap[:] = (request for request in heap if request.expires_ms > now_ms)
                heapq.heapify(heap)
            waiting = itertools.chain(*self._heaps.values())
            self._none_expires_before_ms = min((request.expires_ms for request in waiting), default=None)
        for request in sorted(late):
            if request.begin():
                request.answer.set_exception(TimedOutError(f"Request timed out. {explain()}"))

    def waiting(self) -> list[str]:
        """Return the names of the waiting requests in order."""
        with self._lock:
            return [request.what for request in heapq.merge(*map(sorted, self._heaps.values()))]

    def next_due_ms(self) -> int | None:
        """Return when the first waiting request is due (monotonic ms), or None if the queue is empty."""
        with self._lock:
            return min((heap[0].due_ms for heap in self._heaps.values() if heap), default=None)

    def close(self) -> None:
        """Answer ShuttingDownError to all waiting requests and to every later one."""
        with self._lock:
            self._closed = True
            waiting = self._heaps[True] + self._heaps[False]
            self._heaps = {True: [], False: []}
        for request in sorted(waiting):
            if request.begin():
                request.answer.set_exception(ShuttingDownError("Worker is shutting down"))


# ---- The tick serves it ----


class SharedWrite(Protocol):
    """Requests that wait to be written to the config topic together (``requests.create_connector``)."""

    @property
    def waiting(self) -> int:
        """Return how many requests the next ``write`` writes."""

    @property
    def full(self) -> bool:
        """Return whether no further request may join this write."""

    def write(self) -> None:
        """Begin the write, if any request waits for it."""


class ServeRequests:
    """The step ``serve requests``: runs the actions of due requests while no call of a topic runs."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        queue: RequestQueue,
        calls: TopicCalls,
        explain: Callable[[], str],
        together: str,
        shared: SharedWrite,
    ) -> None:
        """``explain`` completes the message of a timeout. Requests queued as ``together`` may join ``shared``."""
        self._deps = deps
        self._state = state
        self._queue = queue
        self._calls = calls
        self._explain = explain
        self._together = together
        self._shared = shared

    def serve(self, now_ms: int) -> Verdict:
        """Serve until a call of a topic begins or no request may run, then time out requests that waited too long."""
        served = 0
        while not (self._calls.busy or self._shared.full):
            only = self._together if self._shared.waiting else None
            if (request := self._queue.take_due(now_ms, self._may_serve(), only)) is None:
                break
            request.run(self._queue.put)
            served += 1
        served -= self._shared.waiting  # earlier steps have nothing to do for these before they are written
        self._shared.write()
        self._queue.expire(now_ms, self._explain)
        waiting = len(self._queue)
        if waiting and self._calls.busy:
            return Verdict(f"{waiting} requests wait for the config topic", now_ms + 1_000)
        if waiting and not self._may_serve():
            return Verdict(f"{waiting} requests wait for the rebalance", now_ms + 1_000)
        # Earlier steps carry out the decision of a request (a restart): tick again at once.
        return Verdict(wake_at_ms=now_ms if served else self._queue.next_due_ms())

    def _may_serve(self) -> bool:
        state = self._state
        stable = state.resolved and bool(state.member_id) and not state.rejoin_asked
        return stable and (not state.is_leader or self._deps.config_store.may_lead())


# ---- The internal topics answer ----


WORTH_SAYING_MS = 250  # thousands of writes a minute are not news

Done = Callable[[Exception | None, int], None]
"""Takes the call's error (None after success) and the tick's monotonic time in ms. Called on the tick thread."""


@dataclass(slots=True)
class _UnderWay:
    what: str
    done: Done
    looked_at_ms: int | None = None  # the first time
    ended: bool = False
    error: Exception | None = None


class TopicCalls:
    """The step ``collect answers``, and the thread that waits for internal topics so that the tick need not."""

    def __init__(self, threads: Threads, wakeup: Callable[[], None], events: EventLog, report: Report) -> None:
        self._wakeup = wakeup
        self._events = events
        self._thread = SerialExecutor("herder-topics", threads, report)
        self._under_way: _UnderWay | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a call runs or its outcome was not collected yet. Then ``begin`` must wait."""
        return self._under_way is not None or self._closed

    def begin(self, what: str, call: Callable[[], object], done: Done) -> None:
        """Start a call, on the tick thread and only while not ``busy``. ``what`` is Java's name of the stage."""
        assert not self.busy, f"{what}: {self._under_way} is in progress"
        under_way = self._under_way = _UnderWay(what, done)
        self._thread.submit(lambda: self._run(under_way, call))

    def collect(self, now_ms: int) -> Verdict:
        """Pass the outcome of a call that has ended to the caller of ``begin``."""
        under_way = self._under_way
        if under_way is None:
            return NOTHING
        if not under_way.ended:
            if under_way.looked_at_ms is None:
                under_way.looked_at_ms = now_ms
            said_ms = under_way.looked_at_ms + WORTH_SAYING_MS
            return Verdict(f"{under_way.what} is in progress") if now_ms >= said_ms else Verdict("", said_ms)
        self._under_way = None
        under_way.done(under_way.error, now_ms)
        return NOTHING  # later steps of this tick act on the outcome

    def close(self) -> None:
        """End the thread, and answer ShuttingDownError to a call that has not ended. On the tick thread."""
        self._closed = True
        self._thread.close()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.done(under_way.error or ShuttingDownError("Worker is shutting down"), 0)

    def _run(self, under_way: _UnderWay, call: Callable[[], object]) -> None:
        try:
            with self._events.beside(under_way.what):
                call()
        except ConnectError as error:
            under_way.error = error
        except Exception as error:
            log.exception("%s failed", under_way.what)
            under_way.error = error
        under_way.ended = True
        self._wakeup()


class ConfigTopicCalls:
    """Calls of the config topic whose outcome is a request's answer. On the tick thread."""

    def __init__(self, deps: HerderDependencies, state: GroupState, calls: TopicCalls) -> None:
        self._deps = deps
        self._state = state
        self._calls = calls

    def write(self, stage: str, write: Callable[[], None], answer: Callable[[], T]) -> Future[T]:
        """Write on the other thread, and answer once the record was read back.

        The Future raises the error of the write. FencedError: nothing was written.
        """
        promised: Future[T] = Future()

        def done(error: Exception | None, _now_ms: int) -> None:
            try:
                if error is not None:
                    self.not_written(error)
                    raise error
                promised.set_result(answer())
            except Exception as failure:  # noqa: BLE001 - the request's failure is its answer
                promised.set_exception(failure)

        self._calls.begin(stage, write, done)
        return promised

    def read(self, then: Callable[[], T | Future[T]]) -> Future[T]:
        """Read the topic to its end on the other thread, and answer with the result of ``then`` on the tick."""
        promised: Future[T] = Future()

        def done(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                promised.set_exception(error)
            else:
                answer_by(promised, then)

        limit_ms = self._deps.settings.worker_sync_timeout_ms
        stage = "reading to the end of the config topic"
        self._calls.begin(stage, lambda: self._deps.config_store.refresh(limit_ms), done)
        return promised

    def not_written(self, error: Exception) -> None:
        """Stop leading after a FencedError. The record may be in the topic, so task sets wait until it was read."""
        if isinstance(error, FencedError):
            self._state.stop_leading()
        self._state.unsure = True
