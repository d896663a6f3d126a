"""Changes that were seen and are not recorded yet, and who asked for them.

Owns who of a group records a change, and when: who served it at once; who passed it on a little later, unless it is
there by then; the leader those that no worker of ours served; every other worker much later, should the leader be a
Java worker or gone. So each is recorded once, or twice at the same position, of which the store counts one. No clock,
no thread: the caller has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.rest.change_history import CONFIG, LOGGER, OFFSETS, STATE
from spark_connect_rt.runtime.group_events import NameClient, no_client
from spark_connect_rt.runtime.herder.requests_api import (
    CreateConnector,
    DeleteConnector,
    ModifyOffsets,
    PatchConfig,
    PutConfig,
    Request,
    SetGroupLoggerLevel,
    SetTargetState,
)

PASSED_ON_MS, LEADER_MS, OTHERS_MS = 3_000, 5_000, 20_000
KNOWN_FOR_MS = 15_000  # an answer may come before the change is read here
MOST = 2_000  # waiting changes; the oldest are given up first


@dataclass(frozen=True, slots=True)
class Seen:
    """A change as it was seen, secrets included.

    Attributes:
        position: in the config topic; None: it is not of that topic, and nobody else sees it.
        is_live: False: it was made before this worker read the topic.
        event_key: of the event of the same change.
    """

    kind: str
    connector: str
    action: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    at_ms: int
    position: int | None = None
    state: str | None = None
    is_live: bool = True
    event_key: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for a change."""

    who: str
    note: str
    here: bool


@dataclass(slots=True)
class Waiting:
    """One change on its way to the record."""

    seen: Seen
    due_ms: int  # monotonic
    asked: Asked | None = None


@dataclass(slots=True)
class _Answered:
    kind: str
    connector: str
    after: Any
    asked: Asked
    at_ms: int  # monotonic


@dataclass(slots=True)
class Pending:
    """Not thread-safe."""

    others_extra_ms: int = 0  # this worker's share of a spread, so that not all write at once
    name_client: NameClient = no_client
    waiting: list[Waiting] = field(default_factory=list)
    given_up: int = 0
    _held_until_ms: int = 0  # monotonic: nothing overtakes what could not be recorded
    _answered: list[_Answered] = field(default_factory=list)

    def see(self, seen: Seen, now_ms: int, is_leader: bool) -> None:
        """Take a change that was made."""
        mine = seen.position is None
        delay_ms = LEADER_MS if mine or is_leader else OTHERS_MS + self.others_extra_ms
        entry = Waiting(seen, now_ms + delay_ms)
        self.waiting.append(entry)
        self._answered = [it for it in self._answered if it.at_ms > now_ms - KNOWN_FOR_MS]
        for answer in self._answered:
            if _fits(entry, answer.kind, answer.connector, answer.after):
                self._answered.remove(answer)
                self._attribute(entry, answer.asked, now_ms)
                break
        while len(self.waiting) > MOST:
            del self.waiting[0]
            self.given_up += 1

    def answered(self, request: Request[Any], asked: Asked, now_ms: int) -> None:
        """Take that a request was answered, here or by another worker."""
        for kind, connector, after in _described(request):
            found = (entry for entry in reversed(self.waiting) if _fits(entry, kind, connector, after))
            if (entry := next(found, None)) is not None:
                self._attribute(entry, asked, now_ms)
            else:
                self._answered.append(_Answered(kind, connector, after, asked, now_ms))
        del self._answered[:-MOST]

    def take_due(self, now_ms: int) -> list[Waiting]:
        """Remove and return what is to be recorded now, in the order in which it was seen."""
        if now_ms < self._held_until_ms:
            return []
        due = [entry for entry in self.waiting if entry.due_ms <= now_ms]
        self.waiting = [entry for entry in self.waiting if entry.due_ms > now_ms]
        return due

    def put_back(self, those: Sequence[Waiting], due_ms: int) -> None:
        """Try these again later: they could not be recorded. What comes meanwhile is recorded behind them."""
        self._held_until_ms = max(self._held_until_ms, due_ms)
        for entry in those:
            entry.due_ms = due_ms
        self.waiting = [*those, *self.waiting]

    def next_due_ms(self) -> int | None:
        """Return when there is something to record."""
        due_ms = min((entry.due_ms for entry in self.waiting), default=None)
        return None if due_ms is None else max(due_ms, self._held_until_ms)

    def _attribute(self, entry: Waiting, asked: Asked, now_ms: int) -> None:
        entry.asked = asked
        if entry.seen.event_key:
            self.name_client(entry.seen.event_key, asked.who)
        entry.due_ms = now_ms if asked.here or entry.seen.position is None else now_ms + PASSED_ON_MS


_ANY, _SOMETHING = object(), object()


def _described(request: Request[Any]) -> Sequence[tuple[str, str, Any]]:
    """Return kind, name and what is there after a request, of each change that it makes."""
    match request:
        case CreateConnector(name=name, initial_offsets=offsets) if offsets is not None:
            return [(CONFIG, name, _SOMETHING), (OFFSETS, name, _ANY)]
        case CreateConnector(name=name) | PutConfig(name=name) | PatchConfig(name=name):
            return [(CONFIG, name, _SOMETHING)]
        case DeleteConnector(name):
            return [(CONFIG, name, None)]
        case SetTargetState(name, target):
            return [(STATE, name, {"state": target.value})]
        case SetGroupLoggerLevel(namespace, level):
            return [(LOGGER, "", {"logger": namespace, "level": level})]
        case ModifyOffsets(name=name):
            return [(OFFSETS, name, _ANY)]
    return ()


def _fits(entry: Waiting, kind: str, connector: str, after: Any) -> bool:
    if (entry.seen.kind, entry.seen.connector) != (kind, connector) or entry.asked is not None:
        return False
    if after is _ANY:
        return True
    return entry.seen.after is not None if after is _SOMETHING else entry.seen.after == after
