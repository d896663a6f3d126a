"""Jars of a lock file: downloaded several at a time, each checked by its SHA-256 before it gets its name.

Resolving a broker's jars takes a hundred sequential requests, a minute of a first run. The lock file next to this
module lists them. ``tests/integration/test_locked_jars.py`` compares it with the result of Maven Central.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx

from spark_connect_rt.base.downloads import Downloads
from spark_connect_rt.errors import ConnectError

AT_ONCE = 8
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One jar: its SHA-256 in hexadecimal digits, its size in bytes, its path in a Maven repository."""

    sha256: str
    size_bytes: int
    path: str

    @property
    def name(self) -> str:
        """Return the jar's file name without its folders."""
        return PurePosixPath(self.path).name


def locked_jars(coordinates: Sequence[str]) -> tuple[LockedJar, ...]:
    """Return the jars of the lock file for these coordinates; none: there is no such file."""
    file = lock_file(coordinates)
    return tuple(read_lock(file.read_text(encoding="utf-8"))) if file is not None and file.is_file() else ()


def lock_file(coordinates: Sequence[str]) -> Path | None:
    """Return the path of the lock file of one ``group:artifact:version``, even if it does not exist.

    None: for several.
    """
    if len(coordinates) != 1:
        return None
    _, artifact, version = coordinates[0].split(":", 2)
    return Path(__file__).with_name(f"{artifact}-{version}.lock")


def read_lock(text: str) -> Iterator[LockedJar]:
    """Yield the jars of a lock file: a line each of SHA-256, size and path."""
    for line in text.splitlines():
        sha256, size, path = line.split()
        yield LockedJar(sha256, int(size), path)


def fetch_jars(jars: Sequence[LockedJar], folder: Path, client: httpx.Client, downloads: Downloads) -> list[Path]:
    """Download the jars that ``folder`` lacks; return all of them, sorted. ``client`` has the repository as its base.

    Raises httpx.HTTPError, OSError; ConnectError: a file is not the one of the lock file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [jar for jar in jars if not _is_there(folder / jar.name, jar)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        fetched = [threads.submit(_fetch, client, jar, folder / jar.name, downloads) for jar in missing]
        try:
            for each in fetched:
                each.result()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(folder / jar.name for jar in jars)


def _is_there(file: Path, jar: LockedJar) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == jar.sha256
    except OSError:
        return False


def _fetch(client: httpx.Client, jar: LockedJar, file: Path, downloads: Downloads) -> None:
    draft = file.with_suffix(f".{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with (
            client.stream("GET", f"/{jar.path}") as answer,
            downloads(jar.name, jar.size_bytes) as advance,
            draft.open("wb") as out,
        ):
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                out.write(piece)
                digest.update(piece)
                advance(len(piece))
        if digest.hexdigest() != jar.sha256:
            raise ConnectError(f"{jar.path} has another SHA-256 than {file.parent.name} expects: {digest.hexdigest()}")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
