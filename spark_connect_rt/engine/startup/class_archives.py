"""Archives of the classes of JVMs, in the cache: each is written by one JVM and mapped by later ones (JEP 350).

Owns how an archive is named, tried and forgotten; the caller owns the program in the JVM that writes it. A JVM that
finds a jar changed leaves its archive alone without a word, so the name says which jars it is of, and a new one is
tried with ``-Xshare:on`` before it gets that name. Without an archive everything works the same, only slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ConnectError

MAKE_LIMIT_S = 120.0
DRAFT = "archive-draft-"
_LEFT_S = 3_600.0  # a draft so old is of a process that is gone
_KEPT = 16  # archives of other Javas, jars and plug-ins
_WORDS = "-Xlog:cds*=off"  # no message about an archive that does not fit, or about classes that it lacks


def archive_name(java: Path, facts: Sequence[bytes]) -> str:
    """Return the file's name for a ``java`` program and what else an archive is of. Raises OSError."""
    home = java.resolve().parent.parent
    release = home / "release"
    said = [os.fsencode(java.resolve()), release.read_bytes() if release.is_file() else b"", *facts]
    digest = hashlib.sha256(b"\0".join(said)).hexdigest()[:16]
    return f"classes-{digest}.jsa"


def jar_facts(jars: Sequence[Path], whole: bool = True) -> Iterator[bytes]:
    """Give what names each jar: its path where the JVM compares that (``whole``), else its name, so that copies count.

    Times are in s, as the JVM compares them, and images of containers keep them.
    """
    for jar in jars:
        found = jar.stat()
        yield f"{jar if whole else jar.name} {found.st_size} {int(found.st_mtime)}".encode()


def mapping(archive: Path) -> list[str]:
    """Return the options of a JVM that maps an archive."""
    return [f"-XX:SharedArchiveFile={archive}", _WORDS]


def writing(archive: Path) -> list[str]:
    """Return the options of a JVM that writes an archive of what it loaded, at its end."""
    return [f"-XX:ArchiveClassesAtExit={archive}", _WORDS]


def failed_mark(archive: Path) -> Path:
    """Return the file that says that this archive could not be made, and why."""
    return archive.with_suffix(".failed")


def take_in(java: Path, jars: Sequence[Path], draft: Path, archive: Path) -> None:
    """Give a draft its name, and forget what is too much. Raises ConnectError: the JVM does not take it; OSError."""
    _try_out(java, jars, draft)
    draft.replace(archive)
    _forget_others(archive)


def _try_out(java: Path, jars: Sequence[Path], archive: Path) -> None:
    if not archive.is_file():
        raise ConnectError("the JVM wrote no archive. It must be HotSpot, version 13 or newer")
    command = [str(java), "-XX:+UseSerialGC", "-Xshare:on", f"-XX:SharedArchiveFile={archive}"]
    command += ["-cp", os.pathsep.join(map(str, jars)), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_LIMIT_S, check=False)
    if done.returncode:
        raise ConnectError(f"the JVM rejects its own archive: {done.stdout}{done.stderr}")


def _forget_others(path: Path) -> None:
    archives = sorted(path.parent.glob("classes-*.jsa"), key=lambda archive: archive.stat().st_mtime)
    for old in archives[:-_KEPT]:
        old.unlink(missing_ok=True)  # a JVM that maps it keeps it
    forget_drafts(path.parent)


def forget_drafts(folder: Path) -> None:
    """Remove what processes that are gone have left in a folder of archives."""
    for draft in folder.glob(f"{DRAFT}*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > _LEFT_S:
                shutil.rmtree(draft, ignore_errors=True)


# An archive of a program's classes: the first of its JVMs that ends in order writes it, later ones map it.
#
# An embedded broker starts at half the CPU so. The one that writes ends some seconds later, once for each Java and
# Kafka.


WRITE_LIMIT_S = 40.0
log = logging.getLogger(__name__)


class ArchiveAtEnd:
    """That of one Java and jars, for one JVM. Where the cache cannot be written to, none is used."""

    def __init__(self, program: str, java: Java, jars: Sequence[Path]) -> None:
        """Take what the JVM is started with; ``program`` names the folder in the cache."""
        self._java, self._jars = java.executable, jars
        self._path: Path | None = None
        self._draft: Path | None = None
        with contextlib.suppress(OSError):
            folder = cache_directory() / program
            folder.mkdir(exist_ok=True)
            forget_drafts(folder)
            self._path = folder / archive_name(self._java, list(jar_facts(jars)))

    def options(self) -> list[str]:
        """Return the JVM's options that map it; if there is none, or none can be made, no options."""
        return mapping(self._path) if self._path is not None and self._path.is_file() else []

    def options_to_write(self) -> list[str]:
        """Return the options that map it, or those that write it when the JVM ends: ``keep`` then, for ``limit_s``."""
        if self._path is None or self._path.is_file() or failed_mark(self._path).is_file():
            return self.options()
        with contextlib.suppress(OSError):
            self._draft = Path(tempfile.mkdtemp(dir=self._path.parent, prefix=DRAFT)) / self._path.name
            return writing(self._draft)
        return []

    def limit_s(self, limit_s: float) -> float:
        """Return the time to end that a JVM is to have, which would else have ``limit_s``: writing takes some of it."""
        return limit_s if self._draft is None else limit_s + WRITE_LIMIT_S

    def keep(self) -> None:
        """Take in what the JVM wrote at its end; one that did not end in order wrote nothing."""
        draft, self._draft = self._draft, None
        if draft is None or self._path is None:
            return
        try:
            if draft.is_file():
                take_in(self._java, self._jars, draft, self._path)
        except (ConnectError, OSError) as error:
            log.info("%s: started without an archive of classes: %s", self._path.parent.name, error)
            with contextlib.suppress(OSError):
                failed_mark(self._path).write_text(f"{error}\n", encoding="utf-8")
        finally:
            shutil.rmtree(draft.parent, ignore_errors=True)
