"""The event log of the whole group: this worker's events and those of the others, gathered, put together, in order.

Owns what is remembered of other workers' events, also when they are gone, and how views of one event become one. Many
readers cost no more than one: recent events are not asked for again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.group.rebalance_facts import merged, sentence
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.rest.peers import ASK_LIMIT_MS, GroupReads, Unanswered, unanswered
from spark_connect_rt.runtime.group_events import GroupEvent

READ = "events"
FRESH_MS = 900  # events gathered so recently are not asked for again
KEPT_EACH = 4_000  # events of one other worker
KEPT_WORKERS = 50  # other processes whose events are remembered
SENT_AT_ONCE = 2_000  # events in one answer between workers; the rest comes with the next one
LEADER_EACH_S = 10.0  # the leader gathers, so that what a worker saw outlives it
_ALL = 2**53

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    """The events that another worker's process has sent so far."""

    worker_id: str
    number: int = 0  # of its last event that is known here
    last_ms: int = 0
    events: dict[str, GroupEvent] = field(default_factory=dict)


class GroupEvents:
    """Implements operations.events.model.EventReads with reads between workers. Any thread."""

    def __init__(
        self,
        memory: EventMemory,
        reads: GroupReads,
        clock: Clock,
        leads: Callable[[], bool] = lambda: False,
        limit_ms: int = ASK_LIMIT_MS,
    ) -> None:
        """``leads``: whether this worker leads its group; ``limit_ms``: for the answers of the other workers."""
        self._limit_ms = limit_ms
        self._memory = memory
        self._leads = leads
        self.rounds = Repeated(
            "group-events", self._keep, lambda: LEADER_EACH_S, "the events of other workers are not collected any more"
        )
        self._reads = reads
        self._clock = clock
        self._lock = threading.Lock()  # of what is gathered: one asks, the others wait for its answer
        self._seen: dict[str, _Seen] = {}  # run (a process of a worker) -> its events
        self._gathered_ms: int | None = None
        self._mark: object = None
        self._answer: tuple[Sequence[GroupEvent], Sequence[Unanswered]] = ((), ())
        reads.serve(READ, self._serve)

    def _keep(self) -> None:  # a round that fails costs nothing: readers gather for themselves
        if self._leads():
            self.gathered()

    def gathered(self) -> tuple[Sequence[GroupEvent], Sequence[Unanswered]]:
        """Return the group's events in order, and the workers that did not answer. Blocks at most for one read."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._gathered_ms is None or now_ms - self._gathered_ms >= FRESH_MS:
                missing = self._gather()
                mark = (self._memory.last_number(), *((run, seen.number) for run, seen in self._seen.items()))
                if mark != self._mark:  # else it is the very list of before, and readers see that nothing is new
                    self._mark = mark
                    others = [event for seen in self._seen.values() for event in seen.events.values()]
                    self._answer = (in_order([*self._memory.events(), *others]), missing)
                self._answer = (self._answer[0], missing)
                self._gathered_ms = self._clock.monotonic_ms()
            return self._answer

    def _gather(self) -> Sequence[Unanswered]:
        known = {run: seen.number for run, seen in self._seen.items()} | {self._memory.run: _ALL}
        answers = self._reads.ask(READ, {"known": known}, self._limit_ms)
        for answer in answers:
            if answer.worker.this or answer.why:
                continue
            try:
                for said in answer.answer:
                    self._take(said)
            except (LookupError, TypeError, ValueError) as error:
                log.warning("worker=%s: its events cannot be read: %s", answer.worker.worker_id, error)
        while len(self._seen) > KEPT_WORKERS:
            del self._seen[min(self._seen, key=lambda run: self._seen[run].last_ms)]
        return unanswered(answers)

    def _take(self, said: Mapping[str, Any]) -> None:
        run = str(said["run"])
        if run == self._memory.run:
            return
        seen = self._seen.get(run)
        if seen is None:
            seen = self._seen[run] = _Seen(str(said["worker_id"]))
        for shape in said["events"]:
            event = event_of(shape)
            seen.events[event.id] = event
            seen.last_ms = max(seen.last_ms, event.at_ms)
        seen.number = max(seen.number, int(said["number"]))
        while len(seen.events) > KEPT_EACH:
            del seen.events[next(iter(seen.events))]

    def _serve(self, arguments: Mapping[str, Any]) -> Any:
        """Return this worker's events, and what it remembers of workers that are gone."""
        known = arguments.get("known")
        numbers = known if isinstance(known, Mapping) else {}
        after = numbers.get(self._memory.run, 0)
        number, events = self._memory.after(after if isinstance(after, int) else 0, SENT_AT_ONCE)
        said = [_said(self._memory.run, self._memory.worker_id, number, events)]
        present = {worker.worker_id for worker in self._reads.workers()} if self._seen else set()
        for run, seen in list(self._seen.items()):
            if seen.worker_id not in present and run not in numbers:
                events = list(seen.events.values())[-SENT_AT_ONCE:]
                said.append(_said(run, seen.worker_id, seen.number, events))
        return said


def _said(run: str, worker_id: str, number: int, events: Iterable[GroupEvent]) -> dict[str, Any]:
    return {"run": run, "worker_id": worker_id, "number": number, "events": [asdict(event) for event in events]}


def event_of(shape: Mapping[str, Any]) -> GroupEvent:
    """Return an event as another worker sent it. Raises LookupError, TypeError, ValueError: it is invalid."""
    task, details, connector, who = shape["task"], shape["details"], shape["connector"], shape.get("who")
    if not isinstance(details, Mapping):
        raise TypeError("the details of an event must be an object")
    return GroupEvent(
        id=str(shape["id"]),
        at_ms=int(shape["at_ms"]),
        kind=str(shape["kind"]),
        worker_id=str(shape["worker_id"]),
        connector=None if connector is None else str(connector),
        task=None if task is None else int(task),
        summary=str(shape["summary"]),
        details=details,
        who=None if who is None else str(who),
    )


def in_order(events: Iterable[GroupEvent]) -> Sequence[GroupEvent]:
    """Return the events of several workers as those of the group, oldest first: of each id one. Pure."""
    by_id: dict[str, list[GroupEvent]] = {}
    for event in events:
        by_id.setdefault(event.id, []).append(event)
    found = [views[0] if len(views) == 1 else _one_of(views) for views in by_id.values()]
    return sorted(found, key=lambda group_event: (group_event.at_ms, group_event.id))


def _one_of(views: Sequence[GroupEvent]) -> GroupEvent:
    """Return what several workers saw as one event: as of the first of them, with the client that any of them knows."""
    by_time = sorted(views, key=lambda view: (view.at_ms, view.worker_id))
    first = replace(by_time[0], who=next((event.who for event in by_time if event.who is not None), None))
    if first.kind != "rebalance":
        return first
    try:
        details = merged([view.details for view in sorted(views, key=lambda view: view.worker_id)])
        return replace(first, details=details, summary=sentence(details))
    except (LookupError, TypeError) as error:  # of another version
        log.debug("the views of %s cannot be merged: %s", first.id, error)
        return first
