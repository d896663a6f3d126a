"""Server-sent events, from bytes to values (WHATWG's event stream, as far as the management API uses it)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LINE_LIMIT = 16 * 1024 * 1024  # characters without a line's end


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; ``data`` is its JSON."""

    kind: str
    data: Any
    id: str = ""


class EventReader:
    """Takes pieces of a stream as they come. One stream, one reader."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = "message"
        self._data: list[str] = []
        self._id = ""

    def take(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that ``piece`` completes. Raises ValueError: this is no event stream."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LINE_LIMIT:
            raise ValueError("a line without an end")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _complete(self) -> ServerEvent | None:
        kind, data = self._kind, "\n".join(self._data)
        self._kind, self._data = "message", []
        return ServerEvent(kind, json.loads(data), self._id) if data else None
