"""Which rows a page shows."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.overview.model import ConnectorRow
from spark_connect_rt.operations.overview.selection import LIMIT_MOST, OverviewQuery, counted, selected
from spark_connect_rt.topics.aggregate_state import aggregate_state


def row(name: str, state: str = "RUNNING", **given: object) -> ConnectorRow:
    shown = {"type": "source", "class_name": "org.x.FileSource", "worker_id": "w", "tasks": {state: 1}, **given}
    shown["aggregate"] = aggregate_state(state, shown["tasks"])  # type: ignore[arg-type]
    return ConnectorRow(name=name, state=state, **shown)  # type: ignore[arg-type]


ROWS = [
    row("orders-sink", type="sink", class_name="JdbcSink", lag=50, records_per_second=1.0),
    row("Customers", "PAUSED", records_per_second=None),
    row("broken", tasks={"RUNNING": 4, "FAILED": 1}, abnormal=True, records_per_second=9.0),
    row("a-last", "FAILED", abnormal=True, lag=7, records_per_second=0.0),
]


def names(**query: str) -> list[str]:
    return [connector_row.name for connector_row in selected(ROWS, OverviewQuery.of(query))[0]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["a-last", "broken", "Customers", "orders-sink"]),
        ({"sort": "name"}, ["Customers", "a-last", "broken", "orders-sink"]),
        ({"sort": "rate"}, ["broken", "orders-sink", "a-last", "Customers"]),
        ({"sort": "lag"}, ["orders-sink", "a-last", "Customers", "broken"]),
        ({"search": "CUSTOM"}, ["Customers"]),
        ({"search": "jdbc"}, ["orders-sink"]),
        ({"search": "%"}, []),
        ({"state": "PAUSED"}, ["Customers"]),
        ({"state": "failed"}, ["a-last", "broken"]),  # one FAILED task is what is looked for
        ({"state": "RUNNING"}, ["orders-sink"]),
        ({"state": "DEGRADED"}, ["broken"]),
        ({"state": "PAUSED,FAILED"}, ["a-last", "broken", "Customers"]),
        ({"type": "sink"}, ["orders-sink"]),
        ({"abnormal": "true"}, ["a-last", "broken"]),
        ({"abnormal": "false", "limit": "2", "offset": "1"}, ["broken", "Customers"]),
        ({"offset": "99"}, []),
    ],
)
def test_filters_and_order(query: dict[str, str], found: list[str]) -> None:
    assert names(**query) == found


def test_matching_counts_every_page() -> None:
    assert selected(ROWS, OverviewQuery.of({"limit": "1", "abnormal": "true"}))[1] == 2
    assert counted(ROWS) == {"DEGRADED": 1, "FAILED": 1, "PAUSED": 1, "RUNNING": 1, "abnormal": 2}


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "size"},
        {"type": "x"},
        {"limit": "0"},
        {"limit": "-1"},
        {"offset": "1e3"},
        {"limit": "٣"},
        {"limit": "9" * 30},
    ],
)
def test_invalid_page_is_refused_by_name(query: dict[str, str]) -> None:
    with pytest.raises(BadRequestError, match=next(iter(query))):
        OverviewQuery.of(query)


def test_a_greater_limit_is_the_greatest() -> None:
    assert OverviewQuery.of({"limit": "99999"}).limit == LIMIT_MOST
