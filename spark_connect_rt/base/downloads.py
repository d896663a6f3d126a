"""How the progress of downloads is shown: the shape that jgo and our own downloads share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

Downloads = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Called for each file with its name and size in bytes; yields a function that takes the bytes of each piece."""


@contextlib.contextmanager
def shown_nowhere(_name: str, _size_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a progress callback that shows nothing."""
    yield lambda _bytes: None
