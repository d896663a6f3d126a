"""Writes the history on its own thread, so that a topic that is away delays no request.

Owns the thread, and the last check of each change before it is recorded: secrets out, what is recorded already dropped,
what was changed while no worker of ours looked. It takes every change at once. Changes that cannot be written wait, up
to a number, and ``problem`` reports them.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.history.store import Draft, HistoryStore
from spark_connect_rt.rest.change_history import CONFIG, LOGGER, OFFSETS, STATE, STATE_NAMES, Change
from spark_connect_rt.runtime.group_events import NameClient, config_event_key, no_client
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DeleteConnector,
    ModifyOffsets,
    PatchConfig,
    PutConfig,
    Request,
    SetGroupLoggerLevel,
    SetTargetState,
)
from spark_connect_rt.topics.config_diff import DeclaredSettings, changed_unseen, hidden_settings, shown
from spark_connect_rt.topics.config_state import ConfigChange
from spark_connect_rt.topics.offset_changes import OffsetsChanged

# Changes that were seen and are not recorded yet, and who asked for them.
#
# Owns which worker of a group records a change, and when. The worker that served it records it at once. A worker that
# passed it on does so a little later, unless it is recorded by then. The leader records those that no worker of ours
# served. Every other worker does so much later, in case the leader is a Java worker or gone. So each is recorded once,
# or twice at the same position, of which the store counts one. No clock, no thread: the caller has them.


PASSED_ON_MS, LEADER_MS, OTHERS_MS = 3_000, 5_000, 20_000
KNOWN_FOR_MS = 15_000  # an answer may come before the change is read here
MOST = 2_000  # waiting changes; the oldest are given up first


@dataclass(frozen=True, slots=True)
class ObservedChange:
    """A change as it was seen, secrets included.

    Attributes:
        position: in the config topic; None: it is not of that topic, and other workers do not see it.
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
class RequestedBy:
    """The user and worker that asked for a change."""

    who: str
    note: str
    here: bool


@dataclass(slots=True)
class PendingEntry:
    """One change on its way to the record."""

    seen: ObservedChange
    due_ms: int  # monotonic
    asked: RequestedBy | None = None


@dataclass(slots=True)
class _Answered:
    kind: str
    connector: str
    after: Any
    asked: RequestedBy
    at_ms: int  # monotonic


@dataclass(slots=True)
class UnrecordedChanges:
    """The changes that wait to be recorded. Not thread-safe."""

    others_extra_ms: int = 0  # this worker's share of a spread, so that not all write at once
    name_client: NameClient = no_client
    waiting: list[PendingEntry] = field(default_factory=list)
    given_up: int = 0
    _held_until_ms: int = 0  # monotonic: nothing overtakes what could not be recorded
    _answered: list[_Answered] = field(default_factory=list)

    def see(self, seen: ObservedChange, now_ms: int, is_leader: bool) -> None:
        """Take a change that was made."""
        mine = seen.position is None
        delay_ms = LEADER_MS if mine or is_leader else OTHERS_MS + self.others_extra_ms
        entry = PendingEntry(seen, now_ms + delay_ms)
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

    def answered(self, request: Request[Any], asked: RequestedBy, now_ms: int) -> None:
        """Take that a request was answered, here or by another worker."""
        for kind, connector, after in _described(request):
            found = (entry for entry in reversed(self.waiting) if _fits(entry, kind, connector, after))
            if (entry := next(found, None)) is not None:
                self._attribute(entry, asked, now_ms)
            else:
                self._answered.append(_Answered(kind, connector, after, asked, now_ms))
        del self._answered[:-MOST]

    def take_due(self, now_ms: int) -> list[PendingEntry]:
        """Remove and return what is to be recorded now, in the order in which it was seen."""
        if now_ms < self._held_until_ms:
            return []
        due = [entry for entry in self.waiting if entry.due_ms <= now_ms]
        self.waiting = [entry for entry in self.waiting if entry.due_ms > now_ms]
        return due

    def put_back(self, those: Sequence[PendingEntry], due_ms: int) -> None:
        """Try these again later: they could not be recorded. Later changes are recorded after them."""
        self._held_until_ms = max(self._held_until_ms, due_ms)
        for entry in those:
            entry.due_ms = due_ms
        self.waiting = [*those, *self.waiting]

    def next_due_ms(self) -> int | None:
        """Return when there is something to record."""
        due_ms = min((entry.due_ms for entry in self.waiting), default=None)
        return None if due_ms is None else max(due_ms, self._held_until_ms)

    def _attribute(self, entry: PendingEntry, asked: RequestedBy, now_ms: int) -> None:
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


