"""One connector's page: what stands above its tabs, and which tabs there are.

How to add a tab: a line in ``TABS``, a module of ``console/pages/`` that serves ``/connectors/{connector}/<slug>`` and
answers ``await connector_page(frame, request, name, "<slug>", "connector_x.html", ...)``; its template extends
``connector.html`` (block ``tab``) and has ``connector`` (the answer of ``/admin/connectors/{name}``) at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import Frame

TABS: tuple[tuple[str, str], ...] = (
    ("", "Status"),
    ("configuration", "Configuration"),
    ("offsets", "Offsets"),
    ("history", "History"),
    ("dead-letters", "Dead letters"),
    ("logs", "Logs"),
)
"""(last part of the path, words), in order."""


async def connector_page(
    frame: Frame, request: Request, name: str, tab: str, template: str, status: int = 200, /, **values: Any
) -> Response:
    """Return a tab of a connector's page. Raises ApiError, as where there is no such connector."""
    found = await frame.api(request).get(at("admin", "connectors", name))
    return await frame.page(request, template, status, **values_of(found, name), tab=tab, **values)


def values_of(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what every tab shows of an answer of ``/admin/connectors/{name}``. Pure."""
    return {"connector": {**found, "name": name}, "name": name, "tabs": TABS}
