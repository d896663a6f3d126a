"""A client of server-sent events on an application, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI


def frames(text: str) -> list[dict[str, str]]:
    found = []
    for frame in text.split("\n\n"):
        lines = [line.partition(": ") for line in frame.splitlines() if line and not line.startswith((":", "retry"))]
        if lines:
            found.append({name: value for name, _, value in lines})
    return found


def followed(
    app: FastAPI, path: str, meanwhile: Callable[[], object], *, last: str = "", query: str = "", for_s: float = 1.0
) -> list[Any]:
    """Return what a client of the stream got; the application runs by itself, without a socket."""
    got = bytearray()

    async def follow() -> None:
        headers = [(b"accept", b"text/event-stream")] + ([(b"last-event-id", last.encode())] if last else [])
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "server": ("h", 8083),
            "client": ("c", 1),
            "app": app,
        }
        gone = asyncio.Event()
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            got.extend(message.get("body", b""))
            if message["type"] == "http.response.start":
                assert message["status"] == 200

        running = asyncio.ensure_future(app(scope, receive, send))  # type: ignore[arg-type]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(meanwhile)
        await asyncio.sleep(for_s)
        gone.set()
        await asyncio.wait_for(running, 5)

    asyncio.run(follow())
    return [json.loads(frame["data"]) | {"sse": frame} for frame in frames(got.decode())]
