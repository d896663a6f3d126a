"""Which Kafka client properties each client of a worker gets, under their Java names.

Owns: the prefixes (``producer.``, ``consumer.``, ``admin.``, ``*.override.``), Connect's defaults per client and the
client ids. Pure. Must not know librdkafka: ``kafka.client_config`` translates.
Source: Java ``Worker.baseProducerConfigs``, ``baseConsumerConfigs``, ``adminConfigs``.

A worker's security settings stand at its top level for its own topics and its group; the clients of tasks see only
``bootstrap.servers`` and what has their prefix, as in Java. The admin client sees both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.config.exactly_once import exactly_once_enabled

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SOURCE_PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(INT_MAX),
    "max.block.ms": str(LONG_MAX),
}
SINK_CONSUMER_DEFAULTS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
}
LOG_PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(INT_MAX),
}
LOG_CONSUMER_DEFAULTS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "allow.auto.create.topics": "false",
}

_SHARED_NAMES = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
_SHARED_PREFIXES = ("ssl.", "sasl.")


@dataclass(frozen=True, slots=True)
class LogClientProperties:
    """The two clients of one internal topic."""

    producer: dict[str, str]
    consumer: dict[str, str]


def with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings that start with ``prefix``, without it."""
    cut = len(prefix)
    return {key[cut:]: value for key, value in config.items() if key.startswith(prefix) and len(key) > cut}


def shared_client_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's top-level settings that every Kafka client knows: servers, security, time-outs."""
    return {
        key: value
        for key, value in worker.items()
        if value is not None and (key in _SHARED_NAMES or key.startswith(_SHARED_PREFIXES))
    }


def source_producer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the producer properties of a source task; the connector's overrides win."""
    return {
        **_servers(worker),
        **SOURCE_PRODUCER_DEFAULTS,
        "client.id": f"connector-producer-{name}-{task}",
        **with_prefix(worker, "producer."),
        **with_prefix(connector, "producer.override."),
    }


def exactly_once_producer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the properties of an exactly-once source task's producer; nobody overrides what makes it transactional.

    As Java's but for five requests in flight instead of one: an idempotent producer keeps its order with them.
    """
    said = source_producer_properties(worker, connector, name, task)
    for default, better in (("enable.idempotence", "true"), ("max.in.flight.requests.per.connection", "5")):
        if f"producer.{default}" not in worker and f"producer.override.{default}" not in connector:
            said[default] = better
    return {**said, **_forced(worker, name, task)}


def ignored_overrides(worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int) -> list[str]:
    """Return, in Java's words, what of the user's producer settings exactly-once does not obey."""
    said = {**with_prefix(worker, "producer."), **with_prefix(connector, "producer.override.")}
    return [
        f"The value '{said[key]}' for the '{key}' property will be ignored as it cannot be overridden for connectors "
        f"when exactly-once source support is enabled. The value '{value}' will be used instead."
        for key, value in _forced(worker, name, task).items()
        if key in said and said[key].strip().lower() != value.lower()
    ]


def transactional_id(group: str, connector: str, task: int) -> str:
    """Return the transactional id of a source task's producer, the same in every worker of the group (as Java's)."""
    return f"{group}-{connector}-{task}"


def _forced(worker: Mapping[str, str], name: str, task: int) -> dict[str, str]:
    return {
        "acks": "all",
        "enable.idempotence": "true",
        "transactional.id": transactional_id(worker.get("group.id", ""), name, task),
    }


def dead_letter_producer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the producer properties of a sink task's dead letter queue."""
    properties = source_producer_properties(worker, {}, name, task)
    properties["client.id"] = f"connector-dlq-producer-{name}-{task}"
    return {
        **properties,
        **with_prefix(worker, "producer."),
        **with_prefix(connector, "producer.override."),
    }


def dead_letter_admin_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the admin properties that create a task's dead letter queue."""
    properties = connector_admin_properties(worker, {}, name, task)
    properties["client.id"] = f"connector-dlq-adminclient-{name}-{task}"
    return {**properties, **with_prefix(worker, "admin."), **with_prefix(connector, "admin.override.")}


