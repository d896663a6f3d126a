"""Exactly-once source support: who has it, where a connector's offsets go (KIP-618). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

OWN_TOPIC = "offsets.storage.topic"
BOUNDARY = "transaction.boundary"
INTERVAL = "transaction.boundary.interval.ms"
SUPPORT = "exactly.once.support"
_FLUSH_INTERVAL_MS = "60000"  # of offset.flush.interval.ms


class Boundary(Enum):
    """Where the transactions of a source task end."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @staticmethod
    def of(connector: Mapping[str, str]) -> Boundary:
        """Return what a connector's configuration asks for; checked before."""
        return Boundary((connector.get(BOUNDARY) or "poll").strip().lower())


def exactly_once_enabled(worker: Mapping[str, str]) -> bool:
    """Return whether every source task of this worker writes records and offsets in one transaction."""
    return (worker.get("exactly.once.source.support") or "").strip().lower() == "enabled"


def interval_ms(worker: Mapping[str, str], connector: Mapping[str, str]) -> int:
    """Return the length of a transaction with boundary ``interval``, ms."""
    return int(connector.get(INTERVAL) or worker.get("offset.flush.interval.ms") or _FLUSH_INTERVAL_MS)


def own_offsets_topic(worker: Mapping[str, str], connector: Mapping[str, str]) -> str | None:
    """Return the offset topic of a connector alone; None when it uses the worker's.

    The worker's own topic, named by the connector in the worker's own cluster, is the worker's.
    """
    topic = (connector.get(OWN_TOPIC) or "").strip()
    servers = connector.get("producer.override.bootstrap.servers")
    elsewhere = servers is not None and servers != worker.get("bootstrap.servers", "localhost:9092")
    return topic if topic and (elsewhere or topic != worker.get("offset.storage.topic")) else None


def offsets_topic(worker: Mapping[str, str], connector: Mapping[str, str]) -> str:
    """Return the topic that an exactly-once task writes its offsets to, with the records."""
    return (connector.get(OWN_TOPIC) or "").strip() or worker.get("offset.storage.topic", "")
