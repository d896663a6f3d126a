"""Values that many open pages follow, read once for all of them.

Owns: one reader for each thing followed (and login), alive while somebody follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedReads(Generic[T]):
    """``async for value in reads.follow(key, read)``: each new value, and the newest at first."""

    def __init__(self, every_s: float) -> None:
        """Read every ``every_s`` seconds."""
        self._every_s = every_s
        self._followed: dict[Hashable, _Followed[T]] = {}

    async def follow(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """Yield values until the reader fails, which is raised here; ``read`` of the first follower serves the rest."""
        one = self._followed.get(key)
        if one is None:
            one = self._followed[key] = _Followed(read, self._every_s)
        one.followers += 1
        seen = 0
        try:
            while True:
                await one.newer_than(seen)
                if one.error is not None:
                    raise one.error
                seen = one.number
                yield one.value
        finally:
            one.followers -= 1
            if one.followers == 0 or one.error is not None:
                one.task.cancel()
                if self._followed.get(key) is one:
                    del self._followed[key]


class _Followed(Generic[T]):
    value: Any = None

    def __init__(self, read: Callable[[], Awaitable[T]], every_s: float) -> None:
        self.followers = self.number = 0
        self.error: Exception | None = None
        self._news = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run(read, every_s))

    async def newer_than(self, number: int) -> None:
        while self.number == number and self.error is None:
            await self._news.wait()

    async def _run(self, read: Callable[[], Awaitable[T]], every_s: float) -> None:
        while True:
            try:
                self.value = await read()
                self.number += 1
            except Exception as error:  # noqa: BLE001 - every follower raises it
                self.error = error
            news, self._news = self._news, asyncio.Event()
            news.set()
            if self.error is not None:
                return
            await asyncio.sleep(every_s)
