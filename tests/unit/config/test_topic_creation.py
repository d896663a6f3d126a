"""Which topics a source connector has made, and how."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.config.topic_creation import TopicCreation
from spark_connect_rt.runtime.worker.launches import TaskSpec, connector_facts, make_launch
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.worker_settings import worker_settings

CONFIG = {
    "topic.creation.groups": "logs, narrow",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "2",
    "topic.creation.default.include": "never read",
    "topic.creation.default.cleanup.policy": "compact",
    "topic.creation.logs.include": "log-.*,other",
    "topic.creation.logs.exclude": "log-x.*",
    "topic.creation.logs.retention.ms": "1000",
    "topic.creation.narrow.include": "log-x1|log-.*",
    "topic.creation.narrow.partitions": "1",
    "topic.creation.narrow.replication.factor": "-1",
}


def creation(config: dict[str, str]) -> TopicCreation:
    made = TopicCreation.from_config(config)
    assert made is not None
    return made


def test_the_first_group_that_matches_counts_and_the_default_comes_last() -> None:
    groups = creation(CONFIG)
    names = {topic: groups.group_of(topic).name for topic in ("log-a", "other", "log-x1", "log-x2", "xlog-a", "others")}
    assert names == {
        "log-a": "logs",
        "other": "logs",
        "log-x1": "narrow",  # excluded from the first group
        "log-x2": "narrow",
        "xlog-a": "default",  # a pattern is for the whole name
        "others": "default",
    }


def test_a_group_takes_what_it_does_not_say_from_the_default_but_no_topic_settings() -> None:
    groups = creation(CONFIG)
    logs, narrow, default = (groups.group_of(topic) for topic in ("log-a", "log-x1", "elsewhere"))
    assert (logs.partitions, logs.replication_factor, logs.settings) == (3, 2, {"retention.ms": "1000"})
    assert (narrow.partitions, narrow.replication_factor, narrow.settings) == (1, -1, {})
    assert (default.partitions, default.replication_factor) == (3, 2)
    assert default.settings == {"cleanup.policy": "compact"}


def test_topics_are_made_only_when_the_connector_says_how_and_the_worker_lets_it() -> None:
    assert TopicCreation.from_config({"name": "a"}) is None
    assert not topic_admin({}, {"name": "a"})
    assert topic_admin({}, CONFIG)
    assert not topic_admin({"topic.creation.enable": "False"}, CONFIG)


def topic_admin(worker: dict[str, str], connector: dict[str, str]) -> Mapping[str, str]:
    spec = TaskSpec(ConnectorTaskId("a", 0), NO_SETTINGS, StoredConfig(connector))
    return make_launch(spec, connector_facts(MemorySource(), connector), worker_settings(worker), 1, 1).topic_admin
