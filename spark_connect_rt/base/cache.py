"""Where downloaded jars and generated wrappers are kept between runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_connect_rt.base.downloads import Downloads, shown_nowhere
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.errors import StartupError


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


# Jars from Maven Central, resolved once by ``jgo`` and remembered as a class path file.


KAFKA_VERSION = "4.1.1"
KAFKA_BROKER = "org.apache.kafka:kafka_2.13"
EXIT_JARS_UNRESOLVED = 12

_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError")
_log = logging.getLogger(__name__)


def resolve_jars(coordinates: Sequence[str], downloads: Downloads | None = None) -> list[Path]:
    """Return the jars of ``group:artifact:version`` coordinates and of all their dependencies.

    The first call downloads (Kafka's broker: 45 jars, 44 MB). Later calls read a list on disk and need no network.
    If a call was interrupted, even by kill -9, the next one continues it.

    Args:
        coordinates: the artifacts.
        downloads: shows the progress of each file.

    Raises StartupError naming the coordinates when they cannot be downloaded.
    """
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:16]
    folder = cache_directory() / "jars"
    listing = folder / f"{digest}.classpath"
    with exclusive(folder / f"{digest}.lock"):
        if listing.exists():
            jars = [Path(line) for line in listing.read_text(encoding="utf-8").splitlines()]
            if jars and all(jar.exists() for jar in jars):
                return jars
        journal = DownloadJournal(folder / f"{digest}.downloading")
        journal.forget_half()
        jars = _download(coordinates, folder, journal, downloads or shown_nowhere)
        listing.write_text("\n".join(map(str, jars)), encoding="utf-8")
        return jars


class DownloadJournal:
    """Remembers unfinished downloads: jgo writes to the final path, and any file there counts as complete."""

    def __init__(self, path: Path) -> None:
        """Take the journal's own file."""
        self._path = path

    def forget_half(self) -> None:
        """Delete the file that an earlier process began and did not finish."""
        with contextlib.suppress(OSError):
            Path(self._path.read_text(encoding="utf-8")).unlink(missing_ok=True)
            self._path.unlink()

    @contextlib.contextmanager
    def writing(self, file: Path) -> Iterator[None]:
        """Hold while ``file`` is written; it is deleted when that fails."""
        self._path.write_text(str(file), encoding="utf-8")
        try:
            yield
        except BaseException:
            self.forget_half()
            raise
        self._path.unlink(missing_ok=True)


def _download(coordinates: Sequence[str], folder: Path, journal: DownloadJournal, downloads: Downloads) -> list[Path]:
    # imported late: half a second that a cached start need not pay
    jgo = optional_module("jgo", "quickstart", "downloads from Maven Central")
    import httpx

    from spark_connect_rt.base.locked_jars import TIMEOUT_S, fetch_jars, lock_file, locked_jars

    try:
        if locked := locked_jars(coordinates):
            own = folder / Path(str(lock_file(coordinates))).stem
            with httpx.Client(base_url=jgo.MAVEN_CENTRAL_URL, timeout=TIMEOUT_S) as client:
                return fetch_jars(locked, own, client, downloads)
        return _resolve_with_jgo(jgo, coordinates, folder, journal, downloads)
    except Exception as error:  # a third-party edge: an error of any class means "not resolved"
        raise StartupError(
            f"cannot download {', '.join(coordinates)} from Maven Central: {reason_of(error)}. "
            "Run the same command again to continue, or set bootstrap.servers to a running Kafka.",
            exit_code=EXIT_JARS_UNRESOLVED,
            code="CRT-1081",
        ) from error


def _resolve_with_jgo(
    jgo: Any, coordinates: Sequence[str], folder: Path, journal: DownloadJournal, downloads: Downloads
) -> list[Path]:
    maven = optional_module("jgo.maven", "quickstart", "downloads from Maven Central")

    base: Any = maven.PythonResolver

    class Resolver(base):  # type: ignore[misc]
        def download(self, artifact: Any) -> Any:
            with journal.writing(Path(artifact.cached_path)):
                return super().download(artifact)

    _log.info("resolving %s from Maven Central", ", ".join(coordinates))
    # update: otherwise links that a killed process made count as complete
    resolver = Resolver(progress_callback=downloads)
    environment = jgo.build("+".join(coordinates), update=True, cache_dir=folder, resolver=resolver)
    # jgo sorts jars into a class path and a module path by their descriptors; Kafka wants one class path.
    return sorted(Path(environment.path).glob("*/*.jar"))


def reason_of(error: BaseException) -> str:
    """Return in one sentence why a download failed: the network, a full or read-only disk, else the error itself."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error.filename or cache_directory()}). Free 200 MB there, or set CONNECTRT_CACHE"
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES):
        return f"{error.filename} is not writable. Set CONNECTRT_CACHE to a folder that is"
    if type(error).__module__.startswith("httpx") or type(error).__name__ in _UNREACHABLE:
        return f"it is not reachable ({type(error).__name__}). Check the network, and HTTPS_PROXY behind a proxy"
    return str(error)


if __name__ == "__main__":  # preloads the jars of the embedded Kafka while the caller prepares something else
    resolve_jars((f"{KAFKA_BROKER}:{KAFKA_VERSION}",))
