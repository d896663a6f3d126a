"""Fetches one file by URL or path: at most so many bytes, only from allowed hosts, with the SHA-512 that was asked."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING
from urllib.parse import urljoin

from spark_connect_rt.config.management_config import SIZE_MAX
from spark_connect_rt.errors import BadRequestError

if TYPE_CHECKING:
    import httpx

NOT_FETCHED = "CRT-1161"
REDIRECTS_MAX = 5
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 20


class NotFetchedError(BadRequestError):
    """The plug-in cannot be fetched, or its content is not the expected one; nothing has changed."""

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
        raise NotFetchedError(
            f"{file} cannot be read on this worker: {error.strerror or error}. A path is one of the worker's machine. "
            "Copy the file there, or use an https:// URL"
        ) from error


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


# Unpacks archives of others: no path leads out of the folder, no link, no device, no more bytes than allowed.


UNSAFE = "CRT-1163"
ENTRIES_MAX = 100_000
# Errors of the libraries for archives that are damaged, encrypted or made by hand; only the first two are documented.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


def unpack(archive: Path, folder: Path, limit_bytes: int) -> None:
    """Unpack a .zip, .tgz, .tar.gz; copy a .jar. Raises BadRequestError: it is another format, unsafe, or too large."""
    name = archive.name.lower()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if name.endswith(".jar"):
            if not zipfile.is_zipfile(archive):
                raise _refused(archive, "is not a valid jar")
            shutil.copyfile(archive, folder / archive.name)
        elif name.endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                _write_all(_of_zip(archive, opened), folder, archive, limit_bytes)
        else:
            with tarfile.open(archive, "r:gz") as opened_tar:
                _write_all(_of_tar(archive, opened_tar), folder, archive, limit_bytes)
    except _DAMAGED as error:
        raise _refused(archive, f"cannot be unpacked: {error}") from error
    without_single_folder(folder)


def safe_target(folder: Path, entry: str) -> Path:
    """Return where an entry goes. Raises ValueError: out of the folder, or no relative POSIX path."""
    path = PurePosixPath(entry)
    parts = path.parts
    if not parts or "\\" in entry or "\0" in entry or path.is_absolute() or ".." in parts or ":" in parts[0]:
        raise ValueError(f"contains {entry!r}, a path outside of its folder")
    return folder.joinpath(*parts)


def without_single_folder(folder: Path) -> None:
    """Move up what lies in the archive's only folder, as vendors pack theirs."""
    children = [child for child in folder.iterdir() if child.name not in ("__MACOSX", ".DS_Store")]
    if len(children) != 1 or not children[0].is_dir() or any(children[0].glob("__init__.py")):
        return
    inner = children[0].rename(folder / ".inner")
    for child in list(inner.iterdir()):
        child.rename(folder / child.name)
    inner.rmdir()


def _of_zip(archive: Path, opened: zipfile.ZipFile) -> Iterator[tuple[str, IO[bytes]]]:
    entries = opened.infolist()
    _check_count(archive, len(entries))
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(archive, f"contains {entry.filename!r}, which is neither a file nor a folder")
        if not entry.is_dir():
            yield entry.orig_filename, opened.open(entry)


def _of_tar(archive: Path, opened: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for number, entry in enumerate(opened, 1):
        _check_count(archive, number)
        if entry.isdir():
            continue
        content = opened.extractfile(entry) if entry.isreg() else None
        if content is None:
            raise _refused(archive, f"contains {entry.name!r}, which is neither a file nor a folder")
        yield entry.name.removeprefix("./"), content


def _write_all(files: Iterator[tuple[str, IO[bytes]]], folder: Path, archive: Path, limit_bytes: int) -> None:
    left = limit_bytes
    for name, content in files:
        try:
            target = safe_target(folder, name)
        except ValueError as error:
            raise _refused(archive, str(error)) from error
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, target.open("xb") as out:
            while chunk := content.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise _refused(archive, f"unpacks to more than {limit_bytes} bytes. Raise {SIZE_MAX} to allow it")
                out.write(chunk)


def _check_count(archive: Path, count: int) -> None:
    if count > ENTRIES_MAX:
        raise _refused(archive, f"contains more than {ENTRIES_MAX} entries")


def _refused(archive: Path, why: str) -> BadRequestError:
    return BadRequestError(f"{archive.name} {why}", code=UNSAFE)
