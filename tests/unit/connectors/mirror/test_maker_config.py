"""The file of a dedicated MirrorMaker; what Java makes of whole files is in tests/parity/golden."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.worker_settings import unknown_settings
from spark_connect_rt.connectors.mirror.config import MIRROR_CHECKPOINT, MIRROR_SOURCE
from spark_connect_rt.connectors.mirror.maker_config import NEW_NAMES, MirrorMakerConfig, SourceAndTarget
from spark_connect_rt.errors import BadConfigError

A_TO_B, B_TO_A = SourceAndTarget("A", "B"), SourceAndTarget("B", "A")
FILE = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}


def test_the_flow_back_runs_for_its_heartbeats_and_replicates_nothing() -> None:
    config = MirrorMakerConfig(FILE)
    assert (config.flows(), config.replicating()) == ([A_TO_B, B_TO_A], [A_TO_B])
    assert MirrorMakerConfig({**FILE, "emit.heartbeats.enabled": "false"}).flows() == [A_TO_B]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("topic.blacklist", "topics.exclude"),
        ("topics.blacklist", "topics.exclude"),
        ("groups.blacklist", "groups.exclude"),
        ("config.properties.blacklist", "config.properties.exclude"),
        ("sync.topics.configs.enabled", "sync.topic.configs.enabled"),
        ("A->B.topics.blacklist", "A->B.topics.exclude"),
    ],
)
def test_a_name_that_nothing_reads_any_more_is_refused_with_its_new_one(old: str, new: str) -> None:
    """Java ignores it and copies what a user has excluded."""
    with pytest.raises(BadConfigError) as refused:
        MirrorMakerConfig({**FILE, old: "secret.*"})
    assert refused.value.problems == {
        old: [f"this setting has no effect, because its name is {new} since Kafka 4. Rename it or remove it"]
    }
    MirrorMakerConfig({**FILE, new: "secret.*"})


def test_every_new_name_is_a_setting_of_a_mirror_connector() -> None:
    declared = {*MIRROR_SOURCE.names(), *MIRROR_CHECKPOINT.names()}
    assert set(NEW_NAMES.values()) <= declared
    assert not NEW_NAMES.keys() & declared


def test_targets_choose_the_flows() -> None:
    assert MirrorMakerConfig(FILE).flows(["A"]) == [B_TO_A]
    with pytest.raises(BadConfigError, match=r"C .--clusters. is not one of the clusters"):
        MirrorMakerConfig(FILE).flows(["A", "C"])


def test_a_file_without_flows_or_addresses_is_refused() -> None:
    with pytest.raises(BadConfigError, match="no flow"):
        MirrorMakerConfig({"clusters": "A"}).flows()
    with pytest.raises(BadConfigError) as refused:
        MirrorMakerConfig({"clusters": "A,B"}).flows()
    assert sorted(refused.value.problems) == ["A.bootstrap.servers", "B.bootstrap.servers"]
    with pytest.raises(BadConfigError, match="clusters"):
        MirrorMakerConfig({})


def test_settings_of_the_process_reach_every_flow_and_no_connector() -> None:
    config = MirrorMakerConfig({**FILE, "spark.master": "local[*]", "connectrt.log.level": "DEBUG"})
    for flow in config.flows():
        worker = config.worker_config(flow)
        assert (worker["spark.master"], worker["connectrt.log.level"]) == ("local[*]", "DEBUG")
        assert not {"spark.master", "connectrt.log.level"} & config.connector_config(flow, "any").keys()


def test_a_flows_worker_is_not_warned_of_settings_that_its_connectors_have() -> None:
    top = {"tasks.max": "2", "tasks.max.enforce": "false", "replication.policy.separator": "-", "task.maxx": "1"}
    config = MirrorMakerConfig({**FILE, **top, "B.tasks.max": "3"})
    flow = SourceAndTarget("A", "B")
    assert unknown_settings(config.worker_settings(flow)) == ["unknown setting task.maxx has no effect"]
    assert config.connector_config(flow, "any")["tasks.max"] == "2"
    assert "key.converter" in config.worker_settings(flow)


def test_a_clients_settings_are_the_clusters_and_its_references_looked_up() -> None:
    config = MirrorMakerConfig({**FILE, "A.sasl.mechanism": "PLAIN"}, lambda settings: {**settings, "seen": "yes"})
    properties = config.client_properties("A")
    assert (properties["bootstrap.servers"], properties["consumer.sasl.mechanism"]) == ("a:1", "PLAIN")
    assert properties["seen"] == "yes"
