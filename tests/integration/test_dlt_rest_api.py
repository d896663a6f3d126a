"""DltSource and dlt's own REST client against a real web service: pages, the cursor, secrets, a crash, failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from spark_connect_rt.connectors.python_sources.dlt_source import DltSourceConnector
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.integration.http_service import Asked, HttpService

PAGE = 25


class Tickets:
    """``/tickets`` in pages, changed since when; ``/tickets/<id>/notes``: two each. Asks for a token."""

    def __init__(self, count: int) -> None:
        self.rows = [{"id": at, "changed": at // 2, "tags": {"a": [at]}} for at in range(count)]
        self.broken = 0

    def __call__(self, asked: Asked) -> Response:
        if asked.headers.get("authorization") != "Bearer hush":
            return JSONResponse({}, 401)
        if self.broken:
            self.broken -= 1
            return JSONResponse({}, 404)
        _, kind, *rest = asked.path.split("/")
        if rest:
            return JSONResponse([{"note": f"{rest[0]}-{at}"} for at in range(2)])
        if kind != "tickets":
            return JSONResponse({}, 404)
        rows = [row for row in self.rows if row["changed"] >= int(asked.query.get("since", 0))]
        start = int(asked.query.get("offset", 0))
        return JSONResponse({"data": rows[start : start + PAGE], "total": len(rows)})


def resources(row_order: str | None) -> list[Any]:
    incremental = {"cursor_path": "changed", "initial_value": 0, **({"row_order": row_order} if row_order else {})}
    return [
        {
            "name": "tickets",
            "primary_key": "id",
            "write_disposition": "merge",
            "endpoint": {
                "path": "tickets",
                "data_selector": "data",
                "params": {"since": "{incremental.start_value}"},
                "incremental": incremental,
                "paginator": {"type": "offset", "limit": PAGE, "total_path": "total"},
            },
        },
    ]


def harness(url: str, given: list[Any], settings: Mapping[str, str]) -> SourceHarness:
    client = {"base_url": url, "auth": {"type": "bearer", "token": "hush"}}
    return SourceHarness(
        DltSourceConnector,
        {
            "dlt.source": "rest_api",
            "dlt.arguments": json.dumps({"client": client, "resources": given}),
            "batch.max.rows": str(PAGE),
            "poll.interval.ms": "0",
            "dlt.retry.backoff.ms": "1",
            **settings,
        },
    )


def ids(records: list[ProducedRecord]) -> list[int]:
    return [record.json()["id"] for record in records]


@pytest.mark.parametrize("row_order", ["asc", None])
def test_a_crash_in_any_pass_loses_nothing(row_order: str | None) -> None:
    tickets = Tickets(140)
    with HttpService(tickets) as service, harness(service.url, resources(row_order), {}) as source:
        taken = [*source.poll(), *source.poll(), *source.poll()]
        lost = source.poll(durable=False)
        assert taken
        assert lost
        source.restart()
        for _ in range(10):
            taken += source.poll()
        counts = Counter(ids(taken))
        assert set(counts) == set(range(140))
        assert max(counts.values()) == (1 if row_order else 2)  # in order: none twice; else the pass comes again
        tickets.rows += [{"id": 3, "changed": 90, "tags": None}, {"id": 200, "changed": 91, "more": 1.5}]
        source.restart()
        later = [record for _ in range(4) for record in source.poll()]
        assert ids(later) == [3, 200]
        assert [record.key for record in later] == [b'{"id":3}', b'{"id":200}']
        assert service.asked[-1].query["since"] == "91"
        assert "hush" not in json.dumps(source.offsets.all())


def test_children_come_with_their_parents_in_one_unit() -> None:
    children = {
        "name": "notes",
        "endpoint": {"path": "tickets/{resources.tickets.id}/notes", "paginator": "single_page"},
    }
    with (
        HttpService(Tickets(30)) as service,
        harness(service.url, [*resources(None), children], {"poll.interval.ms": "-1", "tasks.max": "2"}) as source,
    ):
        assert len(source.tasks) == 1
        found = [record for _ in range(10) for record in source.poll()]
    assert Counter(record.topic for record in found) == {"tickets": 30, "notes": 60}


def test_transient_error_is_retried_and_a_permanent_error_fails_the_task() -> None:
    tickets = Tickets(10)
    tickets.broken = 1
    with HttpService(tickets) as service, harness(service.url, resources(None), {"dlt.retries.max": "1"}) as source:
        clock = [1e9]
        source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
        assert source.poll() == []
        clock[0] += 1.3  # of 1 ms, with 20 % of jitter
        assert ids(source.poll()) == list(range(10))
        tickets.broken = 9
        assert source.poll() == []
        clock[0] += 1.3  # of 1 ms, with 20 % of jitter
        with pytest.raises(ConnectError, match="2 times in a row"):
            source.poll()
