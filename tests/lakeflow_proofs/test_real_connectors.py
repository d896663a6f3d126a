"""Databricks' own community connectors through LakeflowSource, unchanged, stopped in mid-flow and counted.

Their licence allows their use with Databricks' services only, so nothing here brings them: who may use them names a
checkout, ``CONNECTRT_LAKEFLOW=<folder> ./test.sh tests/lakeflow_proofs``. No other command runs this.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from spark_connect_rt.connectors.python_sources.lakeflow_source import LakeflowSourceConnector
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.integration.http_service import Asked, HttpService
from tests.unit.connectors.lakeflow_interface import METHODS

PACKAGE = "databricks.labs.community_connector"
ISSUES, PAGE = 230, 50


@pytest.fixture(scope="module", autouse=True)
def checkout() -> None:
    folder = os.environ.get("CONNECTRT_LAKEFLOW")
    assert folder, "set CONNECTRT_LAKEFLOW to a checkout of Databricks' lakeflow-community-connectors"
    sys.path.insert(0, str(Path(folder) / "src"))


class Issues:
    """``/repos/o/r/issues`` in pages, as GitHub gives them; every seventh request fails."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.rows = [
            {
                "id": at,
                "number": at,
                "title": f"issue {at}",
                "state": "open",
                "updated_at": f"2026-01-02T{at // 60:02}:{at % 60:02}:00Z",
            }
            for at in range(1, ISSUES + 1)
        ]

    def __call__(self, asked: Asked) -> Response:
        self.asked += 1
        if asked.headers.get("authorization") != "Bearer hush":
            return JSONResponse({}, 401)
        if self.asked % 7 == 0:
            return JSONResponse({}, 503)
        rows = [row for row in self.rows if str(row["updated_at"]) >= asked.query.get("since", "")]
        page = int(asked.query.get("page", "1"))
        more = f"since={asked.query.get('since', '')}&per_page={PAGE}&page={page + 1}"
        link = {"Link": f'<{self.url}/repos/o/r/issues?{more}>; rel="next"'} if len(rows) > page * PAGE else {}
        return JSONResponse(rows[(page - 1) * PAGE : page * PAGE], headers=link)


def polled(source: SourceHarness, clock: list[float], times: int, durable: bool = True) -> list[ProducedRecord]:
    found: list[ProducedRecord] = []
    for _ in range(times):
        source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
        clock[0] += 60
        found += source.poll(durable)
    return found


def test_the_interface_is_the_one_that_was_recorded() -> None:
    interface = import_module(f"{PACKAGE}.interface")
    for kind, methods in METHODS.items():
        for name, wanted in methods.items():
            found = tuple(inspect.signature(getattr(getattr(interface, kind), name)).parameters)
            assert found == ("self", *wanted), (kind, name)


def test_issues_of_github_in_pages_through_failures_and_a_stop() -> None:
    issues, clock = Issues(), [1e9]
    with HttpService(issues) as service:
        issues.url = service.url
        config = {
            "lakeflow.class": f"{PACKAGE}.sources.github.github:GithubLakeflowConnect",
            "lakeflow.tables": "issues",
            "lakeflow.option.base_url": service.url,
            "lakeflow.option.token": "hush",
            "lakeflow.table.issues.owner": "o",
            "lakeflow.table.issues.repo": "r",
            "lakeflow.table.issues.per_page": str(PAGE),
            "lakeflow.table.issues.lookback_seconds": "0",
            "lakeflow.table.issues.max_records_per_batch": "60",
            "lakeflow.table.issues.start_date": "2026-01-01T00:00:00Z",
            "topic.prefix": "github.",
            "poll.interval.ms": "0",
            "lakeflow.retries.max": "100",
            "lakeflow.retry.backoff.ms": "1",
        }
        with SourceHarness(LakeflowSourceConnector, config) as source:
            taken = polled(source, clock, 4)
            lost = polled(source, clock, 4, durable=False)
            source.restart()
            taken += polled(source, clock, 60)
            issues.rows[6] |= {"state": "closed", "updated_at": "2026-01-03T00:00:00Z"}
            taken += polled(source, clock, 20)
    counts = Counter(record.json()["id"] for record in taken)
    assert set(counts) == set(range(1, ISSUES + 1))
    assert lost
    closed = [record.json()["id"] for record in taken if record.json()["state"] == "closed"]
    assert set(closed) == {7}
    assert {record.topic for record in taken} == {"github.issues"}


def test_tables_of_the_example_stopped_in_mid_flow_are_those_of_one_that_was_not() -> None:
    clock = [1e9]
    config = {
        "lakeflow.class": f"{PACKAGE}.sources.example.example:ExampleLakeflowConnect",
        "lakeflow.option.username": "u",
        "lakeflow.option.password": "p",
        "topic.prefix": "example.",
        "poll.interval.ms": "86400000",
        "batch.max.rows": "10",
    }

    def read(stops: bool) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        with SourceHarness(LakeflowSourceConnector, config) as source:
            taken = polled(source, clock, 20)
            if stops:
                polled(source, clock, 3, durable=False)
                source.restart()
            taken += polled(source, clock, 400)
        for record in taken:
            found.setdefault(record.topic, set()).add(f"{record.key!r} {record.value!r}")
        return found

    whole = read(stops=False)
    assert len(whole) >= 3
    stopped = read(stops=True)
    assert {topic: len(rows) for topic, rows in stopped.items()} == {topic: len(rows) for topic, rows in whole.items()}
