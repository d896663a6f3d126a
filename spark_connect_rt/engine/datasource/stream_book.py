"""The offset topic behind a stream: it is given where the stream's batches end (``commitOffsets=connect``)."""

from __future__ import annotations

from collections.abc import Callable

from spark_connect_rt.engine.datasource.named_connector import OffsetBook
from spark_connect_rt.engine.datasource.stream_position import Position, offsets_of


class StreamBook:
    """Stores positions; without an OffsetBook nothing."""

    def __init__(self, open_book: Callable[[], OffsetBook] | None) -> None:
        self._open = open_book
        self._book: OffsetBook | None = None
        self._stored: Position = {}

    def write(self, position: Position) -> None:
        """Store a position unless it is the last one. Raises ConnectError."""
        if self._open is None or position == self._stored:
            return
        if self._book is None:
            self._book = self._open()
        self._book.write(offsets_of(position))
        self._stored = position

    def close(self) -> None:
        """Give up the client."""
        if self._book is not None:
            self._book.close()
            self._book = None