def _fits(entry: PendingEntry, kind: str, connector: str, after: Any) -> bool:
    if (entry.seen.kind, entry.seen.connector) != (kind, connector) or entry.asked is not None:
        return False
    if after is _ANY:
        return True
    return entry.seen.after is not None if after is _SOMETHING else entry.seen.after == after


# When the history is written: at once, or what comes within a moment together.
#
# Pure. A write of the history asks for the end of its topic, appends, and reads back. A write for each of thousands of
# connectors that are created in a row would cost as much as the rest of their creation.


AT_ONCE, WITHIN_S = 5, 0.5  # so many writes in so short a time are a run
APART_S = 0.05  # in a run


@dataclass(slots=True)
class WritePace:
    """The writes of one worker. Times are monotonic, s."""

    _begun_s: deque[float] = field(default_factory=lambda: deque(maxlen=AT_ONCE))

    def due_s(self, now_s: float) -> float:
        """Return when what waits may be written."""
        begun = self._begun_s
        if len(begun) < AT_ONCE or now_s - begun[0] >= WITHIN_S:
            return now_s
        return max(now_s, begun[-1] + APART_S)

    def begun(self, now_s: float) -> None:
        """Take note that a write begins."""
        self._begun_s.append(now_s)


RETRY_FIRST_S, RETRY_MAX_S = 2.0, 60.0
FORGET_EVERY_S = 3600.0
READ_LIMIT_MS = 10_000
WRITE_MOST = 200  # changes of one write: those that came during the write before
BUSY_S = 60.0  # one change takes longer than that: something hangs

log = logging.getLogger(__name__)

_ACTIONS_OF_STATES = {"PAUSED": "pause", "STARTED": "resume", "STOPPED": "stop"}


