"""The last events of this worker, in memory: a RecordEvent, and what ``/admin/events`` of any worker reads.

Owns their ids and bounds. Each kind has its own bounds, so that ten thousand tasks that start do not push out the
rebalance that made them.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.json_text import decode_quick_json, encode_quick_json, tellable
from spark_connect_rt.runtime.group_events import KINDS, NOTHING, GroupEvent

EVENTS_PER_KIND = 1_000
BYTES_PER_KIND = 1024 * 1024
SUMMARY_LIMIT = 500  # characters
DETAILS_LIMIT = 16 * 1024  # bytes of JSON
EARLY_MOST = 200  # clients of events that are still to come

_NONE: deque[tuple[int, GroupEvent, int]] = deque()

log = logging.getLogger(__name__)


class EventMemory:
    """Events of this worker, oldest first. Any thread."""

    def __init__(self, clock: Clock, worker_id: str) -> None:
        self.worker_id = worker_id
        self._clock = clock
        self.run = secrets.token_hex(4)  # ids of two processes with one address differ
        self._number = 0
        self._lock = threading.Lock()
        self._events: dict[str, deque[tuple[int, GroupEvent, int]]] = {kind: deque() for kind in KINDS}
        self._bytes = dict.fromkeys(KINDS, 0)
        self._kinds: dict[str, str] = {}  # of what is kept, by id
        self._early: dict[str, str] = {}  # key -> who asked for what is not recorded yet

    def __call__(
        self,
        kind: str,
        summary: str,
        *,
        connector: str | None = None,
        task: int | None = None,
        details: Mapping[str, Any] = NOTHING,
        key: str = "",
    ) -> None:
        """Keep one event, bounded in size. Never raises."""
        try:
            text, (shown, length) = _one_line(summary), _bounded(details)
        except Exception:  # the work that it is about continues
            log.exception("an event of kind %s cannot be kept", kind)
            return
        size = 200 + len(text) + length + len(connector or "")  # about what it takes
        with self._lock:
            self._number += 1
            name = key or f"{self.run}-{self._number}"
            who = self._early.pop(name, None)
            event = GroupEvent(name, self._clock.now_ms(), kind, self.worker_id, connector, task, text, shown, who)
            kept = self._events.setdefault(kind, deque())
            kept.append((self._number, event, size))
            self._kinds[name] = kind
            self._bytes[kind] = self._bytes.get(kind, 0) + size
            while len(kept) > EVENTS_PER_KIND or self._bytes[kind] > BYTES_PER_KIND:
                _, oldest, its_size = kept.popleft()
                self._bytes[kind] -= its_size
                self._kinds.pop(oldest.id, None)

    def name_client(self, key: str, who: str) -> None:
        """See ``NameClient``. The event counts as newer then, so that followers read it again."""
        with self._lock:
            kept = self._events.get(self._kinds.get(key, ""), _NONE)
            for at in range(len(kept) - 1, -1, -1):
                _, event, size = kept[at]
                if event.id == key:
                    del kept[at]
                    self._number += 1
                    kept.append((self._number, replace(event, who=_one_line(who)), size))
                    return
            self._early[key] = _one_line(who)
            while len(self._early) > EARLY_MOST:
                del self._early[next(iter(self._early))]

    def last_number(self) -> int:
        """Return the number of the last event."""
        with self._lock:
            return self._number

    def events(self) -> Sequence[GroupEvent]:
        """Return a copy of what is kept, in no particular order."""
        with self._lock:
            return [event for kept in self._events.values() for _, event, _ in kept]

    def after(self, number: int, limit: int) -> tuple[int, Sequence[GroupEvent]]:
        """Return the events recorded behind the ``number``-th, oldest first, at most ``limit``; and the last's number.

        With number 0, return the newest: older ones are of no use to a reader that asks first.
        """
        with self._lock:
            found = [(its, event) for kept in self._events.values() for its, event, _ in kept if its > number]
        found.sort(key=lambda entry: entry[0])
        found = found[:limit] if number else found[-limit:]
        return (found[-1][0] if found else number), [event for _, event in found]


def _one_line(text: str) -> str:
    line = tellable(without_secrets(" ".join(text.split())))
    return line if len(line) <= SUMMARY_LIMIT else f"{line[: SUMMARY_LIMIT - 1]}…"


def _bounded(details: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return a copy without secrets, and its length. Long ones give way, so that no event outweighs all others."""
    text = encode_quick_json(_hidden(dict(details)))
    if len(text) > DETAILS_LIMIT:
        instead = {"left_out": f"{len(text)} bytes, of which at most {DETAILS_LIMIT} are kept"}
        return instead, len(instead["left_out"])
    return decode_quick_json(text), len(text)


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return tellable(without_secrets(value))
    if isinstance(value, Mapping):
        return {str(key): _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden(item) for item in value]
    return value
