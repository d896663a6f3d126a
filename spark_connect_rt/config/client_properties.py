"""Which Kafka client properties each client of a worker gets, under their Java names.

Owns: the prefixes (``producer.``, ``consumer.``, ``admin.``, ``*.override.``), Connect's defaults per client and the
client ids. Pure. Must not know librdkafka: ``kafka.client_config`` translates.
Source: Java ``Worker.baseProducerConfigs``, ``baseConsumerConfigs``, ``adminConfigs``.

A worker's security settings without a prefix apply to its own topics and its group. The clients of tasks see only
``bootstrap.servers`` and the settings with their prefix, as in Java. The admin client sees both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.worker_settings import WorkerConfig

SHARED_CLIENT = {"connectrt.client.shared": "true"}
"""Of a producer: those of one process with the same settings may share connections, whatever their client.id."""
GROUP_OVERRIDE = "consumer.override.group.id"
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


def shared_client_properties(worker: WorkerConfig) -> dict[str, str]:
    """Return the worker's top-level settings that every Kafka client knows: servers, security, time-outs."""
    return _shared(worker, worker.resolved)


def _shared(worker: WorkerConfig, texts: Mapping[str, str]) -> dict[str, str]:
    known = {
        key: value
        for key, value in texts.items()
        if value is not None and (key in _SHARED_NAMES or key.startswith(_SHARED_PREFIXES))
    }
    return {**known, **_servers(worker)}


def source_producer_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the producer properties of a source task; the connector's overrides win."""
    return {
        **_servers(worker),
        **SOURCE_PRODUCER_DEFAULTS,
        "client.id": f"connector-producer-{name}-{task}",
        **prefixed(worker.raw, "producer."),
        **prefixed(connector, "producer.override."),
    }


