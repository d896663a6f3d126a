"""One state for a connector and its tasks."""

from __future__ import annotations

import pytest

from spark_connect_rt.runtime.values import STATES
from spark_connect_rt.topics.aggregate_state import AGGREGATES, aggregate_rank, aggregate_state


@pytest.mark.parametrize(
    ("connector", "tasks", "aggregate"),
    [
        ("RUNNING", {"RUNNING": 3}, "RUNNING"),
        ("RUNNING", {}, "RUNNING"),
        ("RUNNING", {"FAILED": 3}, "FAILED"),
        ("FAILED", {}, "FAILED"),
        ("FAILED", {"RUNNING": 2}, "FAILED"),
        ("RUNNING", {"RUNNING": 2, "FAILED": 1}, "DEGRADED"),
        ("RUNNING", {"FAILED": 1, "UNASSIGNED": 1}, "DEGRADED"),
        ("RUNNING", {"RUNNING": 2, "UNASSIGNED": 1}, "DEGRADED"),
        ("RUNNING", {"UNASSIGNED": 2}, "UNASSIGNED"),
        ("UNASSIGNED", {}, "UNASSIGNED"),
        ("UNASSIGNED", {"RUNNING": 1}, "UNASSIGNED"),
        ("RUNNING", {"RUNNING": 1, "RESTARTING": 1}, "RESTARTING"),
        ("PAUSED", {"RUNNING": 1, "PAUSED": 1}, "PAUSED"),
        ("PAUSED", {"PAUSED": 1, "FAILED": 1}, "DEGRADED"),
        ("STOPPED", {}, "STOPPED"),
        ("RUNNING", {"PAUSED": 2}, "RUNNING"),
    ],
)
def test_the_worst_of_both_is_reported(connector: str, tasks: dict[str, int], aggregate: str) -> None:
    assert aggregate_state(connector, tasks) == aggregate


def test_a_connector_that_cannot_make_its_tasks_is_degraded() -> None:
    assert aggregate_state("RUNNING", {}, has_error=True) == "DEGRADED"
    assert aggregate_state("RUNNING", {"RUNNING": 1}, has_error=True) == "DEGRADED"
    assert aggregate_state("FAILED", {}, has_error=True) == "FAILED"
    assert aggregate_state("STOPPED", {}, has_error=True) == "STOPPED"


def test_every_state_of_java_has_a_rank_and_failures_come_first() -> None:
    assert set(STATES) | {"DEGRADED"} == set(AGGREGATES)
    assert sorted(["RUNNING", "SOMETHING", "DEGRADED", "FAILED"], key=aggregate_rank) == [
        *("FAILED", "DEGRADED", "RUNNING", "SOMETHING"),
    ]
