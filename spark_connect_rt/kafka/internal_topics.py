"""Compacted topics of ours with one partition that are made when something is written: where their logs come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.config.client_properties import LogClientProperties, shared_admin_properties
from spark_connect_rt.config.group_config import TOPIC_KINDS
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.topics.compacted_log import CompactedLog, LogSource, OnEnd

# Of topics that we make, unless the worker's file says otherwise. The broker never compacts the last segment of a
# partition, by default of 1 GB and seven days: every start would read all of it.
SHORT_HEAD = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}


def topic_source(topic: TopicSpec, admin: KafkaAdmin, clients: LogClientProperties) -> LogSource:
    """Return where the log of one topic comes from."""

    def open_log(on_end: OnEnd) -> CompactedLog:
        def ended(
            part: SupervisedPart, error: BaseException | str
        ) -> None:  # the worker continues: no connector needs it
            on_end(f"{part.title} ended: {error}")

        return KafkaCompactedLog(topic, admin, clients, exact_partitions=1, report=ended)

    return LogSource(lambda: admin.partition_count(topic.name) is not None, open_log)


# Ports meet adapters: everything one distributed worker is made of.


def internal_topics(config: WorkerConfig) -> dict[str, TopicSpec]:
    """Return how the three internal topics are created, by the word that ends their clients' ids."""
    return {
        "configs": _storage_spec(config, "config"),
        "offsets": _storage_spec(config, "offset", SHORT_HEAD),
        "statuses": _storage_spec(config, "status"),
    }


def _storage_spec(config: WorkerConfig, kind: str, usual: Mapping[str, str] = MappingProxyType({})) -> TopicSpec:
    """Return how one of them is created; ``usual``: topic configurations unless the user says otherwise."""
    topic = config.storage[kind]
    kinds = (kind, *(other for other in TOPIC_KINDS if other != kind))  # its own setting comes first in a message
    return TopicSpec(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        {**usual, **topic.settings},
        tuple(f"{name}.storage.replication.factor" for name in kinds),
    )


def admin_of(config: WorkerConfig) -> KafkaAdmin:
    """Return the worker's own admin client."""
    return KafkaAdmin(shared_admin_properties(config))
