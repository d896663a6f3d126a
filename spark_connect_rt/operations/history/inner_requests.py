"""Requests that a resource of the management API makes of Connect's own API on behalf of its client.

They are served here or forwarded as the client's own would be (to a Java leader, too), with its Authorization, and the
history names the client and why.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar

from starlette.requests import Request

from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.rest.context import Forwarded, RestContext
from spark_connect_rt.rest.identity import NOTE_HEADER, note_of
from spark_connect_rt.rest.paths import connector_path
from spark_connect_rt.runtime.herder.requests_api import Request as HerderRequest

T = TypeVar("T")
_OWN_HEADERS = (b"content-type", b"content-length", b"if-match", NOTE_HEADER.lower().encode())


class InnerRequests:
    """For one request of a client."""

    def __init__(self, context: RestContext, request: Request, note: str) -> None:
        self._context = context
        self._request = request
        self._note = "; ".join(filter(None, (note, note_of(request))))

    async def done(
        self,
        wanted: HerderRequest[T],
        method: str,
        connector: str,
        path: str = "",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> T | None:
        """Have a request served by whichever worker must; return its answer, None when that is another worker.

        ``path`` is below the connector; an empty ``connector``: that of all of them. Raises as the request would.
        """
        path = f"{connector_path(connector)}{path}" if connector else f"/connectors{path}"
        data = b"" if body is None else encode_json(body)
        try:
            return await self._context.completed(self._made(method, path, data, headers or {}), wanted)
        except Forwarded:
            return None

    def _made(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Request:
        given = [(name, value) for name, value in self._request.scope["headers"] if name not in _OWN_HEADERS]
        own = {"content-type": "application/json", NOTE_HEADER.lower(): self._note, **headers}
        scope = {
            **self._request.scope,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                *given,
                *((name.lower().encode(), value.encode("latin-1", "replace")) for name, value in own.items()),
            ],
        }

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(scope, receive)
