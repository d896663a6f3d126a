"""Clients of librdkafka that have lost all their brokers: how that is noticed, and when a new client takes over.

librdkafka 2.10 to 2.16 forgets every broker that a metadata answer does not list. A broker that is shutting down lists
none. A client that gets such an answer has no broker left, never returns to bootstrap.servers, and no setting of
``metadata.recovery`` changes that. A new client starts from bootstrap.servers again.

Three ways to notice it, for three kinds of clients:

- ``BrokerWatch``: a client that is polled all the time is asked for its statistics, which list its brokers. A broker
  that is only away stays in the list, so an outage alone never replaces such a client, and no record is refused.
- ``is_left_behind``: a producer that is not polled all the time is compared with a new client while its records wait.
- ``CallWatch``: a client that only answers questions is noticed by calls that fail. It is not polled between them, so
  its statistics would pile up. It may be replaced during an outage, too: it holds nothing.

Owns: these decisions. Must not: own the clients, which their owners make and close.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import orjson
from confluent_kafka import KafkaException

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.kafka.error_mapping import connect_error, is_code

_log = logging.getLogger(__name__)

STATISTICS_MS = 4_000
PATIENCE_S = 5.0  # a client may be between two sets of brokers for a moment
BETWEEN_S = Backoff(first=10.0, longest=30.0, jitter=0.0)  # from one replacement to the next
CALM_S = 300.0  # after which the waits between replacements begin again at the first
PROBE_S = 1.0
NEW_CLIENT_PROBE_S = 5.0  # which has to log in first


class _Replacements:
    """When the next replacement may be. Not thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._last_s = float("-inf")

    def is_due(self, now_s: float) -> bool:
        return now_s - self._last_s >= (BETWEEN_S.wait(self._count, 0.5) if self._count else 0.0)

    def note(self, now_s: float) -> None:
        self._count = 1 if now_s - self._last_s > CALM_S else self._count + 1
        self._last_s = now_s


class BrokerWatch:
    """Watches one client after another by their statistics.

    The client's owner keeps it, gives ``settings`` to each client that it makes, polls the client often, asks
    ``is_lost`` after that, and calls ``replaced`` before it makes the next one. Any thread may poll.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """``name`` is for the log line, for example "the producer of topic t"."""
        self._name = name
        self._clock = clock
        self._without_since_s: float | None = None
        self._replacements = _Replacements()

    def settings(self) -> dict[str, Any]:
        """Return the settings of librdkafka that report the statistics here."""
        return {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self.take}

    def take(self, statistics: str) -> None:
        """Take a client's statistics, as librdkafka's JSON."""
        if brokers_in(statistics):
            self._without_since_s = None
        elif self._without_since_s is None:
            self._without_since_s = self._clock()

    def is_lost(self) -> bool:
        """Return whether the client has had no broker for so long that a new one is to replace it now."""
        since_s, now_s = self._without_since_s, self._clock()
        return since_s is not None and now_s - since_s >= PATIENCE_S and self._replacements.is_due(now_s)

    def replaced(self) -> None:
        """Take that a new client replaces the lost one, and log it."""
        self._without_since_s = None
        self._replacements.note(self._clock())
        warn_replaced(self._name)


class CallWatch:
    """Watches one client after another by the calls that fail. One thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing_since_s: float | None = None
        self._replacements = _Replacements()

    def now(self) -> float:
        """Return the time, as ``failed`` takes it."""
        return self._clock()

    def succeeded(self) -> None:
        """Take that a call was answered."""
        self._failing_since_s = None

    def failed(self, begun_s: float) -> bool:
        """Take that a call that began then was not answered; return whether the client is to be probed now."""
        if self._failing_since_s is None:
            self._failing_since_s = begun_s
        now_s = self._clock()
        return now_s - self._failing_since_s >= PATIENCE_S and self._replacements.is_due(now_s)

    def is_lost(self, client: Any, begun_s: float, topic: str | None = None) -> bool:
        """Take that a call that began then was not answered; return whether a new client is to replace this one now.

        The replacement then counts as done. Blocks as long as ``has_broker``. ``SharedClient`` takes the same steps one
        by one, because it must not hold its lock while it asks.
        """
        if not self.failed(begun_s):
            return False
        if has_broker(client, topic):
            self.succeeded()
            return False
        self.replaced()
        return True

    def replaced(self) -> None:
        """Take that a new client replaces this one."""
        self._failing_since_s = None
        self._replacements.note(self._clock())


def brokers_in(statistics: str | bytes) -> int:
    """Return how many brokers librdkafka's statistics list that a client can ask: not its names for coordinators."""
    brokers = orjson.loads(statistics).get("brokers", {})
    return sum(broker.get("source") in ("learned", "configured") for broker in brokers.values())


def has_broker(client: Any, topic: str | None = None, limit_s: float = PROBE_S) -> bool:
    """Return whether a client is connected to a broker, or connects to one within ``limit_s``.

    The client is asked for ``topic``, or all topics. A late answer is fine: it may wait behind a fetch that the broker
    holds back.
    """
    try:
        client.list_topics(topic, timeout=limit_s)
    except KafkaException as error:
        return not is_code(error, "_TRANSPORT")
    return True


def is_left_behind(client: Any, make: Callable[[], Any], close: Callable[[Any], None]) -> bool:
    """Return whether a client has no broker while a new client finds one. Blocks for some seconds."""
    if has_broker(client):
        return False
    new = make()
    try:
        return has_broker(new, limit_s=NEW_CLIENT_PROBE_S) and not has_broker(client)
    finally:
        close(new)


def is_unanswered(error: BaseException) -> bool:
    """Return whether a call failed so that its client may have lost all its brokers."""
    return isinstance(connect_error(error, "") if isinstance(error, KafkaException) else error, RetriableError)


def warn_replaced(name: str) -> None:
    """Log that a new client replaces one that has lost all its brokers."""
    _log.warning(
        "%s had no usable broker for %.0f s and does not look for one again by itself. A new client replaces it and "
        "starts from bootstrap.servers.",
        name,
        PATIENCE_S,
    )
