"""A growing file, read by position: the basis of every file source here.

Owns: opening, waiting for a missing file, truncation and replacement. A check of an idle file is one ``stat``.

A file that became shorter than the position is read again from its beginning: its old content is gone. When the name
refers to another file (rotation), the old one is read to its end first. The new one is then read from its beginning,
however long it is. Reading continues at the position only if the new file begins with the bytes read so far: editors
save so. After a restart there is no old file to compare with, and reading resumes at the position, as in Java.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spark_connect_rt.api.connector import SourceOffset
from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.connectors.files.file_problems import file_problem
from spark_connect_rt.errors import ConnectError

COMPARED_BYTES = 64 << 10  # at each end of the bytes read, when a file was replaced
FileState = tuple[int, int, int]  # device, inode, size
log = logging.getLogger(__name__)


class RowInput(Protocol):
    """The bytes that a reader of rows takes: of a local file, of a compressed one, or of an object."""

    path: str
    position: int
    incomplete_bytes: int
    restarts: int

    def available(self) -> int:
        """Return how many bytes follow the position; 0 when there is nothing new. Raises ConnectError."""

    def read(self, size_bytes: int, ahead_bytes: int = 0) -> bytes:
        """Return up to ``size_bytes`` from ``ahead_bytes`` past the position on; the position stays."""

    def advance(self, size_bytes: int) -> None:
        """Move the position forward by ``size_bytes`` of whole rows."""

    def changes(self) -> IdleLook | None:
        """Return a check, for any thread, whether there may be something new. None: only ``available`` shows it."""

    def close(self) -> None:
        """Close the file, and open it again with the next call."""


class FileInput:
    """One file and how far it was read.

    ``position`` counts bytes and only moves with ``advance``. ``incomplete_bytes`` is the number of bytes after the
    position that the reader has seen and cannot use before more arrive.
    """

    def __init__(
        self, path: str, position: int = 0, report_missing: Callable[[str], None] = lambda sentence: None
    ) -> None:
        """Take the file's path. The file is opened on first use.

        Args:
            path: of the file.
            position: bytes to skip.
            report_missing: is called with a sentence once while the file does not exist.
        """
        self._report_missing = report_missing
        self.path = path
        self.position = position
        self.incomplete_bytes = 0
        self.restarts = 0
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._seen: FileState | None = None
        self._missing_reported = False

    def available(self) -> int:
        """Return how many bytes follow the position; 0 when there is nothing new, or no file (yet).

        Raises ConnectError: the file is there and cannot be opened.
        """
        left_bytes = self._look()
        return left_bytes if left_bytes > self.incomplete_bytes else 0

    def _look(self) -> int:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._seen = None
            return self._available_without_name()
        except OSError as error:
            raise self._refused(error) from error
        self._seen = found.st_dev, found.st_ino, found.st_size
        if (found.st_dev, found.st_ino) != self._identity:
            left_bytes = self._left_bytes()
            if left_bytes > self.incomplete_bytes:
                return left_bytes
            read_before = self._read_before()
            self._open()
            if read_before is not None:
                self._replaced(continues=self._read_before() == read_before, lost_bytes=left_bytes)
        if found.st_size < self.position:
            self._start_over(f"is {found.st_size} bytes long, shorter than position {self.position}")
        return found.st_size - self.position

    def _read_before(self) -> tuple[bytes, bytes] | None:
        """Return the first and the last bytes of the open file up to the position, None without a file."""
        if self._descriptor < 0 or not self.position:
            return None
        size_bytes = min(self.position, COMPARED_BYTES)
        return self.read(size_bytes, -self.position), self.read(size_bytes, -size_bytes)

    def _replaced(self, *, continues: bool, lost_bytes: int) -> None:
        """Decide where the new file is read from; ``lost_bytes`` of the old one have no line end."""
        if continues:
            log.warning(
                "file %s was replaced and begins like the one before: continuing at position %d",
                self.path,
                self.position,
            )
            return
        lost = f", except {lost_bytes} bytes without a line end" if lost_bytes else ""
        self._start_over(f"was replaced; the old file was read to position {self.position}{lost}")

    def _start_over(self, why: str) -> None:
        log.warning("file %s %s: reading it from its beginning", self.path, why)
        self.position = self.incomplete_bytes = 0
        self.restarts += 1

    def changes(self) -> IdleLook | None:
        """Return a check, for any thread, whether the file was replaced or its size changed since the last check.

        None: its name is gone, and the open file may still grow.
        """
        if self._descriptor >= 0 and self._seen is None:
            return None
        path, seen = self.path, self._seen
        return lambda: _state_of(path) != seen

    def read(self, size_bytes: int, ahead_bytes: int = 0) -> bytes:
        """Return up to ``size_bytes`` from ``ahead_bytes`` past the position on; the position stays."""
        try:
            return os.pread(self._descriptor, size_bytes, self.position + ahead_bytes)
        except OSError as error:
            if error.errno == errno.ESTALE:
                self.close()  # the file server lost the open file: it is opened again by its name
            raise self._refused(error) from error

    def advance(self, size_bytes: int) -> None:
        """Move the position forward by ``size_bytes`` of whole rows."""
        self.position += size_bytes
        self.incomplete_bytes = 0

    def close(self) -> None:
        """Close the file; the next check opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._identity = -1, None
        self.incomplete_bytes = 0

    def _open(self) -> None:
        self.close()
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._refused(error) from error
        opened = os.fstat(self._descriptor)
        self._identity = (opened.st_dev, opened.st_ino)
        self._missing_reported = False

    def _available_without_name(self) -> int:
        """The name is gone: continue with the open file (rotation), else wait for the file."""
        if self._descriptor < 0 and not self._missing_reported:
            log.warning("file %s does not exist, waiting for it", self.path)
            self._missing_reported = True
            self._report_missing(f"file {self.path} does not exist, waiting for it")
        return self._left_bytes()

    def _left_bytes(self) -> int:
        """Return the bytes of the open file after the position."""
        return max(0, os.fstat(self._descriptor).st_size - self.position) if self._descriptor >= 0 else 0

    def _refused(self, error: OSError) -> ConnectError:
        return file_problem(self.path, "cannot be read", error)


def _state_of(path: str) -> FileState | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size


def check_positions(config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> None:
    """Check offsets that a user wants to write, as Java's file source does. Raises ConnectError in its words."""
    if not config.get("file"):
        raise ConnectError(
            "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
            "input and offsets are not tracked."
        )
    for partition, offset in offsets:
        if offset is None:
            continue  # every stored offset may be removed
        if "position" not in offset:
            raise ConnectError("Offset objects should either be null or contain the key 'position'")
        position = offset["position"]
        if isinstance(position, bool) or not isinstance(position, int):
            raise ConnectError("The value for the 'position' key in the offset is expected to be a Long value")
        if position < 0:
            raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")
        if partition is None:
            raise ConnectError("Partition objects cannot be null")
        if "filename" not in partition:
            raise ConnectError("Partition objects should contain the key 'filename'")


def stored_position(offset: object, path: str) -> int:
    """Return the ``position`` of a stored offset, 0 where there is none. Raises ConnectError: it is invalid."""
    if offset is None:
        return 0
    position = offset.get("position") if hasattr(offset, "get") else None
    if position is None:
        return 0
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise ConnectError(f"file {path}: the stored offset has position {position!r}, not a number of bytes")
    return position
