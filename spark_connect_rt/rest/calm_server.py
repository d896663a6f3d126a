"""uvicorn's server without its ten looks a second at whether it is to end: it is woken for that."""

from __future__ import annotations

import asyncio
import contextlib

import uvicorn

TICK_S = 1.0  # uvicorn's tick also renews the Date header


class CalmServer(uvicorn.Server):
    """``end`` is noticed at once, by whichever thread it is called."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes = asyncio.Event()

    async def main_loop(self) -> None:
        """See uvicorn: returns when the server is to end."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), TICK_S)

    def end(self) -> None:
        """Have the server end."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._wakes.set)
