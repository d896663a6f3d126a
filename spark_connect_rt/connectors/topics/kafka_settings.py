"""The settings of the connectors to another Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type, prefixed
from spark_connect_rt.config.validators import AtLeast, java_regex, non_empty
from spark_connect_rt.connectors.topics import moved_logs_config

TOPIC_VARIABLE = "${topic}"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS = ("key.converter", "value.converter", "header.converter")


def _topic_format_problem(text: Any) -> str | None:
    return None if text else "must be a topic, where " + TOPIC_VARIABLE + " stands for the record's own"


_NAMES = (
    ConfigKey(
        "topic.format",
        Type.STRING,
        TOPIC_VARIABLE,
        MEDIUM,
        "Topic that a record is sent to. ${topic} is the topic that it comes from. On the same cluster it must be "
        "a different one.",
        _topic_format_problem,
    ),
    ConfigKey(
        "partition.keep",
        Type.BOOLEAN,
        False,
        MEDIUM,
        "Whether records keep their partition number, which must exist. Otherwise the key decides.",
    ),
)
SOURCE = ConfigDef(
    [
        ConfigKey(
            "source.bootstrap.servers",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Brokers of the cluster to read. source.consumer.* are the other settings of its consumers.",
            non_empty,
        ),
        ConfigKey(
            "source.cluster.alias", Type.STRING, "source", MEDIUM, "The cluster's name in source partitions.", non_empty
        ),
        ConfigKey("topics", Type.LIST, "", HIGH, "Topics to read. Either this or topics.regex must be set."),
        ConfigKey(
            "topics.regex",
            Type.STRING,
            None,
            HIGH,
            "Regular expression of the topics to read. Internal topics, whose names begin with __, are never read.",
            java_regex,
        ),
        *_NAMES,
        *moved_logs_config.KEYS,
        ConfigKey("poll.max.records", Type.INT, 5_000, LOW, "Most records of one poll.", AtLeast(1)),
        ConfigKey(
            "refresh.topics.interval.ms",
            Type.LONG,
            60_000,
            LOW,
            "Time between checks for new topics and partitions, ms.",
            AtLeast(1),
        ),
    ]
)
SINK = ConfigDef(
    [
        ConfigKey(
            "target.bootstrap.servers",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Brokers of the cluster to write to. target.producer.* are the other settings of its producers.",
            non_empty,
        ),
        *_NAMES,
    ]
)


def client_properties(config: Mapping[str, str], side: str, role: str) -> dict[str, str]:
    """Return a client's Java properties: ``<side>.bootstrap.servers`` and everything under ``<side>.<role>.``."""
    return {**prefixed(config, f"{side}.{role}."), "bootstrap.servers": config[f"{side}.bootstrap.servers"]}


def converter_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the converters that are left to the worker: it would read or write bytes as its own format."""
    why = f"must be set for this connector: {BYTES} does not change any bytes"
    return {name: [why] for name in CONVERTERS if not config.get(name)}


def target_topic(topic_format: str, topic: str) -> str:
    """Return the topic that a record of ``topic`` goes to."""
    return topic_format.replace(TOPIC_VARIABLE, topic)
