"""Where downloaded jars and generated wrappers are kept between runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Return CONNECTRT_CACHE, else the XDG cache folder's ``connectrt``; made if missing."""
    root = os.environ.get("CONNECTRT_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(root) if root else Path(xdg) / "connectrt"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Hold an inter-process lock: two first runs must not resolve into the same folder at once."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