class Recorder:
    """Records the changes that one worker sees. Any thread."""

    def __init__(
        self,
        worker_id: str,
        store: HistoryStore,
        declared: Callable[[Mapping[str, str]], DeclaredSettings],
        is_leader: Callable[[], bool],
        now_ms: Callable[[], int],
        *,
        alone: bool = False,
        delays_ms: int | None = None,
        name_client: NameClient = no_client,
    ) -> None:
        """``alone``: there is no group, and positions mean nothing. ``declared`` runs plug-in code.

        ``name_client`` learns who asked for a change, for its event.
        """
        self._worker_id = worker_id
        self._store = store
        self._declared = declared
        self._is_leader = is_leader
        self._now_ms = now_ms
        self._alone = alone
        self._changed = threading.Condition()
        extra_ms = zlib.crc32(worker_id.encode()) % 10_000 if delays_ms is None else delays_ms
        self._name_client = name_client
        self._pending = UnrecordedChanges(extra_ms, name_client)
        # Read at the start, the last of each kind: which of them are new, the history says.
        self._unread: dict[tuple[str, str], ObservedChange] = {}
        self._stopping = False
        self._busy_since: float | None = None
        self._pace = WritePace()
        self._readers = 0  # that wait for what is not written yet: it is written at once
        self._looks_at_s = 0.0  # monotonic: when the thread looks by itself
        self._retry_s = RETRY_FIRST_S
        self._forget_at = time.monotonic() + FORGET_EVERY_S
        self._problem = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what can be written at once, then no more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(5.0)

    @property
    def problem(self) -> str:
        """Return why what was changed may not be recorded; empty: nothing is in the way."""
        since, thread = self._busy_since, self._thread
        lines = [self._problem]
        if since is not None and time.monotonic() - since > BUSY_S:
            lines.append(f"a change has not been written to the history for {time.monotonic() - since:.0f} s")
        if thread is not None and not thread.is_alive() and not self._stopping:
            lines.append("the thread that writes the history has ended")
        if self._pending.given_up:
            lines.append(f"{self._pending.given_up} changes were discarded because too many were waiting")
        return "; ".join(filter(None, lines))

    def config_changed(self, change: ConfigChange) -> None:
        """Take a change of the config topic; returns at once."""
        seen = _seen(change, self._now_ms(), alone=self._alone)
        with self._changed:
            if seen.is_live:
                self._pending.see(seen, _monotonic_ms(), self._is_leader())
                self._wake()
            elif not self._alone and change.kind != LOGGER:
                self._unread[seen.connector, seen.kind] = seen

    def offsets_changed(self, change: OffsetsChanged) -> None:
        """Take a change of offsets that this worker carried out; returns at once."""
        before, after = _offsets(change.before), _offsets(change.after)
        seen = ObservedChange(
            OFFSETS, change.connector, change.action, before, after, self._now_ms(), event_key=change.key
        )
        with self._changed:
            self._pending.see(seen, _monotonic_ms(), self._is_leader())
            self._changed.notify_all()

    def served(self, request: Request[Any], asked: RequestedBy) -> None:
        """Take that a request was answered; returns at once."""
        with self._changed:
            self._pending.answered(request, asked, _monotonic_ms())
            self._wake()

    def record(self, seen: ObservedChange, asked: RequestedBy) -> None:
        """Take a change that only this worker knows of; returns at once."""
        self._name_client(seen.event_key, asked.who)
        with self._changed:
            self._pending.put_back([PendingEntry(seen, _monotonic_ms(), asked)], _monotonic_ms())
            self._changed.notify_all()

    def await_written(self, timeout_s: float) -> None:
        """Wait until what this worker served is recorded, or cannot be."""
        with self._changed:
            self._readers += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: not self._is_writing(), timeout_s)
            finally:
                self._readers -= 1

    def _wake(self) -> None:
        """Have the thread look, unless it will in time: of what thousands of creations bring it takes much at once."""
        now_s = time.monotonic()
        if now_s + self._due_in_s(now_s) < self._looks_at_s:
            self._changed.notify_all()

    def _is_writing(self) -> bool:
        due_ms = self._pending.next_due_ms()
        return not self._problem and (
            self._busy_since is not None or (due_ms is not None and due_ms <= _monotonic_ms())
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._await_work()
                due = self._pending.take_due(_monotonic_ms())
                stopping = self._stopping
                self._busy_since = time.monotonic()
                if due:
                    self._pace.begun(self._busy_since)
            try:
                self._work(due)
            except Exception as error:  # noqa: BLE001 - the top of the thread: Connect's own API needs none of this
                self._failed(due, error)
            with self._changed:
                self._busy_since = None
                self._changed.notify_all()
            if stopping:
                return

    def _await_work(self) -> None:
        """Wait until something is due, a second at most: whether this worker leads is looked at then."""
        now_s = time.monotonic()
        end_s = now_s + 1.0
        while not self._stopping and (wait_s := min(self._due_in_s(now_s), end_s - now_s)) > 0:
            self._looks_at_s = now_s + wait_s
            self._changed.wait(wait_s)
            now_s = time.monotonic()
        self._looks_at_s = 0.0  # it is awake

    def _due_in_s(self, now_s: float) -> float:
        due_ms = self._pending.next_due_ms()
        if due_ms is None:
            return 1.0
        due_in_s = due_ms / 1000 - now_s
        return due_in_s if self._readers else max(due_in_s, self._pace.due_s(now_s) - now_s)

    def _work(self, due: list[PendingEntry]) -> None:
        if self._unread and self._is_leader():
            due[:0] = self._missed()
        while due:
            together = next((n for n, entry in enumerate(due) if not self._goes_with_others(entry)), len(due))
            some = due[: max(1, min(together, WRITE_MOST))]
            self._write(some)
            del due[: len(some)]
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_EVERY_S
            if self._is_leader() and self._store.refresh(READ_LIMIT_MS):
                self._store.forget_excess()
        if self._problem and self._pending.next_due_ms() is None:
            self._problem, self._retry_s = "", RETRY_FIRST_S

    def _failed(self, due: list[PendingEntry], error: Exception) -> None:
        if not isinstance(error, ConnectError):
            log.exception("the history cannot be written")
        elif not self._problem:
            log.warning("the history cannot be written, retrying: %s", error)
        with self._changed:
            self._problem = f"{len(due)} changes are not recorded yet: {error}"
            self._pending.put_back(due, _monotonic_ms() + int(self._retry_s * 1000))
        self._retry_s = min(RETRY_MAX_S, self._retry_s * 2)

    def _missed(self) -> list[PendingEntry]:
        """Return what was changed since the last change that the history has, while no worker of ours looked."""
        with self._changed:
            unread, self._unread = self._unread, {}
        try:
            if not self._store.refresh(READ_LIMIT_MS):
                return []  # there is no history yet: it begins with the next change
        except ConnectError:
            with self._changed:
                self._unread = unread | self._unread
            raise
        first = self._store.first_position()
        missed = []
        for seen in sorted(unread.values(), key=lambda change: change.position or 0):
            last = self._store.last(seen.connector, seen.kind)
            since = last[1] if last is not None and last[1] is not None else first
            if since is None or seen.position is None or seen.position <= since:
                continue
            missed.append(PendingEntry(seen, 0))
        return missed

    def _goes_with_others(self, entry: PendingEntry) -> bool:
        """Return whether its record does not depend on what was recorded a moment before."""
        return entry.seen.is_live and not self._alone

    def _write(self, some: Sequence[PendingEntry]) -> None:
        drafts = []
        served_elsewhere = [entry.asked is None or not entry.asked.here or self._alone for entry in some]
        if any(served_elsewhere):
            self._store.refresh(READ_LIMIT_MS)
        for entry, elsewhere in zip(some, served_elsewhere, strict=True):
            seen = entry.seen
            change = None if elsewhere and self._is_recorded(seen) else self._change(seen, entry.asked)
            if change is not None:
                drafts.append(Draft(change, seen.position))
        if drafts:
            self._store.append(drafts)
            self._problem, self._retry_s = "", RETRY_FIRST_S

    def _is_recorded(self, seen: ObservedChange) -> bool:
        position = seen.position
        return position is not None and self._store.is_recorded(seen.connector, seen.kind, position)

    def _change(self, seen: ObservedChange, asked: RequestedBy | None) -> Change | None:
        seen = _as_recorded(seen)
        before, after, action = seen.before, seen.after, seen.action
        unseen: tuple[str, ...] = ()
        if seen.kind == CONFIG:
            before, after, unseen = self._without_secrets(before, after)
        if not seen.is_live or self._alone:
            last = self._store.last(seen.connector, seen.kind)
            before = last[0].after if last is not None else before
            if before == after and not unseen:
                return None
            action = _config_action(before, after) if seen.kind == CONFIG else action
        if before is None and after is None and seen.kind != OFFSETS:
            return None
        who, worker = (asked.who, self._worker_id if asked.here else None) if asked else (None, None)
        note = without_secrets(asked.note) if asked else "seen in the config topic: no worker of this product served it"
        if asked is None and seen.position is None:
            note = ""
        return Change(
            0, seen.at_ms, seen.connector, seen.kind, action, who, worker, before, after, note, seen.state, unseen
        )

    def _without_secrets(
        self, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None, tuple[str, ...]]:
        hidden_before = hidden_settings(before, self._declared(before)) if before is not None else frozenset()
        hidden_after = hidden_settings(after, self._declared(after)) if after is not None else frozenset()
        hidden = hidden_before | hidden_after
        return (
            None if before is None else shown_safely(before, hidden),
            None if after is None else shown_safely(after, hidden),
            changed_unseen(before, after, hidden),
        )


def shown_safely(config: Mapping[str, str], hidden: frozenset[str]) -> dict[str, str]:
    """Return a configuration without hidden settings, nor any secret that this process knows."""
    known = {name for name, value in config.items() if name not in hidden and without_secrets(value) != value}
    return shown(config, hidden | known)


def _seen(change: ConfigChange, now_ms: int, *, alone: bool) -> ObservedChange:
    at_ms = change.at_ms if change.at_ms > 0 else now_ms
    position = None if alone else change.position
    name, before, after, state, action = change.name, change.before, change.after, None, "set"
    if change.kind == CONFIG:
        state, action = STATE_NAMES.get(change.state or ""), _config_action(before, after)
    elif change.kind == STATE:
        action = _ACTIONS_OF_STATES.get((after or {}).get("state", ""), "set")
    else:
        name = ""
        before, after = (None if side is None else {"logger": change.name, **side} for side in (before, after))
    key = config_event_key(change.position)
    return ObservedChange(change.kind, name, action, before, after, at_ms, position, state, change.is_live, key)


def _config_action(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if after is None:
        return "delete"
    return "create" if before is None else "update"


def _as_recorded(seen: ObservedChange) -> ObservedChange:
    """Return a change of a target state with the names that users know."""
    if seen.kind != STATE:
        return seen
    return replace(seen, before=_state_word(seen.before), after=_state_word(seen.after))


def _state_word(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if value is None else {"state": STATE_NAMES.get(value["state"], value["state"])}


def _offsets(pairs: Any) -> Mapping[str, Any] | None:
    if pairs is None:
        return None
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)
