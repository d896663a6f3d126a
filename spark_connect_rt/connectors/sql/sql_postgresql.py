"""Loaders for our psycopg connections: times that Python cannot represent stay the database's text.

Without them one infinity, one year 12000 or one 24:00 would end the read of all rows of its result.
"""

from __future__ import annotations

from typing import Any

from psycopg import DataError
from psycopg.abc import Buffer
from psycopg.types import datetime as loaders


class _Lenient:
    """Returns the text of a value that the other base class rejects."""

    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)  # type: ignore[misc]
        except DataError:
            return bytes(data).decode()


class _Date(_Lenient, loaders.DateLoader): ...


class _Time(_Lenient, loaders.TimeLoader): ...


class _Timestamp(_Lenient, loaders.TimestampLoader): ...


class _Timestamptz(_Lenient, loaders.TimestamptzLoader): ...


def read_every_time(connection: Any) -> None:
    """Let a psycopg connection return dates and times that Python cannot represent as text."""
    kinds = {"date": _Date, "time": _Time, "timestamp": _Timestamp, "timestamptz": _Timestamptz}
    for name, loader in kinds.items():
        connection.adapters.register_loader(name, loader)
