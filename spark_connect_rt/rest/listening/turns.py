"""Whose turn it is: requests start and answer a few in each round of the event loop, ``/health`` at once.

The loop runs everything that is ready before it reads again. A thousand requests that are ready together would be one
round of seconds, and a probe that arrives meanwhile would wait for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from spark_connect_rt.api.rest_extension import Asgi

IN_A_ROUND = 8
HEALTH_PATHS = frozenset({"/health", "/health/live", "/health/ready"})
_BUSY = b'{"error_code":503,"message":"This worker has reached its connection limit. Try again in a moment."}'


class LoopTurns:
    """A queue for one event loop. Callers of ``turn`` continue in order, at most ``IN_A_ROUND`` in each round."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = 0  # in this round
        self._armed = False

    async def turn(self) -> None:
        """Return when it is the caller's turn; at once while fewer than ``IN_A_ROUND`` came in this round."""
        loop = asyncio.get_running_loop()
        if not self._armed:
            self._armed = True
            loop.call_soon(self._next_round)
        if not self._waiting and self._taken < IN_A_ROUND:
            self._taken += 1
            return
        waiter = loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _next_round(self) -> None:
        self._taken = 0
        while self._waiting and self._taken < IN_A_ROUND:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else its request was cancelled
                waiter.set_result(None)
                self._taken += 1
        self._armed = self._taken > 0
        if self._armed:
            asyncio.get_running_loop().call_soon(self._next_round)


class InTurns:
    """ASGI: requests in front of ``app`` start in turn, and answer in turn after a wait; ``/health`` never waits."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._turns = LoopTurns()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return

        async def send_in_turn(message: Any) -> None:
            if message["type"] == "http.response.start":  # many may have waited for the same
                await self._turns.turn()
            await send(message)

        await self._turns.turn()
        await self._app(scope, receive, send_in_turn)


def only_health(app: Asgi) -> Asgi:
    """Return an application that answers 503 to everything but ``/health``: there are too many connections."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS:
            headers = [(b"content-type", b"application/json"), (b"retry-after", b"1"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": _BUSY})
            return
        await app(scope, receive, send)

    return answer
