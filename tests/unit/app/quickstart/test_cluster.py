"""Which node of an embedded cluster is what; the processes are tests/integration/kafka/test_coordinator_moves.py's."""

from __future__ import annotations

from spark_connect_rt.app.quickstart.embedded_cluster import node_properties
from spark_connect_rt.app.quickstart.embedded_kafka import log_config, new_cluster_id

PORTS = {1: 9001, 2: 9002}


def test_node_1_is_the_controller_too() -> None:
    first, second = (node_properties(node, PORTS, 9_000) for node in PORTS)
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == "PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9000"
    assert second["process.roles"] == "broker"
    assert second["listeners"] == second["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9002"
    assert {properties["controller.quorum.voters"] for properties in (first, second)} == {"1@127.0.0.1:9000"}


def test_internal_topics_have_as_many_copies_as_there_are_brokers_up_to_three() -> None:
    for count, copies in ((1, "1"), (2, "2"), (5, "3")):
        ports = {node: 9_000 + node for node in range(1, count + 1)}
        assert node_properties(1, ports, 9_000)["offsets.topic.replication.factor"] == copies


def test_a_loggers_level_is_its_own() -> None:
    assert 'Logger: [{name: "a.B", level: info}]' in log_config({"a.B": "info"})
    assert "Logger: []" in log_config({})


def test_a_cluster_id_is_22_characters_and_never_looks_like_an_option() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    assert {len(id_) for id_ in ids} == {22}
    assert not any(id_.startswith("-") for id_ in ids)
