"""A REST service of orders for real taps and sources: pages of a number, and only what was updated since a moment."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

from starlette.responses import Response

from tests.integration.http_service import Asked, HttpService

PAGE = 100
_BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TOKEN = "a-very-secret-token"


def order(number: int) -> dict[str, Any]:
    updated = (_BEGIN + dt.timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"id": number, "name": f"order {number}", "price": number / 4, "updated_at": updated, "tags": ["a", "b"]}


class Orders:
    """``with Orders(500) as orders: orders.service.url``; ``rows`` may grow."""

    def __init__(self, rows: int, pause_s: float = 0) -> None:
        self.rows = rows
        self._pause_s = pause_s  # before each answer
        self.service = HttpService(self._answer)

    def __enter__(self) -> Orders:
        self.service.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.service.__exit__()

    def _answer(self, asked: Asked) -> Response:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Response("no", status_code=401)
        time.sleep(self._pause_s)
        since, page = asked.query.get("since", ""), int(asked.query.get("page") or 1)
        first = _number_after(since) if since else 1
        until = asked.query.get("until")
        last = min(self.rows, _number_after(until)) if until else self.rows
        rows = [order(number) for number in range(first + (page - 1) * PAGE, min(last, first + page * PAGE - 1) + 1)]
        following = page + 1 if first + page * PAGE <= last else None
        return Response(json.dumps({"items": rows, "next": following}), media_type="application/json")


def _number_after(since: str) -> int:
    """Return the first order updated at ``since`` or later: as most services have it, the moment is included."""
    moment = dt.datetime.fromisoformat(since)
    return max(1, round((moment - _BEGIN).total_seconds()))
