"""Java classes on ``plugin.path``, by the names in its jars: no JVM, nothing is loaded.

Owns: which class is in which folder, also of jars without ``META-INF/services`` (Java's ``only_scan``).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

_SUFFIX = ".class"


class PluginJars:
    """``PluginJars(["/plugins"]).location_of("io.debezium.connector.postgresql.PostgresConnector")``."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(folder) for folder in folders]

    def missing(self) -> list[str]:
        """Return what ``plugin.path`` names and is not there: folders, single jars."""
        return [str(folder) for folder in self._folders if not (folder.is_dir() or _is_jar(folder))]

    def location_of(self, name: str) -> str | None:
        """Return the plug-in's folder or jar that holds the class ``name`` (whole, or its last part); None: none."""
        return self._classes.get(name) or self._by_last_part.get(name)

    @cached_property
    def _classes(self) -> dict[str, str]:
        return {name: str(place) for place, name in self._named()}

    @cached_property
    def _by_last_part(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, place in self._classes.items():
            last = name.rpartition(".")[2]
            for word in {last, last.removesuffix("Connector"), last.removesuffix("Converter")}:
                found.setdefault(word, place)
        return found

    def _named(self) -> Iterator[tuple[Path, str]]:
        for place in self._places():
            jars = [place] if place.is_file() else sorted(place.rglob("*.jar"))
            for jar in jars:
                for entry in _entries(jar):
                    if entry.endswith(_SUFFIX) and not entry.startswith("META-INF/"):
                        yield place, entry.removesuffix(_SUFFIX).replace("/", ".")

    def _places(self) -> Iterator[Path]:
        for folder in self._folders:
            if _is_jar(folder):
                yield folder
            elif folder.is_dir():
                yield from sorted(path for path in folder.iterdir() if path.is_dir() or path.suffix == ".jar")


def _is_jar(path: Path) -> bool:
    """Tell whether an element of ``plugin.path`` is a plug-in in one jar, as Java takes it, too."""
    return path.suffix == ".jar" and path.is_file()


def _entries(jar: Path) -> list[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return []  # the list of plug-ins says so