def sharing(worker: WorkerConfig, connector: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings by which a source task's producer shares connections. Empty if the user set its client.id."""
    named = "producer.client.id" in worker.raw or "producer.override.client.id" in connector
    return SHARED_CLIENT if worker.engine.connectrt_producers_shared and not named else {}


def exactly_once_producer_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the properties of an exactly-once source task's producer. The transactional ones cannot be overridden.

    As Java's, except for five requests in flight instead of one: an idempotent producer keeps its order with them.
    """
    said = source_producer_properties(worker, connector, name, task)
    for default, better in (("enable.idempotence", "true"), ("max.in.flight.requests.per.connection", "5")):
        if f"producer.{default}" not in worker.raw and f"producer.override.{default}" not in connector:
            said[default] = better
    return {**said, **_forced(worker, name, task)}


def ignored_overrides(worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int) -> list[str]:
    """Return complaints, in Java's words, about producer settings of the user that exactly-once overrides."""
    said = {**prefixed(worker.raw, "producer."), **prefixed(connector, "producer.override.")}
    return [
        f"The value '{said[key]}' for the '{key}' property will be ignored as it cannot be overridden for connectors "
        f"when exactly-once source support is enabled. The value '{value}' will be used instead."
        for key, value in _forced(worker, name, task).items()
        if key in said and said[key].strip().lower() != value.lower()
    ]


def transactional_id(group: str, connector: str, task: int) -> str:
    """Return the transactional id of a source task's producer, the same in every worker of the group (as Java's)."""
    return f"{group}-{connector}-{task}"


def _forced(worker: WorkerConfig, name: str, task: int) -> dict[str, str]:
    return {
        "acks": "all",
        "enable.idempotence": "true",
        "transactional.id": transactional_id(worker.group.group_id, name, task),
    }


def dead_letter_producer_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the producer properties of a sink task's dead letter queue."""
    properties = source_producer_properties(worker, {}, name, task)
    properties["client.id"] = f"connector-dlq-producer-{name}-{task}"
    return {
        **properties,
        **prefixed(worker.raw, "producer."),
        **prefixed(connector, "producer.override."),
    }


def dead_letter_admin_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the admin properties that create a task's dead letter queue."""
    properties = connector_admin_properties(worker, {}, name, task)
    properties["client.id"] = f"connector-dlq-adminclient-{name}-{task}"
    return {**properties, **prefixed(worker.raw, "admin."), **prefixed(connector, "admin.override.")}


def sink_consumer_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the consumer properties of a sink task, ``group.id`` included."""
    return {
        **_servers(worker),
        **SINK_CONSUMER_DEFAULTS,
        **_worker_session(worker),
        "group.id": f"connect-{name}",
        "client.id": f"connector-consumer-{name}-{task}",
        **prefixed(worker.raw, "consumer."),
        **prefixed(connector, "consumer.override."),
    }


def sink_group_id(connector: Mapping[str, str], name: str) -> str:
    """Return the consumer group of a sink connector, whose configuration is resolved."""
    return connector.get(GROUP_OVERRIDE) or f"connect-{name}"


def connector_admin_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, task: int
) -> dict[str, str]:
    """Return the admin properties for one connector's cluster."""
    return {
        **_shared(worker, worker.raw),
        "client.id": f"connector-adminclient-{name}-{task}",
        **prefixed(worker.raw, "admin."),
        **prefixed(connector, "admin.override."),
    }


def shared_admin_properties(worker: WorkerConfig) -> dict[str, str]:
    """Return the properties of the worker's own admin client."""
    return {**shared_client_properties(worker), "client.id": f"{_client_prefix(worker)}shared-admin"}


def log_client_properties(worker: WorkerConfig, kind: str, delivery_limit_ms: int | None = None) -> LogClientProperties:
    """Return the client properties of an internal topic.

    Args:
        worker: the worker's settings.
        kind: "configs", "offsets" or "statuses"; ends the client id.
        delivery_limit_ms: how long an append may be in progress; None: as long as for any topic (I7).
    """
    shared = {**shared_client_properties(worker), "client.id": f"{_client_prefix(worker)}{kind}"}
    # The group is never joined: librdkafka wants an id, and this one the worker is surely allowed to look up.
    group = {"group.id": worker.group.group_id or kind}
    consumer = {**shared, **LOG_CONSUMER_DEFAULTS, **group}
    if kind in ("configs", "offsets") and worker.group.exactly_once:
        # As Java, and only then: workers that read differently would never agree on a config offset, and a source
        # offset of an open transaction is not valid yet.
        consumer["isolation.level"] = "read_committed"
    limit = {} if delivery_limit_ms is None else {"delivery.timeout.ms": str(delivery_limit_ms)}
    return LogClientProperties({**shared, **LOG_PRODUCER_DEFAULTS, **limit}, consumer)


def own_offset_properties(
    worker: WorkerConfig, connector: Mapping[str, str], name: str, delivery_limit_ms: int
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
    if worker.group.exactly_once:
        consumer["isolation.level"] = "read_committed"
    producer.pop("transactional.id", None)  # of the tasks, if the configuration names one
    return LogClientProperties(producer, consumer)


def leader_producer_properties(worker: WorkerConfig) -> dict[str, str]:
    """Return the properties of the leader's transactional producer for the config topic (KIP-618)."""
    return {
        **shared_client_properties(worker),
        "client.id": f"{_client_prefix(worker)}configs-leader",
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "transactional.id": f"connect-cluster-{worker.group.group_id}",
    }


def replay_producer_properties(worker: WorkerConfig, queue: str) -> dict[str, str]:
    """Return the properties of the producer that replays a dead letter queue: one id, so one writer, for each queue."""
    return {
        **shared_client_properties(worker),
        "client.id": f"{_client_prefix(worker)}replays",
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "transaction.timeout.ms": "20000",  # a dead worker's open transaction holds up readers of committed data
        "transactional.id": f"connect-cluster-{worker.group.group_id or 'standalone'}-replays-{queue}",
    }


def replay_log_properties(worker: WorkerConfig) -> LogClientProperties:
    """Return the client properties of the topic of replays. Its readers do not see uncommitted transactions."""
    clients = log_client_properties(worker, "replays")
    return LogClientProperties(clients.producer, {**clients.consumer, "isolation.level": "read_committed"})


def _worker_session(worker: WorkerConfig) -> dict[str, str]:
    """Return the worker's own session as a consumer's: a dead worker's sink partitions wait no longer than its tasks.

    Java leaves the consumer's default, 45 s, in which no other task of the connector gets anything either.
    """
    group = worker.group
    return {
        "session.timeout.ms": str(group.session_timeout_ms),
        "heartbeat.interval.ms": str(group.heartbeat_interval_ms),
    }


def _servers(worker: WorkerConfig) -> dict[str, str]:
    return {"bootstrap.servers": worker.bootstrap_servers}


def _client_prefix(worker: WorkerConfig) -> str:
    own = worker.group.client_id
    return f"{worker.group.group_id}-{own + '-' if own else ''}"
