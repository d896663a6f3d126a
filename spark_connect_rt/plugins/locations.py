"""Where plug-ins live: the wheels, packages and virtual environments in the folders of ``plugin.path``.

Reads folders and metadata, imports nothing. Each child of a folder of ``plugin.path`` is one plug-in:

- ``*.whl``: a wheel of pure Python, used as it is;
- a folder with ``pyvenv.cfg``: a virtual environment, its ``site-packages`` are used;
- a jar, or a folder with jars at any depth: Java plug-ins, in Java's layout (``java_plugins.py``);
- any other folder: ``pip install --target`` fills it, or it holds modules and an ``entry_points.txt``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from zipfile import is_zipfile

from spark_connect_rt.plugins.jars import holds_java

ENTRY_POINTS = "entry_points.txt"
_PACKED = (".zip", ".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True, slots=True)
class Location:
    """One plug-in of ``plugin.path``; its modules are imported below ``connectrt_plugins.<name>``."""

    name: str
    path: Path
    site: Path  # the start of the search for its modules
    error: str = ""  # why it cannot be used; empty: it can
    java: bool = False  # holds Java plug-ins: nothing of it is imported


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """One entry point: ``name = target`` in ``group``, of a distribution with ``version``."""

    group: str
    name: str
    target: str
    version: str | None


def find_locations(plugin_path: Sequence[str]) -> list[Location]:
    """Return every plug-in of the folders, sorted by folder, then name; a folder that is not there is an error."""
    found: list[Location] = []
    taken: set[str] = set()
    for text in filter(None, (entry.strip() for entry in plugin_path)):
        folder = Path(text)
        try:
            children = [folder] if _is_plugin(folder) else sorted(folder.iterdir())
        except OSError as error:
            why = f"it is in plugin.path, but cannot be read: {error.strerror or error}"
            found.append(Location(folder.name, folder, folder, why))
            continue
        for child in children:
            if child.name.endswith(_PACKED) and not child.is_dir() and not _holds_java(child):
                why = (
                    "an archive cannot be used directly. Unpack it into a folder, or run `connectrt plugins "
                    "install` with it"
                )
                found.append(Location(child.name, child, child, why))
                continue
            if child.name.startswith((".", "__")) or not (child.is_dir() or child.suffix in (".whl", ".jar")):
                continue
            name = _free_name(child, taken)
            taken.add(name)
            found.append(_location(name, child))
    return found


def entries_of(location: Location) -> list[FoundEntry]:
    """Return the entry points of every distribution there. Raises the errors of reading broken metadata."""
    found: list[FoundEntry] = []
    loose = location.site / ENTRY_POINTS
    if loose.is_file():
        found += _entries_of_text(loose.read_text("utf-8"))
    for distribution in metadata.distributions(path=[str(location.site)]):
        points = distribution.entry_points
        if points:
            found += _entries(points, distribution.version)
    return found


def entries_of_environment() -> list[FoundEntry]:
    """Return the entry points of all distributions that are installed where the worker runs."""
    found: list[FoundEntry] = []
    for distribution in metadata.distributions():
        text = distribution.read_text(ENTRY_POINTS)  # most have none: do not parse irrelevant files
        if text and "spark_connect_rt." in text:
            found += _entries(distribution.entry_points, distribution.version)
    return found


def _entries_of_text(text: str) -> list[FoundEntry]:
    parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return [
        FoundEntry(group, name, target.strip(), None)
        for group in parser.sections()
        for name, target in parser.items(group)
    ]


def _entries(points: metadata.EntryPoints, version: str | None) -> list[FoundEntry]:
    return [FoundEntry(point.group, point.name, point.value.strip(), version) for point in points]


def _is_plugin(folder: Path) -> bool:
    """Return whether an element of ``plugin.path`` is a plug-in itself, not a folder of some."""
    if folder.suffix in (".whl", ".jar") and folder.is_file():
        return True
    return _is_python(folder)


def _is_python(folder: Path) -> bool:
    marks = (folder / "pyvenv.cfg", folder / ENTRY_POINTS)
    return any(mark.is_file() for mark in marks) or any(folder.glob("*.dist-info"))


def _free_name(path: Path, taken: set[str]) -> str:
    """Return a module name for a plug-in, the same on every machine that has the same ``plugin.path``."""
    stem = "_".join(path.stem.split("-")[:2]) if path.suffix == ".whl" else path.name
    name = re.sub(r"\W", "_", stem)
    name = name if name[:1].isalpha() else f"p{name}"
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _location(name: str, path: Path) -> Location:
    if not _is_python(path) and _holds_java(path):
        return Location(name, path, path, java=True)
    if path.suffix == ".whl":
        if not path.name.endswith("-none-any.whl"):
            return Location(
                name, path, path, "a wheel with compiled modules. Install it into a folder with pip install --target"
            )
        if not is_zipfile(path):
            return Location(name, path, path, "not a wheel, because it is not a zip archive")
        return Location(name, path, path)
    if (path / "pyvenv.cfg").is_file():
        sites = sorted(path.glob("lib/python*/site-packages"))
        ours = [site for site in sites if site.parent.name == f"python{sys.version_info[0]}.{sys.version_info[1]}"]
        if ours:
            return Location(name, path, ours[0])
        made_for = ", ".join(site.parent.name for site in sites) or "no Python"
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return Location(name, path, path, f"a virtual environment of {made_for}, but the worker runs Python {here}")
    return Location(name, path, path)


def _holds_java(path: Path) -> bool:
    try:
        return holds_java(path)
    except OSError:
        return False  # the code that reads the place reports the error
