"""Whether places can be reached from where this code runs: a TCP connection to each, side by side."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

CONNECT_S = 5.0
SIDE_BY_SIDE = 25
Place = tuple[str, int]
"""A place to reach: its host and port."""


def obstacle_to(place: Place, limit_s: float = CONNECT_S) -> str:
    """Connect and hang up; return why that does not go, empty: it does."""
    try:
        socket.create_connection(place, limit_s).close()
    except (OSError, UnicodeError) as error:
        if isinstance(error, TimeoutError):
            return f"no answer within {limit_s:g} s"
        if isinstance(error, socket.gaierror | UnicodeError):
            return "unknown host"
        return str(getattr(error, "strerror", "") or error)
    return ""


class ReachPart:
    """The function of a Spark job on an executor: yields its host's name, then an obstacle for each place, in order."""

    def __init__(self, places: Sequence[Place], limit_s: float) -> None:
        self._places, self._limit_s = tuple(places), limit_s

    def __call__(self, rows: Iterator[object]) -> Iterator[str]:
        """Connect to all places and yield the results."""
        yield socket.gethostname()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            yield from threads.map(lambda place: obstacle_to(place, self._limit_s), self._places)


# Checks of a configuration that reach out: hosts, credentials, topics, registries, offsets; one line each.


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why places cannot be reached from a host, in their order; an empty one: it can."""

    host: str
    why: Sequence[str]


class ReachFrom(Protocol):
    """Looks from where tasks run. Any thread."""

    def __call__(self, places: Sequence[tuple[str, int]], limit_s: float) -> Obstacles:
        """Connect to every (host, port). Blocks that long at most. Raises ConnectError: none could look."""
