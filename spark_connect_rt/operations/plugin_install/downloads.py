"""Fetches one file by URL or path: at most so many bytes, only from allowed hosts, with the SHA-512 that was asked."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from spark_connect_rt.config.plugin_install import SIZE_MAX
from spark_connect_rt.errors import BadRequestError

if TYPE_CHECKING:
    import httpx

NOT_FETCHED = "CRT-1161"
REDIRECTS_MAX = 5
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 20


class NotFetchedError(BadRequestError):
    """What was to be installed cannot be had, or is not what it should be; nothing has changed."""

    code = NOT_FETCHED


def fetch(url: str, target: Path, limit_bytes: int, check: Callable[[str], None]) -> None:
    """Write what is behind a URL (http, https, file) to ``target``.

    Args:
        check: raises for a URL that may not be asked; called for every redirect, too.

    Raises NotFetchedError, BadRequestError (too large), what ``check`` raises.
    """
    if url.startswith("file:"):
        _copy(Path(url.removeprefix("file:")), target, limit_bytes)
        return
    import httpx  # here: workers import this module, few install anything

    try:
        with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False) as client:
            _get(client, url, target, limit_bytes, check)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise NotFetchedError(f"{url} cannot be downloaded: {type(error).__name__}: {error}") from error


def _get(client: httpx.Client, url: str, target: Path, limit_bytes: int, check: Callable[[str], None]) -> None:
    for _ in range(REDIRECTS_MAX + 1):
        with client.stream("GET", url) as answer:
            if answer.has_redirect_location:
                url = urljoin(url, answer.headers["location"])
                check(url)
                continue
            if answer.status_code != 200:
                nowhere = " without a Location" if answer.is_redirect else ""
                raise NotFetchedError(f"{url} cannot be downloaded: HTTP {answer.status_code}{nowhere}")
            _save(answer, url, target, limit_bytes)
            return
    raise NotFetchedError(f"{url} cannot be downloaded: more than {REDIRECTS_MAX} redirects")


def _save(answer: httpx.Response, url: str, target: Path, limit_bytes: int) -> None:
    length = answer.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit_bytes:
        raise too_large(url, limit_bytes)
    written = 0
    with target.open("wb") as out:
        for chunk in answer.iter_bytes(_CHUNK_BYTES):
            written += len(chunk)
            if written > limit_bytes:
                raise too_large(url, limit_bytes)
            out.write(chunk)


def _copy(file: Path, target: Path, limit_bytes: int) -> None:
    try:
        if file.stat().st_size > limit_bytes:
            raise too_large(str(file), limit_bytes)
        shutil.copyfile(file, target)
    except OSError as error:
        raise NotFetchedError(f"{file} cannot be read on this worker: {error.strerror or error}") from error


def too_large(what: str, limit_bytes: int) -> BadRequestError:
    """Return the refusal of a plug-in that is larger than allowed."""
    return BadRequestError(f"{what} is larger than {limit_bytes} bytes. Raise {SIZE_MAX} to allow it")


def sha512_of(file: Path) -> str:
    """Return a file's SHA-512, hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha512").hexdigest()


def check_sha512(what: str, found: str, wanted: str) -> None:
    """Raise NotFetchedError unless they are equal; nothing wanted: all are."""
    if wanted and found != wanted.strip().lower():
        raise NotFetchedError(
            f"{what} has the SHA-512 {found}, but {wanted} is required. Check the source and the checksum"
        )


def sha512_of_files(folder: Path, names: list[str]) -> str:
    """Return one SHA-512 of several files: of the lines ``sha512  name``, sorted by name."""
    lines = "".join(f"{sha512_of(folder / name)}  {name}\n" for name in sorted(names))
    return hashlib.sha512(lines.encode()).hexdigest()
