"""Server-sent events: it polls now and then and sends what is new. A comment says that the line lives.

Owns the text of such a stream, its heartbeat, its end when the worker stops, and how many a worker keeps open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import StreamingResponse

from spark_connect_rt.base.json_text import encode_finite_json
from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.shapes import RestError

HEARTBEAT_S = 10.0
RETRY_MS = 2_000  # after which a browser comes back by itself
MOST_STREAMS = 200
END_LOOK_S = 0.25  # how soon a stream ends when the worker stops

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream; ``id`` is left out when empty.

    ``data`` is anything that json_values.as_json takes, or the bytes of JSON on one line, which many streams may share.
    """

    event: str
    data: Any
    id: str = ""


Look = Callable[[], Awaitable[Sequence[StreamEvent]]]
"""Returns what is new since the last call, in order."""


class EventStreams:
    """The open streams of one worker."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.open = 0
        self._most = most
        self._ending = False

    def end(self) -> None:
        """End every stream, open none any more. Any thread."""
        self._ending = True

    def response(self, look: Look, each_s: float) -> StreamingResponse:
        """Return a stream of what ``look`` finds, looked at every ``each_s``. Raises RestError: there are too many."""
        if self._ending:
            raise ShuttingDownError("this worker is stopping")
        if self.open >= self._most:
            raise RestError(
                503, f"this worker already serves {self._most} streams, which is its limit", code="CRT-1071"
            )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._frames(look, each_s), media_type="text/event-stream", headers=headers)

    async def _frames(self, look: Look, each_s: float) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            yield f": the stream is open\nretry: {RETRY_MS}\n\n".encode()
            said_s = time.monotonic()
            while not self._ending:
                found = await look()
                if found:
                    yield b"".join(map(frame_of, found))
                    said_s = time.monotonic()
                elif time.monotonic() - said_s >= HEARTBEAT_S:
                    yield b": nothing new\n\n"
                    said_s = time.monotonic()
                await self._wait(each_s)
        except Exception:  # the client reconnects, and the stream resumes after the last id
            log.exception("a stream of events ended")
        finally:
            self.open -= 1

    async def _wait(self, wait_s: float) -> None:
        end_s = time.monotonic() + wait_s
        while not self._ending and (left_s := end_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, END_LOOK_S))


def frame_of(sent: StreamEvent) -> bytes:
    """Return the bytes of one event. JSON has no line breaks, so its data is one line."""
    data = sent.data if isinstance(sent.data, bytes) else encode_finite_json(as_json(sent.data))
    head = f"id: {sent.id}\n" if sent.id else ""
    return b"%bevent: %b\ndata: %b\n\n" % (head.encode(), sent.event.encode(), data)
