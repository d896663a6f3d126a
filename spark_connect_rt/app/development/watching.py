"""Which of a project's files changed: their times and sizes, compared every few hundred milliseconds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from spark_connect_rt.app.development.project import PYPROJECT
from spark_connect_rt.plugins.locations import ENTRY_POINTS

Snapshot = Mapping[Path, tuple[int, int]]
"""File -> (time of its last change in ns, size in bytes)."""

# Only sources: what the connector itself writes into its folder must not reload it.
_NAMES = (PYPROJECT, ENTRY_POINTS)
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages", "build", "dist")


def snapshot(folders: Iterable[Path], files: Iterable[Path] = ()) -> Snapshot:
    """Return the state of the Python files below ``folders``, of their project files and of ``files``.

    Hidden folders and virtual environments are left out, as is a file that disappears meanwhile.
    """
    found: dict[Path, tuple[int, int]] = {}
    for file in (*files, *(file for folder in folders for file in _sources(folder))):
        try:
            stat = file.stat()
        except OSError:
            continue
        found[file] = (stat.st_mtime_ns, stat.st_size)
    return found


def changed_files(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return what was added, changed or removed between two snapshots, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _sources(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_watched(Path(parent, name))]
        yield from (Path(parent, name) for name in names if name.endswith(".py") or name in _NAMES)


def _is_watched(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in _LEFT_OUT and not (folder / "pyvenv.cfg").exists()