def sink_consumer_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the consumer properties of a sink task, ``group.id`` included."""
    return {
        **_servers(worker),
        **SINK_CONSUMER_DEFAULTS,
        **_worker_session(worker),
        "group.id": f"connect-{name}",
        "client.id": f"connector-consumer-{name}-{task}",
        **with_prefix(worker, "consumer."),
        **with_prefix(connector, "consumer.override."),
    }


def sink_group_id(connector: Mapping[str, str], name: str) -> str:
    """Return the consumer group of a sink connector."""
    return connector.get("consumer.override.group.id") or f"connect-{name}"


def connector_admin_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the admin properties for one connector's cluster."""
    return {
        **shared_client_properties(worker),
        "client.id": f"connector-adminclient-{name}-{task}",
        **with_prefix(worker, "admin."),
        **with_prefix(connector, "admin.override."),
    }


def shared_admin_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the worker's own admin client."""
    return {**shared_client_properties(worker), "client.id": f"{_client_prefix(worker)}shared-admin"}


def log_client_properties(
    worker: Mapping[str, str], kind: str, delivery_limit_ms: int | None = None
) -> LogClientProperties:
    """Return the client properties of an internal topic.

    Args:
        worker: the worker's settings.
        kind: "configs", "offsets" or "statuses"; ends the client id.
        delivery_limit_ms: how long an append may be under way; None: as long as for any topic (I7).
    """
    shared = {**shared_client_properties(worker), "client.id": f"{_client_prefix(worker)}{kind}"}
    # The group is never joined: librdkafka wants an id, and this one the worker is surely allowed to look up.
    group = {"group.id": worker.get("group.id") or kind}
    consumer = {**shared, **LOG_CONSUMER_DEFAULTS, **group}
    if kind in ("configs", "offsets") and exactly_once_enabled(worker):
        # As Java, and only then: workers that read differently would never agree on a config offset, and a source
        # offset of an open transaction is none yet.
        consumer["isolation.level"] = "read_committed"
    limit = {} if delivery_limit_ms is None else {"delivery.timeout.ms": str(delivery_limit_ms)}
    return LogClientProperties({**shared, **LOG_PRODUCER_DEFAULTS, **limit}, consumer)


def own_offset_properties(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str, delivery_limit_ms: int
) -> LogClientProperties:
    """Return the client properties of a connector's own offset topic: the connector's clients, as in Java."""
    producer = {
        **source_producer_properties(worker, connector, name, 0),
        **LOG_PRODUCER_DEFAULTS,
        "client.id": f"connector-offsets-{name}",
        "delivery.timeout.ms": str(delivery_limit_ms),
    }
    consumer = {**sink_consumer_properties(worker, connector, name, 0), **LOG_CONSUMER_DEFAULTS}
    consumer["client.id"] = f"connector-offsets-{name}"
    if exactly_once_enabled(worker):
        consumer["isolation.level"] = "read_committed"
    producer.pop("transactional.id", None)  # of the tasks, should anybody have named one
    return LogClientProperties(producer, consumer)


def leader_producer_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the leader's transactional producer for the config topic (KIP-618)."""
    return {
        **shared_client_properties(worker),
        "client.id": f"{_client_prefix(worker)}configs-leader",
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "transactional.id": f"connect-cluster-{worker.get('group.id', '')}",
    }


def _worker_session(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's own session as a consumer's: a dead worker's sink partitions wait no longer than its tasks.

    Java leaves the consumer's default, 45 s, in which no other task of the connector gets anything either.
    """
    return {
        name: worker.get(name) or default
        for name, default in (("session.timeout.ms", "10000"), ("heartbeat.interval.ms", "3000"))
    }


def _servers(worker: Mapping[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": worker.get("bootstrap.servers", "localhost:9092")}


def _client_prefix(worker: Mapping[str, str]) -> str:
    own = worker.get("client.id") or ""
    return f"{worker.get('group.id', '')}-{own + '-' if own else ''}"
