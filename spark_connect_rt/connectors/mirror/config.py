"""Settings of the three mirror connectors (Java ``MirrorSourceConfig`` and its neighbours), in Java's order.

The runtime adds the settings that every connector has. Importance is LOW unless given.
"""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.client_settings import client_config_def
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import Check, anything, one_of
from spark_connect_rt.connectors.mirror import filters
from spark_connect_rt.connectors.mirror.named_class import JAVA_PACKAGE
from spark_connect_rt.connectors.mirror.policy import INTERNAL_SEPARATOR, POLICY_CLASS, SEPARATOR, SOURCE_ALIAS
from spark_connect_rt.connectors.topics import moved_logs_config

TARGET_ALIAS = "target.cluster.alias"
SOURCE, TARGET = "source", "target"  # where the offset-syncs topic is; also the default alias of the target
OFFSET_SYNCS_LOCATION = "offset-syncs.topic.location"
EMIT_OFFSET_SYNCS = "emit.offset-syncs.enabled"
EMIT_CHECKPOINTS = "emit.checkpoints.enabled"
COPY_BATCHES = "connectrt.mirror.batches"
TASK_PARTITIONS, TASK_GROUPS, TASK_INDEX = "task.assigned.partitions", "task.assigned.groups", "task.index"
_PATTERNS = "separated by commas, names or regular expressions"


def _key(
    name: str,
    kind: Type,
    default: Any,
    doc: str,
    importance: Importance = Importance.LOW,
    check: Check = anything,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, doc, check)


def _each(name: str, enabled: bool, interval_s: int, what: str) -> tuple[ConfigKey, ConfigKey]:
    """Return the two settings of something that is done now and then."""
    return (
        _key(f"{name}.enabled", Type.BOOLEAN, enabled, f"Whether {what} periodically."),
        _key(f"{name}.interval.seconds", Type.LONG, interval_s, f"Time between two rounds of {name}, s."),
    )


def _list(name: str, doc: str) -> ConfigKey:
    return _key(name, Type.LIST, filters.DEFAULTS[name], f"{doc}, {_PATTERNS}.", Importance.HIGH)


def _filter(setting: str, what: str) -> ConfigKey:
    doc = f"Class that selects {what}: Java's default, or a Python one as package.module:Class."
    return _key(setting, Type.CLASS, filters.java_name(setting), doc)


def _copies(name: str, copies: int, topic: str, kind: Type = Type.SHORT) -> ConfigKey:
    return _key(f"{name}replication.factor", kind, copies, f"Replication factor of {topic} when it is created.")


_POLL = _key("consumer.poll.timeout.ms", Type.LONG, 1_000, "Longest wait of one poll of the source cluster, ms.")
_LOCATION = _key(
    OFFSET_SYNCS_LOCATION,
    Type.STRING,
    SOURCE,
    "Cluster that has the topic of offset syncs: source or target.",
    check=one_of(SOURCE, TARGET),
)
_SECURITY = [
    ConfigKey(
        key.name,
        key.type,
        key.default,
        key.importance,
        "Settings of every Kafka client. Those of one cluster begin with source.cluster. or target.cluster.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL") if key.name == "security.protocol" else key.check,
    )
    for key in client_config_def("admin")
    if key.name == "security.protocol" or key.name.startswith(("ssl.", "sasl."))
]
CLIENT_NAMES = frozenset({"bootstrap.servers", *(key.name for key in _SECURITY)})
"""The settings under ``source.cluster.`` and ``target.cluster.`` that all clients of that cluster get."""

