"""Damage that real groups have met, written record by record."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.topics.store_check import (
    Severity,
    Stored,
    StoreFinding,
    TopicShape,
    record_findings,
    topic_findings,
)

NAMES = {"configs": "c", "offsets": "o", "statuses": "s"}
SHAPE = TopicShape("configs", "c", (3,), (3,), "compact", 3, 3)


def records(*pairs: tuple[str, Any]) -> list[RawRecord]:
    return [
        (0, at, key.encode(), value if isinstance(value, bytes | None) else json.dumps(value).encode(), at)
        for at, (key, value) in enumerate(pairs)
    ]


def connector(name: str = "a") -> tuple[str, Any]:
    return (f"connector-{name}", {"properties": {"name": name}})


def task(number: int, name: str = "a") -> tuple[str, Any]:
    return (f"task-{name}-{number}", {"properties": {"n": str(number)}})


def commit(count: int, name: str = "a") -> tuple[str, Any]:
    return (f"commit-{name}", {"tasks": count})


HEALTHY = (connector(), task(0), task(1), commit(2))


def found(*configs: tuple[str, Any], **rest: Any) -> dict[str, StoreFinding]:
    stored = Stored(NAMES, records(*configs), rest.pop("offsets", ()), rest.pop("statuses", ()), **rest)
    return {finding.code: finding for finding in record_findings(stored)}


def test_a_healthy_group_has_no_findings() -> None:
    running = {"state": "RUNNING", "trace": None, "worker_id": "w", "generation": 1}
    assert (
        found(
            *HEALTHY,
            ("tasks-fencing-a", {"task-count": 2}),
            offsets=records(('["a",{"f":"x"}]', {"p": 1}), ('["gone",{}]', {"p": 1}), ('["gone",{}]', None)),
            statuses=records(("status-connector-a", running), ("status-task-a-1", running)),
            group_runs=True,
            exactly_once=True,
        )
        == {}
    )


def test_task_configs_lost_to_compaction() -> None:
    finding = found(connector(), task(1), commit(2))["lost-tasks"]
    assert finding.severity is Severity.DAMAGE
    assert "[0]" in finding.explanation
    assert finding.repair == ()


def test_tasks_compacted_behind_their_commit_are_repaired_by_rewriting_them() -> None:
    broken = (connector(), commit(2), task(0), task(1))
    finding = found(*broken)["tasks-without-commit"]
    assert [key for key, _ in finding.repair] == [b"task-a-0", b"task-a-1", b"commit-a"]
    mended = [*records(*broken)]
    mended += [(0, len(mended) + at, key, value, 0) for at, (key, value) in enumerate(finding.repair)]
    assert record_findings(Stored(NAMES, mended, (), ())) == []


def test_overtaken_commit_is_rewritten_before_compaction_loses_it() -> None:
    overtaken = (*HEALTHY, connector())
    finding = found(*overtaken)["overtaken-commit"]
    assert [key for key, _ in finding.repair] == [b"task-a-0", b"task-a-1", b"commit-a"]
    lost = found(*overtaken[1:])
    assert set(lost) == {"commit-before-connector"}
    assert lost["commit-before-connector"].repair == ()


def test_a_leader_that_died_before_its_commit() -> None:
    assert "[0]" in found(*HEALTHY, task(0))["uncommitted-tasks"].explanation
    assert found(connector())["no-commit"].severity is Severity.WARNING


def test_task_count_records_matter_with_exactly_once_only() -> None:
    assert "no-task-count" in found(*HEALTHY, exactly_once=True)
    assert found(*HEALTHY) == {}


def test_leftovers_of_a_deleted_connector_are_found() -> None:
    left = found(
        *HEALTHY,
        ("connector-a", None),
        ("target-state-b", {"state": "PAUSED"}),
        offsets=records(('["a",{"f":"x"}]', {"p": 1}), ('["a",{"f":"y"}]', {"p": 1})),
        statuses=records(("status-topic-t:connector-a", {"topic": _topic_status()})),
    )
    assert set(left) == {"dead-tasks", "orphan-target-state", "offsets-of-deleted", "statuses-of-deleted"}
    assert left["orphan-target-state"].repair == ((b"target-state-b", None),)
    assert len(left["offsets-of-deleted"].repair) == 2
    assert left["statuses-of-deleted"].repair == ((b"status-topic-t:connector-a", None),)
    assert left["dead-tasks"].repair == ()


@pytest.mark.parametrize(
    "bad",
    [("connector-b", b"{"), ("connector-b", {"properties": {"x": 1}}), ("commit-a", {}), ("task-a", {}), ("what", {})],
)
def test_a_config_record_that_workers_ignore(bad: tuple[str, Any]) -> None:
    assert found(*HEALTHY, bad)["unreadable-config"].subject == bad[0]


def test_a_bad_record_that_was_replaced_is_not_a_finding() -> None:
    assert found(("connector-a", b"{"), *HEALTHY) == {}


def test_unreadable_offsets() -> None:
    offsets = records(('["a",{}]', b"\xff"), ("[", {"p": 1}), ('["a"]', {"p": 1}))
    assert found(*HEALTHY, offsets=offsets)["unreadable-offset"].severity is Severity.DAMAGE


def test_one_source_partition_under_two_keys() -> None:
    offsets = records(('["a",{"f":1,"g":2}]', {"p": 1}), ('["a",{"g":2,"f":1}]', {"p": 2}))
    assert "2 keys" in found(*HEALTHY, offsets=offsets)["double-offset"].explanation


@pytest.mark.parametrize(("kind", "key"), [("offsets", '["a",{"f":1}]'), ("statuses", "status-connector-a")])
def test_a_key_with_live_records_in_several_partitions_is_named_with_them(kind: str, key: str) -> None:
    value = {"state": "PAUSED", "trace": None, "worker_id": "w", "generation": 1}
    (first,) = records((key, value))
    elsewhere, moved = (2, 0, *first[2:]), (3, 0, first[2], None, first[4])
    finding = found(*HEALTHY, **{kind: [first, elsewhere, moved]})["scattered-key"]
    assert finding.subject == key
    assert "partitions [0, 2]" in finding.explanation
    assert "scattered-key" not in found(*HEALTHY, **{kind: [first, moved]})


def test_statuses_of_workers_that_were_killed_and_of_tasks_that_are_gone() -> None:
    running = {"state": "RUNNING", "trace": None, "worker_id": "w", "generation": 1}
    statuses = records(("status-connector-a", running), ("status-task-a-2", running), ("status-x", {}))
    codes = found(*HEALTHY, statuses=statuses)
    assert codes["statuses-of-deleted"].repair == ((b"status-task-a-2", None),)
    assert "2 statuses" in codes["stale-running"].explanation
    assert codes["unknown-status"].subject == "status-x"
    assert "stale-running" not in found(*HEALTHY, statuses=statuses, group_runs=True)
    bad = records(("status-connector-a", {"state": "DOZING", "worker_id": "w", "generation": 1}))
    assert "unreadable-status" in found(*HEALTHY, statuses=bad)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, None),
        ({"cleanup_policy": None}, None),
        ({"wanted_replication": -1, "replicas": (1,), "in_sync": (1,)}, None),
        ({"replicas": (1,), "in_sync": (1,), "brokers": 1}, None),  # no more is possible
        ({"cleanup_policy": "compact,delete"}, "wrong-cleanup-policy"),
        ({"replicas": (3, 3), "in_sync": (3, 3)}, "wrong-partition-count"),
        ({"replicas": (1,), "in_sync": (1,)}, "few-replicas"),
        ({"in_sync": (2,)}, "out-of-sync"),
        ({"replicas": (), "in_sync": ()}, "no-topic"),
    ],
)
def test_the_topic_itself(change: dict[str, Any], code: str | None) -> None:
    assert [finding.code for finding in topic_findings(replace(SHAPE, **change))] == ([code] if code else [])


def _topic_status() -> dict[str, Any]:
    return {"name": "t", "connector": "a", "task": 0, "discoverTimestamp": 1}
