"""Values that many open pages follow, read once for all of them.

Owns: one reader for each thing followed (and login), alive while a page follows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

from starlette.requests import Request

T = TypeVar("T")
_SAYS_NOTHING = {
    *(b"accept", b"accept-encoding", b"accept-language", b"cache-control", b"connection", b"content-length"),
    *(b"content-type", b"dnt", b"last-event-id", b"origin", b"pragma", b"priority", b"referer", b"user-agent"),
    *(b"x-csrf-token", b"cookie", b"upgrade-insecure-requests"),
}
_OWN_COOKIES = ("connectrt_console", "connectrt_theme")


def who_asks(request: Request) -> Hashable:
    """Return what two requests have in common that may see the same: address, cookies and headers of a login.

    Everything that an extension may decide by is in it; headers that only identify a browser are not.
    """
    cookies = tuple(sorted(cookie for cookie in request.cookies.items() if cookie[0] not in _OWN_COOKIES))
    headers = tuple(
        (name, value)
        for name, value in request.scope["headers"]
        if name not in _SAYS_NOTHING and not name.startswith((b"sec-", b"hx-"))
    )
    return request.client.host if request.client else "", request.scope["console"]["root"], cookies, headers


class SharedReads(Generic[T]):
    """``async for value in reads.follow(key, read)``: each new value, and the newest at first."""

    def __init__(self, every_s: float) -> None:
        """Read each followed thing every ``every_s`` seconds."""
        self._every_s = every_s
        self._followed: dict[Hashable, _Followed[T]] = {}

    async def follow(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """Yield values until the reader fails, which is raised here; ``read`` of the first follower serves the rest."""
        reader = self._followed.get(key)
        if reader is None:
            reader = self._followed[key] = _Followed(read, self._every_s)
        reader.followers += 1
        seen = 0
        try:
            while True:
                await reader.newer_than(seen)
                if reader.error is not None:
                    raise reader.error
                seen = reader.number
                yield reader.value
        finally:
            reader.followers -= 1
            if reader.followers == 0 or reader.error is not None:
                reader.task.cancel()
                if self._followed.get(key) is reader:
                    del self._followed[key]


class Rendered:
    """Rows as HTML, made again only where the values changed."""

    def __init__(self, key: str = "name") -> None:
        """``key``: the field that identifies a row."""
        self._key = key
        self._kept: dict[str, tuple[Any, str]] = {}

    def rows(self, found: Any, render: Callable[[Any], str]) -> dict[str, str]:
        """Return key -> HTML of the rows, in their order."""
        made: dict[str, tuple[Any, str]] = {}
        for row in found:
            key = str(row[self._key])
            known = self._kept.get(key)
            made[key] = known if known is not None and known[0] == row else (row, render(row))
        self._kept = made
        return {key: html for key, (_, html) in made.items()}


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
