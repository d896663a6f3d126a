"""Ports meet adapters: everything one distributed worker is made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.app.clock import SystemClock
from spark_connect_rt.app.executor_clients import FACTORY
from spark_connect_rt.app.plugin_scan import bundled_plugins
from spark_connect_rt.config.client_properties import (
    log_client_properties,
    shared_admin_properties,
)
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.distributed_config import DistributedConfig, InternalTopic
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.group_member import KafkaGroupMember
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.ports.task_runner import TaskRunner
from spark_connect_rt.protocol.ids import TopicPartition
from spark_connect_rt.rest.peer_client import HttpPeerClient
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.settings import HerderSettings
from spark_connect_rt.stores.config_store import ConfigStore
from spark_connect_rt.stores.offset_store import OffsetStore
from spark_connect_rt.stores.status_store import StatusStore

ADMIN_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class ClusterId:
    """The Kafka cluster's id, known once a broker answered."""

    value: str = ""


def internal_log(config: DistributedConfig, admin: KafkaAdmin, kind: str, topic: InternalTopic) -> KafkaCompactedLog:
    """Return the log of one internal topic; ``kind`` is configs, offsets or statuses."""
    return KafkaCompactedLog(
        TopicSpec(topic.name, topic.partitions, topic.replication_factor, topic.settings),
        admin,
        log_client_properties(config.raw, kind),
        exact_partitions=1 if kind == "configs" else None,
    )


def group_offsets(
    config: Mapping[str, str], admin_properties: Mapping[str, str], group: str
) -> dict[TopicPartition, int]:
    """Return the committed offsets of a sink connector's group, from the connector's own cluster."""
    admin = KafkaAdmin({**admin_properties, "bootstrap.servers": _servers(config, admin_properties)})
    return dict(admin.group_offsets(group, timeout_ms=ADMIN_TIMEOUT_MS))


def _servers(config: Mapping[str, str], properties: Mapping[str, str]) -> str:
    return properties.get("bootstrap.servers") or config.get("bootstrap.servers", "localhost:9092")


def herder_dependencies(
    config: DistributedConfig, admin: KafkaAdmin, runner: TaskRunner, cluster: ClusterId
) -> HerderDependencies:
    """Return everything the herder of one worker needs."""
    clock = SystemClock()
    raw = config.raw
    return HerderDependencies(
        settings=HerderSettings.of(config.worker_id, config.advertised_url, raw),
        clock=clock,
        member=KafkaGroupMember(raw),
        config_store=ConfigStore(internal_log(config, admin, "configs", config.config_topic), clock),
        status_store=StatusStore(internal_log(config, admin, "statuses", config.status_topic)),
        offset_store=OffsetStore(internal_log(config, admin, "offsets", config.offset_topic)),
        runner=runner,
        sink_groups=KafkaSinkGroup,
        plugins=bundled_plugins(),
        peers=HttpPeerClient(),
        new_key=os.urandom,
        read_group_offsets=lambda properties, group: group_offsets(raw, properties, group),
        kafka_cluster_id=lambda: cluster.value,
        source_config=SOURCE,
        sink_config=SINK,
    )


def admin_of(raw: Mapping[str, str]) -> KafkaAdmin:
    """Return the worker's own admin client."""
    return KafkaAdmin(shared_admin_properties(raw))


def spark_runner(raw: Mapping[str, str]) -> TaskRunner:
    """Return the real execution engine; its SparkSession is being built when this returns."""
    from spark_connect_rt.spark.driver.spark_sink import SparkSinkRunner
    from spark_connect_rt.spark.driver.task_runner import SparkTaskRunner

    return SparkTaskRunner(raw, FACTORY, spark_sinks=SparkSinkRunner(FACTORY))
