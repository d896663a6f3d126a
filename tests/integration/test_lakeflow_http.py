"""LakeflowSource with a class that talks to a real web service: pages, a restart in mid-flow, a service that fails."""

from __future__ import annotations

from collections import Counter

from starlette.responses import JSONResponse, Response

from spark_connect_rt.connectors.python_sources.lakeflow_source import LakeflowSourceConnector
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.integration.http_service import Asked, HttpService

ROWS, PAGE = 60, 7


class People:
    """``/people?after=`` in pages; some requests fail."""

    def __init__(self) -> None:
        self.rows = [{"id": at, "at": "2026-01-02T03:04:05Z", "name": f"n{at}"} for at in range(1, ROWS + 1)]
        self.asked = 0

    def __call__(self, asked: Asked) -> Response:
        self.asked += 1
        if asked.headers.get("authorization") != "Bearer hush":
            return JSONResponse({}, 401)
        if asked.path == "/tables":
            return JSONResponse(["people"])
        if self.asked % 4 == 0:
            return JSONResponse({}, 503)
        return JSONResponse([row for row in self.rows if row["id"] > int(asked.query["after"])][:PAGE])


def test_flaky_web_service_and_a_crash_lose_nothing_and_repeat_only_undurable_rows() -> None:
    people = People()
    with HttpService(people) as service:
        config = {
            "lakeflow.class": "tests.unit.connectors.lakeflow_samples:Web",
            "lakeflow.option.base_url": service.url,
            "lakeflow.option.token": "hush",
            "topic.prefix": "web.",
            "poll.interval.ms": "0",
            "lakeflow.retry.backoff.ms": "1",
        }
        with SourceHarness(LakeflowSourceConnector, config) as source:
            clock = [1e9]

            def polled(times: int, durable: bool = True) -> list[ProducedRecord]:
                found = []
                for _ in range(times):
                    source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
                    clock[0] += 60
                    found += source.poll(durable)
                return found

            taken = polled(4)
            lost = polled(2, durable=False)
            source.restart()
            taken += polled(30)
    counts = Counter(record.json()["id"] for record in taken)
    assert set(counts) == set(range(1, ROWS + 1))
    assert max(counts.values()) == 1
    assert lost
    assert {record.topic for record in taken} == {"web.people"}
