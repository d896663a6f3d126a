"""Client properties of a task's producer or consumer, under Java's names (facts 7.8, 7.9; Java ``Worker``).

Order of precedence, lowest first: Connect's defaults, the worker's ``producer.``/``consumer.`` settings, the
connector's ``producer.override.``/``consumer.override.``. References stay unresolved.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.protocol.ids import ConnectorTaskId

SINK_GROUP_PREFIX = "connect-"


def with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings under a prefix, without it."""
    return {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}


def producer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], task: ConnectorTaskId
) -> dict[str, str]:
    """Return the producer's settings of one source task."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", ""),
        "acks": "all",
        "client.id": f"connector-producer-{task}",
        **_of_worker(worker, "producer."),
        **with_prefix(connector, "producer.override."),
    }


def consumer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], task: ConnectorTaskId
) -> dict[str, str]:
    """Return the consumer's settings of one sink task, its group ``connect-<name>`` unless overridden."""
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", ""),
        "group.id": sink_group_id(connector, task.connector),
        "client.id": f"connector-consumer-{task}",
        "auto.offset.reset": "earliest",
        **_of_worker(worker, "consumer."),
        **with_prefix(connector, "consumer.override."),
        "enable.auto.commit": "false",  # offsets are committed when they are durable, by the worker only
    }


def sink_group_id(connector: Mapping[str, str], name: str) -> str:
    """Return the consumer group of a sink connector."""
    return connector.get("consumer.override.group.id") or f"{SINK_GROUP_PREFIX}{name}"


def _of_worker(worker: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: value for key, value in with_prefix(worker, prefix).items() if not key.startswith("override.")}
