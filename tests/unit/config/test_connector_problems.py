"""Problems that involve several settings of a connector: override policy, topic creation, dead letters, groups."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.connector_config import connector_problems, source_problems
from spark_connect_rt.config.override_policy import (
    is_plugin,
    known_policy,
    override_problems,
    policy_name,
    used_prefixes,
)

OVERRIDES = {
    "producer.override.acks": "1",
    "consumer.override.sasl.mechanism": "PLAIN",
    "admin.override.security.protocol": "SSL",
    "producer.override": "no setting of a client",
}


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", set()),
        ("org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy", set()),
        (
            "None",
            {"producer.override.acks", "consumer.override.sasl.mechanism", "admin.override.security.protocol"},
        ),
        ("NoneConnectorClientConfigOverridePolicy", set(OVERRIDES) - {"producer.override"}),
        ("Principal", {"producer.override.acks"}),
    ],
)
def test_the_override_policy_decides(policy: str, refused: set[str]) -> None:
    assert set(override_problems(OVERRIDES, policy)) == refused


@pytest.mark.parametrize(
    ("sink", "config", "clients"),
    [
        (False, {}, ["producer"]),
        (False, {"topic.creation.default.partitions": "1"}, ["producer", "admin"]),
        (True, {"topics": "a", "errors.deadletterqueue.topic.name": " "}, ["consumer", "admin"]),
        (True, {"errors.deadletterqueue.topic.name": "dead"}, ["producer", "consumer", "admin"]),
    ],
)
def test_only_overrides_of_clients_that_there_are_count(sink: bool, config: dict[str, str], clients: list[str]) -> None:
    used = used_prefixes(config, sink=sink)
    assert used == tuple(f"{client}.override." for client in clients)
    assert {name.partition(".")[0] for name in override_problems(OVERRIDES, "None", used)} == set(clients)


def test_a_refused_override_has_javas_words() -> None:
    assert override_problems({"producer.override.acks": "1"}, "Principal") == {
        "producer.override.acks": [
            "The 'Principal' policy does not allow 'acks' to be overridden in the connector configuration."
        ]
    }


def test_an_unknown_policy_is_refused_and_would_allow_nothing() -> None:
    assert policy_name("Mine") is None
    assert known_policy("Mine") == "No such override policy. Use one of All, None, Principal, or the class of a plug-in"
    assert known_policy("org.apache.kafka.connect.connector.policy.Mine") is not None
    assert known_policy("Principal") is None
    assert set(override_problems({"admin.override.a": "1"}, "Mine")) == {"admin.override.a"}


def test_a_plugin_s_policy_is_asked_by_the_herder() -> None:
    assert is_plugin("com.example.Mine")
    assert is_plugin("mine.policies:Mine")
    assert known_policy("com.example.Mine") is None
    assert override_problems({"admin.override.a": "1"}, "com.example.Mine") == {}


def test_groups_of_new_topics_need_defaults_and_patterns() -> None:
    assert source_problems({"name": "a"}) == {}
    complete = {
        "topic.creation.groups": "logs",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "3",
        "topic.creation.logs.include": "log-.*,other",
    }
    assert source_problems(complete) == {}
    assert set(source_problems({"topic.creation.groups": "logs"})) == {
        "topic.creation.default.replication.factor",
        "topic.creation.default.partitions",
    }
    wrong = {
        **complete,
        "topic.creation.default.partitions": "0",
        "topic.creation.logs.exclude": "(",
        "topic.creation.logs.replication.factor": "many",
    }
    assert set(source_problems(wrong)) == {
        "topic.creation.default.partitions",
        "topic.creation.logs.exclude",
        "topic.creation.logs.replication.factor",
    }
    assert source_problems({"topic.creation.groups": "g1, g2, g1"}) == {}  # its own validator complains
    assert set(source_problems({"topic.creation.default.partitions": "1"})) == {
        "topic.creation.default.replication.factor"
    }


@pytest.mark.parametrize(
    ("sink", "config", "named"),
    [
        (True, {"topics": "a"}, set()),
        (True, {"topics": "a", "errors.deadletterqueue.topic.name": "dead"}, set()),
        (True, {"topics": "a", "consumer.override.group.id": "workers"}, {"consumer.override.group.id"}),
        (False, {}, set()),
        (False, {"errors.deadletterqueue.topic.name": "dead"}, set()),
        (
            False,
            {"errors.deadletterqueue.topic.replication.factor": "0"},
            {"errors.deadletterqueue.topic.replication.factor"},
        ),
        (False, {"topic.creation.default.partitions": "-1"}, {"topic.creation.default.replication.factor"}),
    ],
)
def test_settings_that_are_wrong_together_are_named(sink: bool, config: dict[str, str], named: set[str]) -> None:
    assert set(connector_problems({"name": "n", **config}, sink=sink, worker_group="workers")) == named


def test_every_kind_of_problem_is_reported_at_once() -> None:
    config = {
        "name": "n",
        "consumer.override.group.id": "g",
        "topics": "a",
        "topics.regex": "b",
        "errors.deadletterqueue.topic.name": "a",
    }
    problems = connector_problems(config, sink=True, worker_group="g")
    assert set(problems) >= {"consumer.override.group.id", "topics", "topics.regex"}
    assert len(problems["topics"]) == 2


def test_patterns_are_javas() -> None:
    named = {"topics.regex": r"(?<kind>\p{Alpha}+)-dlq", "errors.deadletterqueue.topic.name": "sales-dlq"}
    problems = connector_problems({"name": "n", **named}, sink=True, worker_group="")
    assert "'sales-dlq' may not be matched by the regex" in problems["topics.regex"][0]
