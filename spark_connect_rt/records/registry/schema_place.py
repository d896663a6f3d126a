"""Where in a schema a problem is: readers of schemas name the place in front of the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_connect_rt.errors import DataError


@contextmanager
def in_place(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of a DataError that is raised inside."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
