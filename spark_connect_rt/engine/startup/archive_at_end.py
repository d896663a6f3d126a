"""An archive of a program's classes: the first of its JVMs that ends in order writes it, later ones map it.

An embedded broker starts at half the CPU so. The one that writes ends some seconds later, once for each Java and Kafka.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory
from spark_connect_rt.engine.startup.class_archives import (
    DRAFT,
    archive_name,
    failed_mark,
    forget_drafts,
    jar_facts,
    mapping,
    take_in,
    writing,
)
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ConnectError

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
        """Return the JVM's options that map it; of none there is, or none can be had, no options."""
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
