"""How much of a request's body is read: a longer one is refused (413), whatever the request is.

Owns: the ASGI wrapper. It counts while an endpoint reads, so a body that no one asks for is not read at all.
"""

from __future__ import annotations

import re
from typing import Any

from starlette.exceptions import HTTPException

from spark_connect_rt.rest.paths import AsgiApp, Scope

LIMIT_BYTES = 8 * 1024 * 1024
TASKS_LIMIT_BYTES = 64 * 1024 * 1024  # a whole task set, from another worker
_TASKS = re.compile(r"/connectors/[^/]+/tasks")


class BodyLimit:
    """Lets an application read bodies up to their limit. Behind EncodedPaths."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit_bytes = TASKS_LIMIT_BYTES if _TASKS.fullmatch(scope["path"]) else LIMIT_BYTES
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        declared_bytes = int(length) if length.isdigit() else 0
        read_bytes = 0

        async def limited() -> Any:
            nonlocal read_bytes
            if declared_bytes > limit_bytes:
                raise HTTPException(413)
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > limit_bytes:
                raise HTTPException(413)
            return message

        await self._app(scope, limited, send)
