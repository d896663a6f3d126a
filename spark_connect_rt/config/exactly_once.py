"""Exactly-once source support: who has it, where a connector's offsets go (KIP-618). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.config.worker_settings import WorkerConfig

OWN_TOPIC = "offsets.storage.topic"
BOUNDARY = "transaction.boundary"
INTERVAL = "transaction.boundary.interval.ms"
SUPPORT = "exactly.once.support"


class Boundary(Enum):
    """Where the transactions of a source task end."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @staticmethod
    def of(connector: Mapping[str, str]) -> Boundary:
        """Return what a connector's configuration asks for; checked before."""
        return Boundary((connector.get(BOUNDARY) or "poll").strip().lower())


def interval_ms(flush: FlushSettings, connector: Mapping[str, str]) -> int:
    """Return the length of a transaction with boundary ``interval``, ms."""
    return int(connector.get(INTERVAL) or flush.offset_flush_interval_ms)


def own_offsets_topic(worker: WorkerConfig, connector: Mapping[str, str]) -> str | None:
    """Return the offset topic of a connector alone; None when it uses the worker's.

    The worker's own topic, named by the connector in the worker's own cluster, is the worker's.
    """
    topic = (connector.get(OWN_TOPIC) or "").strip()
    servers = connector.get("producer.override.bootstrap.servers")
    elsewhere = servers is not None and servers != worker.bootstrap_servers
    return topic if topic and (elsewhere or topic != worker.storage["offset"].name) else None


def offsets_topic(worker: WorkerConfig, connector: Mapping[str, str]) -> str:
    """Return the topic that an exactly-once task writes its offsets to, with the records."""
    return (connector.get(OWN_TOPIC) or "").strip() or worker.storage["offset"].name
