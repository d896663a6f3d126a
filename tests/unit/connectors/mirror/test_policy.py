"""Names of remote topics, there and back; loops."""

from __future__ import annotations

import sys

import pytest

from spark_connect_rt.connectors.mirror import named_class
from spark_connect_rt.connectors.mirror.filters import (
    FILTERS,
    GROUP_FILTER,
    TOPIC_FILTER,
    DefaultTopicFilter,
    TopicSelection,
    group_filter,
    property_filter,
    topic_filter,
)
from spark_connect_rt.connectors.mirror.policy import (
    POLICY_CLASS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
    is_own_copy,
    replication_policy,
)
from spark_connect_rt.engine.process_plugins import plugins_of
from spark_connect_rt.errors import BadConfigError

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class BracketPolicy(DefaultReplicationPolicy):
    """A user's own: the alias in brackets."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}[{source_alias}]"


def test_names_go_there_and_back_over_several_hops() -> None:
    policy = DefaultReplicationPolicy()
    twice = policy.format_remote_topic("B", policy.format_remote_topic("A", "t.x"))
    assert twice == "B.A.t.x"
    assert (policy.topic_source(twice), policy.upstream_topic(twice)) == ("B", "A.t.x")
    assert policy.original_topic(twice) == "x"  # as Java: every dot looks like a hop
    assert is_cycle(policy, twice, "A")
    assert not is_cycle(policy, twice, "C")


@pytest.mark.parametrize("alias", ["A", "B"])
def test_a_topic_of_a_cluster_with_two_aliases_is_copied_once(alias: str) -> None:
    """Each refresh lists what the one before has created."""
    wanted = DefaultTopicFilter()
    wanted.configure({"topics": ".*", "topics.exclude": ""})
    selection = TopicSelection(wanted, DefaultReplicationPolicy(), "A", "B", heartbeats=True)
    topics = {"orders", "heartbeats"}
    for _ in range(4):
        topics |= {f"A.{topic}" for topic in topics if topic in selection}
    assert topics == {"orders", "heartbeats", "A.orders", "A.heartbeats"}
    assert selection.own_copies(topics) == ["A.heartbeats", "A.orders"]
    identity = replication_policy({"replication.policy.class": IDENTITY, "source.cluster.alias": "A"})
    assert "orders" in TopicSelection(wanted, identity, "A", "B", heartbeats=True)  # names show nothing
    assert is_own_copy(DefaultReplicationPolicy(), f"C.{alias}.x", "A") is (alias == "A")


def test_identity_keeps_names_but_those_of_heartbeats_and_sees_no_loop_by_them() -> None:
    policy = replication_policy({"replication.policy.class": IDENTITY, "source.cluster.alias": "A"})
    assert isinstance(policy, IdentityReplicationPolicy)
    assert (policy.format_remote_topic("A", "t"), policy.topic_source("t"), policy.upstream_topic("t")) == (
        "t",
        "A",
        "t",
    )
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert policy.is_heartbeats_topic("B.A.heartbeats")
    assert is_cycle(policy, "t", "A")
    assert not is_cycle(policy, "t", "B")


def test_internal_topics_are_named_with_the_separator_by_default() -> None:
    config = {"replication.policy.separator": "_"}
    assert replication_policy(config).offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    dots = replication_policy({**config, "replication.policy.internal.topic.separator.enabled": "false"})
    assert dots.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert dots.checkpoints_topic("A") == "A.checkpoints.internal"
    assert dots.format_remote_topic("A", "t") == "A_t"


@pytest.mark.parametrize("name", [f"{__name__}.BracketPolicy", f"{__name__}:BracketPolicy"])
def test_a_policy_of_ones_own_is_named_by_its_class(name: str) -> None:
    policy: ReplicationPolicy = replication_policy({"replication.policy.class": name})
    assert policy.format_remote_topic("A", "t") == "t[A]"


@pytest.mark.parametrize("setting", [POLICY_CLASS, *FILTERS])
def test_a_worker_imports_only_what_it_allows(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_class, "_may_import", named_class._may_import)  # as before, behind the test
    named_class.import_only(plugins_of({"connectrt.plugins.modules": "tests.unit.connectors.mirror"}).may_import)
    made = {POLICY_CLASS: replication_policy, TOPIC_FILTER: topic_filter, GROUP_FILTER: group_filter}
    make = made.get(setting, property_filter)
    forbidden = "tests.unit.plugins.never_imported"
    for name in (f"{forbidden}:Any", f"{forbidden}.Any"):
        with pytest.raises(BadConfigError, match=r"connectrt\.plugins\.modules") as caught:
            make({setting: name})
        assert list(caught.value.problems) == [setting]
    assert forbidden not in sys.modules
    assert make({}) is not None
    assert isinstance(make({setting: f"{__name__}:BracketPolicy"}), BracketPolicy)


def test_a_class_that_is_not_there_and_an_empty_separator_are_named() -> None:
    for config in ({"replication.policy.class": "no.such.Policy"}, {"replication.policy.separator": ""}):
        with pytest.raises(BadConfigError) as caught:
            replication_policy(config)
        assert list(caught.value.problems) == list(config)


def test_flow_copies_wanted_topics_and_heartbeats_but_no_internal_topics_or_loops() -> None:
    wanted = DefaultTopicFilter()
    wanted.configure({"topics": "orders.*, B.*", "topics.exclude": ""})
    topics = [
        "orders",
        "other",
        "B.orders",
        "heartbeats",
        "C.heartbeats",
        "B.heartbeats",
        "B.checkpoints.internal",
        "__x",
    ]
    for heartbeats, more in ((True, {"heartbeats", "C.heartbeats"}), (False, set())):
        selection = TopicSelection(wanted, DefaultReplicationPolicy(), "A", "B", heartbeats)
        assert {topic for topic in topics if topic in selection} == {"orders"} | more
