"""Content types, as JAX-RS checks them once a path is found: JSON in, JSON out.

More than a nicety: a page in a browser may send forms and plain text to any address without asking first, but not
JSON. Refusing the former keeps strangers' pages from creating connectors on a worker of this machine.
"""

from __future__ import annotations

from fastapi import HTTPException
from starlette.requests import Request

_JSON = "application/json"
_STREAM = "/stream"  # ends the paths of server-sent events
_ACCEPTS_JSON = (_JSON, "application/*", "*/*", "*")


async def speaks_json(request: Request) -> None:
    """Refuse a request that brings another type than JSON (415), or wants another back (406)."""
    given = request.headers.get("content-type")
    if given is not None and _media_type(given) != _JSON:
        raise HTTPException(415)
    wanted = request.headers.get("accept")
    types = {_media_type(part) for part in wanted.split(",")} if wanted else set()
    if request.url.path.endswith(_STREAM) and "text/event-stream" in types:  # all that a browser's EventSource accepts
        return
    if wanted and types.isdisjoint(_ACCEPTS_JSON):
        raise HTTPException(406)


async def json_body(request: Request) -> bytes:
    """Return the body of a request that must have one. A body without a content type is refused (415)."""
    body = await request.body()
    if body and "content-type" not in request.headers:
        raise HTTPException(415)
    return body


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
