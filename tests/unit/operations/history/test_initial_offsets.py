"""KIP-995: a connector begins at the offsets it is created with, or it is not created and nothing is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.errors import RetriableError
from tests.unit.operations.history.history_workers import AlteredSource, HistoryWorkers

CONFIG = {"connector.class": "AlteredSource", "tasks.max": "1", "topic": "t", "records": "5"}
WORDS = "The offsets for this connector have been altered successfully"


def at(position: int, task: str = "a-0") -> dict[str, Any]:
    return {"partition": {"task": task}, "offset": {"position": position}}


def new(*offsets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "a", "config": CONFIG, "initial_offsets": list(offsets), **more}


def left_behind(group: HistoryWorkers) -> list[dict[str, Any]]:
    """Return the offsets of the name, by a connector that is made to look."""
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG, "initial_state": "STOPPED"})
    return list(group.ok("GET", "/connectors/a/offsets")["offsets"])


def test_it_begins_there_and_old_offsets_are_gone(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    group.ok("POST", "/connectors", new(at(1), at(4, "old"), initial_state="STOPPED"))
    group.ok("DELETE", "/connectors/a")
    answer = group.ok("POST", "/connectors", new(at(3)), worker=follower)
    assert list(answer) == ["name", "config", "tasks", "type", "offsets_status"]
    assert answer["offsets_status"] == WORDS
    group.cluster.until(lambda: group.position("a") == 5)
    assert group.ok("GET", "/connectors/a/offsets")["offsets"] == [at(5)]
    assert sorted(value.decode() for value in group.cluster.topics.values("t")) == ["a-0:3", "a-0:4"]
    assert "offsets_status" not in group.ok("GET", "/connectors/a")
    group.cluster.until(lambda: group.changes("a", "&kind=offsets")[0]["who"] == "127.0.0.1")
    newest = group.changes("a", "&kind=offsets")[0]
    assert newest["after"] == {"offsets": [at(3)]}


def test_a_sink_begins_there(group: HistoryWorkers) -> None:
    group.cluster.write("s", ["0", "1", "2"])
    offset = {"partition": {"kafka_topic": "s", "kafka_partition": 0}, "offset": {"kafka_offset": 2}}
    config = {"connector.class": "AlteredSink", "tasks.max": "1", "topics": "s"}
    body = {"name": "sink", "config": config, "initial_offsets": [offset]}
    assert group.ok("POST", "/connectors", body)["offsets_status"] == WORDS
    group.cluster.until(
        lambda: group.ok("GET", "/connectors/sink/offsets")["offsets"][0]["offset"]["kafka_offset"] == 3
    )
    from spark_connect_rt.testing.memory_connectors import delivered

    assert [record.value for record in delivered["sink"]] == ["2"]


def test_create_that_the_connector_refuses_leaves_nothing(group: HistoryWorkers) -> None:
    AlteredSource.refuses = True
    refused = group.asked("POST", "/connectors", new(at(3)))
    assert (refused.status_code, refused.json()["message"]) == (500, "Failed to modify offsets for source connector a")
    assert group.ok("GET", "/connectors") == []
    AlteredSource.refuses = False
    assert left_behind(group) == []


def test_a_class_that_does_not_look_at_offsets_says_what_is_left_to_do(group: HistoryWorkers) -> None:
    body = {**new(at(3)), "config": {**CONFIG, "connector.class": "MemorySource"}}
    words = group.ok("POST", "/connectors", body)["offsets_status"]
    assert words.startswith(
        "The Connect framework-managed offsets for this connector have been altered successfully. H"
    )


def test_a_configuration_that_is_not_written_puts_the_old_offsets_back(group: HistoryWorkers) -> None:
    group.ok("POST", "/connectors", new(at(1), initial_state="STOPPED"))
    group.ok("DELETE", "/connectors/a")
    group.cluster.config_topic.fail_next_append(RetriableError("injected"))
    assert group.asked("POST", "/connectors", new(at(3), at(4, "more"))).status_code == 500
    assert left_behind(group) == [at(1)]


def test_two_creations_of_one_name_do_not_meet(group: HistoryWorkers) -> None:
    leader = group.named(leads=True)
    group.cluster.offset_topic.stall(True)
    first = group.begin(leader, "POST", "/connectors", new(at(3)))
    group.cluster.until(lambda: bool(group.cluster.workers[leader].herder._loop.creates._under_way))
    for method, path, body in (
        ("POST", "/connectors", new(at(1))),
        ("POST", "/connectors", {"name": "a", "config": CONFIG}),
        ("PUT", "/connectors/a/config", CONFIG),
    ):
        second = group.asked(method, path, body, leader)
        assert (second.status_code, "is being created" in second.json()["message"]) == (409, True)
    group.cluster.offset_topic.stall(False)
    assert first.result(20).status_code == 201
    assert group.asked("POST", "/connectors", new(at(1))).status_code == 409


@pytest.mark.parametrize(
    "offsets",
    [[], {}, "x", [1], [{"partition": 1}], [{"offset": {}, "x": 1}], [{"partition": {"a": {}}, "offset": {"b": []}}]],
)
def test_offsets_that_are_invalid_are_400(group: HistoryWorkers, offsets: object) -> None:
    answer = group.asked("POST", "/connectors", {**new(), "initial_offsets": offsets})
    assert answer.status_code == 400, answer.text
    assert group.ok("GET", "/connectors") == []
