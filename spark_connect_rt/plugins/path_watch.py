"""Notices plug-ins that are copied into ``plugin.path`` while a worker runs, and has the registries search.

Owns the content of the folders at the last search, and the thread that checks them. Java's workers search once, when
they start. A check costs a ``stat`` of each folder and archive; folders are listed again when they have changed. Files
that are still being copied are left until two checks find the same.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spark_connect_rt.base.supervision import Repeated

_SETTLED_NS = 2_000_000_000  # a folder's time may be older than its last change by a tick of the clock
# of Python's plug-ins: modules are not checked, because they are loaded once
_MARKS = ("entry_points.txt", "pyvenv.cfg")
_ARCHIVES = (".jar", ".zip", ".whl", ".class")
_SKIPPED = ("__pycache__",)

Facts = Mapping[str, tuple[int, int]]
"""The files of a plug-in's place: path -> time of change (ns) and size (bytes)."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Listed:
    """A folder as it was at the last listing."""

    mtime_ns: int
    settled: bool
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class PathState:
    """The content of some folders of plug-ins. One thread at a time."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._listed: dict[str, _Listed] = {}

    def look(self) -> dict[str, Facts]:
        """Return the facts of each plug-in's place; a folder that is not there has none."""
        before, self._listed = self._listed, {}
        found: dict[str, Facts] = {}
        for folder in self._folders:
            own = _stat(folder)
            if own is None:
                continue
            if not stat.S_ISDIR(own.st_mode):
                found[folder] = {"": _facts(own)}
                continue
            listed = self._list(folder, own, before)
            for path, below in _there(listed.folders):
                if _is_shown(path):
                    found[path] = dict(self._below(path, below, before, set()))
            for path, file in _there(listed.files):
                if _is_shown(path) and path.endswith(_ARCHIVES):
                    found[path] = {"": _facts(file)}
        return found

    def _below(
        self, folder: str, own: os.stat_result, before: Mapping[str, _Listed], seen: set[tuple[int, int]]
    ) -> Iterator[tuple[str, tuple[int, int]]]:
        if (own.st_dev, own.st_ino) in seen:  # a link that leads back
            return
        seen.add((own.st_dev, own.st_ino))
        listed = self._list(folder, own, before)
        for path, file in _there(listed.files):
            yield path, _facts(file)
        for path, below in _there(listed.folders):
            yield from self._below(path, below, before, seen)

    def _list(self, folder: str, own: os.stat_result, before: Mapping[str, _Listed]) -> _Listed:
        known, mtime_ns = before.get(folder), own.st_mtime_ns
        try:
            if known is None or not known.settled or known.mtime_ns != mtime_ns:
                known = _Listed(mtime_ns, settled=time.time_ns() - mtime_ns > _SETTLED_NS)
                for entry in sorted(os.scandir(folder), key=lambda dir_entry: dir_entry.name):
                    if entry.is_dir() and entry.name not in _SKIPPED:
                        known.folders.append(entry.path)
                    elif entry.name.endswith(_ARCHIVES) or entry.name in _MARKS:
                        known.files.append(entry.path)
        except OSError:  # it was removed during the check
            return _Listed(0, settled=False)
        self._listed[folder] = known
        return known


def _there(paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each entry that still exists, with its stat result."""
    for path in paths:
        if (found := _stat(path)) is not None:
            yield path, found


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _facts(found: os.stat_result) -> tuple[int, int]:
    """Return when a file changed (ns) and its size."""
    return found.st_mtime_ns, found.st_size


def _is_shown(path: str) -> bool:
    return not os.path.basename(path).startswith(".")


class PathWatch:
    """Has the registries search when the folders have changed. Any thread."""

    def __init__(self, folders: Sequence[str], refresh: Callable[[], None], look_each_s: float) -> None:
        """Begin with the present content.

        Args:
            folders: of plug-ins; one that does not exist may appear later.
            refresh: has the registries of this process search again.
            look_each_s: between two checks; 0: it checks only when ``look_now`` is called.
        """
        self._state = PathState(folders)
        self._refresh = refresh
        self._look_each_s = look_each_s
        self._lock = threading.Lock()
        self._taken = self._last = self._state.look()
        self.rounds = Repeated(
            "plugin-path-watch",
            self.look,
            lambda: self._look_each_s,
            "new plug-ins in plugin.path are not detected any more",
        )

    def start(self) -> None:
        """Look from time to time."""
        if self._look_each_s > 0:
            self.rounds.start()

    def look(self) -> bool:
        """Search again if there is something new that is no longer changing; return whether that was done."""
        with self._lock:
            return self._look(settled=True)

    def look_now(self) -> bool:
        """As ``look``, also where files may still change: a plug-in is wanted that is not known."""
        with self._lock:
            return self._look(settled=False)

    def _look(self, *, settled: bool) -> bool:
        now = self._state.look()
        is_at_rest, self._last = now == self._last, now
        if now == self._taken or (settled and not is_at_rest):
            return False
        before, self._taken = self._taken, now
        names = [Path(path).name for path in sorted(now.keys() | before.keys()) if now.get(path) != before.get(path)]
        log.info("plugin.path has changed (%s), searching for plug-ins again", ", ".join(names))
        self._refresh()
        return True
