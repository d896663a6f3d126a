"""Answers that are expensive to make: each is made once for all clients that ask for it, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from spark_connect_rt.errors import as_error


class SharedAnswers:
    """Answers that many clients ask for at the same time, by key. For one event loop.

    A request that arrives while an answer is being made waits for the next one: it must see what was written before it.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[bytes]] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="rest-lists")

    async def answer(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what ``make`` returns on a thread, or raise what it raises; begun after this was called."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.ensure_future(self._made(key, make))
        return await asyncio.shield(task)  # one client that hangs up takes nothing from the others

    async def _made(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        async with self._locks.setdefault(key, asyncio.Lock()):
            del self._next[key]
            try:
                return await asyncio.get_running_loop().run_in_executor(self._maker, make)
            except SystemExit as raised:  # a plug-in's, as its class is imported; the end of a task by it ends the loop
                raise as_error(raised) from raised
