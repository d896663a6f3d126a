"""The files of a directory: which are there and settled, and how a file that was read is moved or deleted.

A file is settled when its size and its time have not changed for a while by this machine's clock, because its writer
may have another clock. Moving and deleting can be repeated without harm.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spark_connect_rt.connectors.files.compressed_input import whole_input
from spark_connect_rt.connectors.files.file_input import RowInput
from spark_connect_rt.connectors.files.file_problems import file_problem
from spark_connect_rt.errors import ConnectError

HIDDEN = (".", "_")  # half-written or not data, by the custom of Hadoop and of many writers


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file with its size and time when the directory was listed."""

    path: str
    size_bytes: int
    modified_ms: int


def share_of(name: str, tasks: int) -> int:
    """Return which of ``tasks`` reads the file of this name: the same for every caller, and after any restart."""
    return zlib.crc32(os.fsencode(name)) % tasks


class Folder(Protocol):
    """The folder that a task watches. Paths of its files are what `list` returned. Called on the task's thread."""

    def list(self, wanted: Callable[[str], bool]) -> list[FoundFile]:
        """Return the files whose name is wanted. Raises ConnectError: the folder cannot be listed."""

    def is_as_found(self, found: FoundFile) -> bool:
        """Return whether the file exists and is unchanged."""

    def move_into(self, path: str, directory: str) -> str:
        """Move a file into a folder, under a new name where its own is taken; return where it is. Can be repeated."""

    def rename(self, path: str, suffix: str) -> str:
        """Append `suffix` to a file's name; return the new one. Can be repeated."""

    def delete(self, path: str) -> None:
        """Delete a file that may be deleted already."""

    def input(self, path: str, position: int) -> RowInput:
        """Return the input of a complete file, as `FileInput`. Raises ConnectError."""

    def parquet(self, path: str) -> Any:
        """Return what `pyarrow.parquet.ParquetFile` takes. Raises ConnectError."""


class DirectoryFiles:
    """One task's share of a directory."""

    def __init__(self, folder: Folder, wanted: Callable[[str], bool], settle_ms: int) -> None:
        """Watch files whose name is ``wanted``, once they are unchanged for ``settle_ms``."""
        self._folder = folder
        self._wanted = wanted
        self._settle_ms = settle_ms
        self._seen: dict[str, tuple[FoundFile, int]] = {}  # path -> as it is, since when (monotonic ms)

    def settled(self, now_ms: int) -> list[FoundFile]:
        """Return the files that may be read. Raises ConnectError: the directory cannot be listed."""
        seen = {found.path: (found, now_ms) for found in self._folder.list(self._wanted)}
        for path, (found, _) in seen.items():
            before = self._seen.get(path)
            if before is not None and before[0] == found:
                seen[path] = before
        self._seen = seen
        return [found for found, since_ms in seen.values() if now_ms - since_ms >= self._settle_ms]


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, directory: str) -> None:
        """Take the path of the folder. It is not looked at yet."""
        self._directory = directory

    def list(self, wanted: Callable[[str], bool]) -> list[FoundFile]:
        """Return the files whose name is wanted. Raises ConnectError: the folder cannot be listed."""
        try:
            with os.scandir(self._directory) as entries:
                return [_found(entry.path, entry.stat()) for entry in entries if wanted(entry.name) and entry.is_file()]
        except FileNotFoundError as error:
            if os.path.isdir(self._directory):
                return []  # a file was removed meanwhile: the next check will show it
            raise self._refused(error) from error
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> ConnectError:
        return file_problem(self._directory, "cannot be listed", error, kind="directory")

    def is_as_found(self, found: FoundFile) -> bool:
        """Return whether the file exists and is unchanged."""
        return is_as_found(found)

    def move_into(self, path: str, directory: str) -> str:
        """Move a file into a folder, see `move_into`."""
        return move_into(path, directory)

    def rename(self, path: str, suffix: str) -> str:
        """Append `suffix` to a file's name, see `rename`."""
        return rename(path, suffix)

    def delete(self, path: str) -> None:
        """Delete a file, see `delete`."""
        delete(path)

    def input(self, path: str, position: int) -> RowInput:
        """Return the input of a complete file. Raises ConnectError."""
        return whole_input(path, position)

    def parquet(self, path: str) -> Any:
        """Return what a reader of Parquet takes."""
        return path


def is_as_found(found: FoundFile) -> bool:
    """Return whether the file exists and is unchanged."""
    try:
        return _found(found.path, os.stat(found.path)) == found
    except OSError:
        return False


def _found(path: str, status: os.stat_result) -> FoundFile:
    return FoundFile(path, status.st_size, status.st_mtime_ns // 1_000_000)


def move_into(path: str, directory: str) -> str:
    """Move a file into a directory, under a new name where its own is taken; return where it is.

    Raises ConnectError.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        return _move(path, os.path.join(directory, os.path.basename(path)))
    except OSError as error:
        raise file_problem(path, f"cannot be moved to {directory}", error) from error


def rename(path: str, suffix: str) -> str:
    """Append ``suffix`` to a file's name; return the new one. Raises ConnectError."""
    try:
        return _move(path, path + suffix, suffix)
    except OSError as error:
        raise file_problem(path, "cannot be renamed", error) from error


def delete(path: str) -> None:
    """Delete a file that may be deleted already. Raises ConnectError."""
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise file_problem(path, "cannot be deleted", error) from error


def _move(path: str, wanted: str, suffix: str = "") -> str:
    """Move; an older file of that name is kept, the new one gets a number before ``suffix``."""
    target, number = wanted, 0
    while os.path.exists(target):
        number += 1
        target = f"{wanted.removesuffix(suffix) if suffix else wanted}.{number}{suffix}"
    if os.path.exists(path):  # else: a crash followed the move
        shutil.move(path, target)
    return target
