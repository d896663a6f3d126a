"""Keeps long work off the event loop: an expensive answer is made once for all who ask, a large body read aside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from spark_connect_rt.errors import as_error
from spark_connect_rt.rest.paths import json_body

T = TypeVar("T")

LARGE_BYTES = 128 * 1024
_ONE_AT_A_TIME = ThreadPoolExecutor(1, thread_name_prefix="rest-large")
"""Parsing holds the interpreter for a second where a body is as large as it may be: two at once would double that."""


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


async def read_json(request: Request, read: Callable[[bytes], T]) -> T:
    """Return what ``read`` makes of a request's JSON body; raises what it raises. A large body is read on a thread."""
    body = await json_body(request)
    return await beside_if_large(body, lambda: read(body))


async def beside_if_large(body: bytes, work: Callable[[], T]) -> T:
    """Return what ``work`` returns; on a thread, one at a time, where it is about a large body."""
    if len(body) < LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_ONE_AT_A_TIME, work)
