"""Server-sent events: bytes that a browser's EventSource reads, with comments as heartbeats.

Owns the form of the stream. What is sent, and when, is the resource's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse

HEARTBEAT_S = 10.0
HEARTBEAT = b": still here\n\n"


class NewsStream(StreamingResponse):
    """A stream of events; nothing on the way may keep them back."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def event_bytes(kind: str, data: bytes, event_id: str = "") -> bytes:
    """Return one event; ``data`` is JSON on one line."""
    named = f"id: {event_id}\n" if event_id else ""
    return f"{named}event: {kind}\ndata: ".encode() + data + b"\n\n"


async def followed(
    listen: Callable[[Callable[[], None]], Callable[[], None]],
    news: Callable[[], bytes | None],
    is_open: Callable[[], bool],
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncIterator[bytes]:
    """Yield what ``news`` returns whenever ``listen``'s callback was called, comments while there is none.

    Args:
        listen: takes a callback for any thread; returns what ends that.
        news: returns what is to be sent now; None: nothing.
        is_open: False ends the stream.
        heartbeat_s: seconds without a byte before a comment is sent.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no one reads any more
            loop.call_soon_threadsafe(changed.set)

    end = listen(wake)
    try:
        yield HEARTBEAT  # so that the client knows at once that it is connected
        while is_open():
            changed.clear()
            sent = news()
            if sent is not None:
                yield sent
                continue
            try:
                await asyncio.wait_for(changed.wait(), heartbeat_s)
            except TimeoutError:
                yield HEARTBEAT
    finally:
        end()