BASE = ConfigDef(
    [
        _key("enabled", Type.BOOLEAN, True, "Whether to replicate this flow."),
        _key(SOURCE_ALIAS, Type.STRING, REQUIRED, "Name of the cluster to read.", Importance.HIGH),
        _key(TARGET_ALIAS, Type.STRING, TARGET, "Name of the cluster to write.", Importance.HIGH),
        _key("admin.timeout.ms", Type.LONG, 60_000, "Longest time for one operation on a cluster, ms."),
        _key(
            POLICY_CLASS,
            Type.CLASS,
            f"{JAVA_PACKAGE}.DefaultReplicationPolicy",
            "Class that names remote topics: Java's Default or Identity, or a Python one as package.module:Class.",
        ),
        _key(SEPARATOR, Type.STRING, ".", "Text between the alias and the topic in remote names."),
        _key(
            INTERNAL_SEPARATOR,
            Type.BOOLEAN,
            True,
            "Whether the names of the checkpoint and offset sync topics also use the separator. false: they use a dot.",
        ),
        _key(
            "forwarding.admin.class",
            Type.CLASS,
            "org.apache.kafka.clients.admin.ForwardingAdmin",
            "Java class that changes clusters. Only the default is supported here.",
        ),
        _key(
            "metric.reporters",
            Type.LIST,
            "org.apache.kafka.common.metrics.JmxReporter",
            "Java classes that report metrics. Ignored here: metrics are at /admin/metrics.",
        ),
        *_SECURITY,
    ]
)
MIRROR_SOURCE = BASE + ConfigDef(
    [
        _list(filters.TOPICS, "Topics to replicate"),
        _list(filters.TOPICS_EXCLUDE, "Topics not to replicate, even if topics matches them"),
        _list(filters.PROPERTIES_EXCLUDE, "Topic settings that are not copied"),
        _filter(filters.TOPIC_FILTER, "topics"),
        _filter(filters.PROPERTY_FILTER, "topic settings"),
        _POLL,
        *_each("refresh.topics", True, 600, "to check for new topics and partitions"),
        *_each("sync.topic.configs", True, 600, "to copy the settings of topics to their remote topics"),
        *_each("sync.topic.acls", True, 600, "to copy ACLs of topics"),
        _copies("", 2, "a remote topic", Type.INT),
        _copies("offset-syncs.topic.", 3, "the topic of offset syncs"),
        _key(
            "offset.lag.max",
            Type.LONG,
            100,
            "How many records a partition may advance before its offsets are synced again. Lower values make "
            "translated offsets more exact.",
        ),
        _LOCATION,
        _key(
            EMIT_OFFSET_SYNCS,
            Type.BOOLEAN,
            True,
            "Whether to write offset syncs. Without them there are no checkpoints and no group offsets.",
        ),
        _key(
            "heartbeats.replication.enabled",
            Type.BOOLEAN,
            True,
            "Whether to replicate heartbeat topics even if topics and topics.exclude do not match them.",
        ),
        _key(
            COPY_BATCHES,
            Type.STRING,
            "auto",
            "Whether whole record batches are copied. auto: yes, if no setting needs single records. never: "
            "record by record.",
            check=one_of("auto", "never", ignore_case=True),
        ),
        *moved_logs_config.KEYS,
    ]
)
MIRROR_CHECKPOINT = BASE + ConfigDef(
    [
        _POLL,
        _list(filters.GROUPS, "Consumer groups to replicate"),
        _list(filters.GROUPS_EXCLUDE, "Consumer groups not to replicate, even if groups matches them"),
        _filter(filters.GROUP_FILTER, "consumer groups"),
        *_each("refresh.groups", True, 600, "to check for new consumer groups"),
        *_each("emit.checkpoints", True, 60, "to translate offsets of groups and write them as checkpoints"),
        *_each(
            "sync.group.offsets", False, 60, "to commit translated offsets for groups without members at the target"
        ),
        _copies("checkpoints.topic.", 3, "the topic of checkpoints"),
        _LOCATION,
        _filter(filters.TOPIC_FILTER, "topics"),
    ]
)
MIRROR_HEARTBEAT = BASE + ConfigDef(
    [
        *_each("emit.heartbeats", True, 1, "to write a heartbeat to the target"),
        _copies("heartbeats.topic.", 3, "the topic of heartbeats"),
    ]
)


def interval_ms(values: dict[str, Any], name: str) -> int | None:
    """Return the time between two rounds of ``name`` in a parsed configuration, ms; None: it is not wanted."""
    return int(values[f"{name}.interval.seconds"]) * 1_000 if values[f"{name}.enabled"] else None
