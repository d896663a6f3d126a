"""What is abnormal, in one line, the worst first."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.traces import LINE, last_line
from spark_connect_rt.operations.overview.selection import LONG_MS, InstanceFacts, any_loud, why_abnormal

NOW = 1_700_000_000_000
RUNS = InstanceFacts(None, "RUNNING", "w:1")


def task(number: int, state: str = "RUNNING", **facts: object) -> InstanceFacts:
    return InstanceFacts(number, state, **{"worker_id": "w:1", **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("instances", "why"),
    [
        ([RUNS, task(0)], ""),
        ([InstanceFacts(None, "PAUSED"), task(0, "PAUSED")], ""),
        ([InstanceFacts(None, "STOPPED")], ""),
        ([InstanceFacts(None, "FAILED", error="no such class")], "the connector FAILED: no such class"),
        ([RUNS, task(0), task(1, "FAILED", error="boom")], "task 1 FAILED: boom"),
        ([RUNS, task(0, "FAILED", error="a"), task(1, "FAILED"), task(2)], "2 of 3 tasks FAILED: a"),
        (
            [InstanceFacts(None, "FAILED", error="e"), task(0, "FAILED")],
            "the connector and 1 of 1 tasks FAILED: e",
        ),
        ([RUNS, task(0, "FAILED", error="e", next_attempt_ms=5)], "task 0 FAILED: e (restarts automatically)"),
        (
            [RUNS, task(0, "FAILED", error="e", given_up="5 restarts did not help")],
            "task 0 FAILED: e (no further restart: 5 restarts did not help)",
        ),
        ([RUNS, task(0, stalled="put() has not returned")], "task 0 moves nothing: put() has not returned"),
        ([RUNS, task(0, "UNASSIGNED", since_ms=NOW - LONG_MS + 1)], ""),
        ([RUNS, task(0, "UNASSIGNED", since_ms=NOW - LONG_MS)], "task 0 UNASSIGNED for 60 s"),
        ([RUNS, task(0, "RESTARTING", since_ms=NOW - 600_000)], "task 0 RESTARTING for 10 min"),
        ([RUNS, task(0, "UNASSIGNED")], ""),  # since when is not known
    ],
)
def test_each_kind(instances: list[InstanceFacts], why: str) -> None:
    assert why_abnormal(instances, NOW) == why


def test_several_reasons_are_in_one_line_and_failures_come_first() -> None:
    instances = [RUNS, task(0, stalled="it waits"), task(1, "FAILED", error="boom")]
    why = why_abnormal(instances, NOW, lag=12, lag_grows=True)
    assert (
        why == "task 1 FAILED: boom; task 0 moves nothing: it waits; its lag has grown for ten minutes, to 12 records"
    )


def test_a_worker_that_left_the_group_is_named() -> None:
    instances = [RUNS, task(0, worker_id="gone:1", since_ms=1)]
    assert "worker gone:1 has left the group" in why_abnormal(instances, NOW, members=frozenset({"w:1"}))
    assert why_abnormal(instances, NOW, members=frozenset({"w:1", "gone:1"})) == ""
    assert why_abnormal(instances, NOW, members=None) == ""
    assert why_abnormal(instances, NOW, members=frozenset()) == ""


def test_a_gone_worker_is_named_though_the_state_is_old_or_its_time_unknown() -> None:
    assert "has left the group" in why_abnormal([RUNS, task(0, worker_id="x:1")], NOW, members=frozenset({"w:1"}))


def test_a_connector_that_cannot_make_its_tasks_is_abnormal() -> None:
    broken = InstanceFacts(None, "RUNNING", "w:1", error="password authentication failed for user shop")
    assert why_abnormal([broken], NOW) == (
        "cannot make its tasks, and tries again: password authentication failed for user shop"
    )
    assert any_loud([broken])
    assert why_abnormal([RUNS, task(0, error="the last run failed")], NOW) == ""


def test_a_line_is_cut() -> None:
    assert len(last_line("ValueError: " + "x" * 10_000)) == LINE
    many = [RUNS, *(task(n, "FAILED", error="e" * 299, given_up="g" * 400) for n in range(5))]
    assert len(why_abnormal(many, NOW)) <= 2 * LINE


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (None, ""),
        ("", ""),
        ('Traceback (most recent call last):\n  File "x", line 1\nValueError: no\n', "ValueError: no"),
        (
            "org.x.ConnectException: cannot\n\tat a.b(C.java:1)\nCaused by: java.io.IOException: away\n\tat d",
            "IOException: away",
        ),
        ("java.lang.RuntimeException: why\n\tat a.b(C.java:1)\n\t... 5 more", "RuntimeException: why"),
        ("spark_connect_rt.errors.DataError: the value is no struct", "the value is no struct"),
        ("java.net.UnknownHostException: db.local\n\tat a", "UnknownHostException: db.local"),
        ("org.x.ConnectException: the file /tmp/x.y: z is away\n\tat a", "the file /tmp/x.y: z is away"),
        ("psycopg.errors.Undefined$Table\n", "Undefined$Table"),
        (
            'Traceback (most recent call last):\n  File "x", line 1\n    connect()\n'
            "psycopg.OperationalError: connection to server at db, port 5433 failed: refused\n"
            "\tIs the server running on that host and accepting TCP/IP connections?\n",
            "connection to server at db, port 5433 failed: refused",
        ),
        (
            "connection to server at db failed: refused\n\tIs the server running?",
            "connection to server at db failed: refused",
        ),
        ("see docs.Page: it says more of this", "see docs.Page: it says more of this"),
    ],
)
def test_the_line_of_a_trace(trace: str | None, line: str) -> None:
    assert last_line(trace) == line


def test_time_changes_the_verdict_of_the_loud_only() -> None:
    assert not any_loud([RUNS, task(0, "PAUSED")])
    assert any_loud([RUNS, task(0, "UNASSIGNED")])
