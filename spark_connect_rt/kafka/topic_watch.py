"""Which topics that a consumer named are not there (yet), and when to look for them again. Pure: time is given.

Java's consumer asks for the metadata of its topics again every ``retry.backoff.ms`` as long as one of them is unknown;
librdkafka asks once, and then when ``metadata.max.age.ms`` has passed. So a member that named a topic before it was
created would be given it five minutes later. Source: Java ``Metadata.handleMetadataResponse`` (an unknown topic asks
for another update), ``ExponentialBackoff`` (100 ms to 1 s).

A look asks for a few names. A listing asks for all topics, and only that makes librdkafka think its subscription over:
so one follows each find. A name is believed to be known to librdkafka once a partition of it is held or a listing
showed it; those for which neither happened for a while are listed once, since one may have come between two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from spark_connect_rt.base.backoff import Backoff

LISTED_AFTER_MS = 5_000  # a group's first assignment may take three seconds (group.initial.rebalance.delay.ms)
MOST_LOOKED_FOR = 50  # names a look asks for one by one; with more missing all topics are listed


class TopicWatch:
    """The topics of one consumer. All times are monotonic ms."""

    def __init__(self, retry_ms: int, retry_max_ms: int, chance: Callable[[], float]) -> None:
        """Take Java's ``retry.backoff.ms`` and ``retry.backoff.max.ms``: the waits double from one to the other.

        ``chance`` gives that of each wait, see ``Backoff.wait``.
        """
        self._backoff = Backoff(max(1, retry_ms), max(1, retry_ms, retry_max_ms))
        self._chance = chance
        self._failures = 1  # looks in a row that found nothing new
        self._doubted: dict[str, int] = {}  # name -> when it must have been seen, else all topics are listed
        self._missing: set[str] = set()  # not there when last looked for
        self._suspected: set[str] = set()  # held, and perhaps deleted: librdkafka would notice late
        self._look_at_ms: int | None = None

    @property
    def missing(self) -> frozenset[str]:
        """Return the names that were not there when last looked for."""
        return frozenset(self._missing)

    def doubt(self, names: Iterable[str], now_ms: int) -> None:
        """Take these for unknown: just subscribed to, or no longer held."""
        fresh = [name for name in names if name not in self._doubted]
        self._doubted.update(dict.fromkeys(fresh, now_ms + LISTED_AFTER_MS))
        if fresh:
            self._failures = 1
            self._look_at_ms = now_ms + self._wait_ms()

    def suspect(self, names: Iterable[str], now_ms: int) -> None:
        """Look whether these, which are held, are there at all."""
        suspected = set(names)
        self._suspected |= suspected
        self.doubt(suspected, now_ms)

    def held(self, names: Iterable[str]) -> None:
        """Take these for known: a partition of each is this member's."""
        for name in names:
            self._settle(name)

    def names_to_look_for(self, now_ms: int) -> tuple[str, ...]:
        """Return the names to ask for now, none while it is not time. Answer with ``looked``."""
        if self._look_at_ms is None or now_ms < self._look_at_ms:
            return ()
        if not self._doubted:
            self._look_at_ms = None
            return ()
        return tuple(sorted(self._missing or self._doubted)[:MOST_LOOKED_FOR])

    def looked(self, asked: Collection[str], found: Collection[str], now_ms: int) -> bool:
        """Take what a look found; return whether all topics must be listed now (then call ``listed``)."""
        came = self._missing.intersection(found)
        absent = set(asked) - set(found)
        gone = self._suspected & absent
        self._suspected -= set(asked)
        self._missing = (self._missing - came) | absent
        self._failures += 1
        self._look_at_ms = now_ms + self._wait_ms()
        overdue = any(now_ms >= at for name, at in self._doubted.items() if name not in self._missing)
        return bool(came or gone) or overdue or len(self._missing) > MOST_LOOKED_FOR

    def listed(self, names: Collection[str]) -> None:
        """Take the names of all topics."""
        for name in list(self._doubted):
            if name in names:
                self._settle(name)
            else:
                self._missing.add(name)

    def _wait_ms(self) -> int:
        return int(self._backoff.wait(self._failures, self._chance()))

    def _settle(self, name: str) -> None:
        self._doubted.pop(name, None)
        self._missing.discard(name)
        self._suspected.discard(name)
