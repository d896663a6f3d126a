"""The files of a folder of an object store: listed, read by pieces, moved and deleted, as those of a local folder."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from typing import Any

from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.connectors.file_stores import FileStore, StoredFile
from spark_connect_rt.connectors.files.compressed_input import CompressedInput, compression_of
from spark_connect_rt.connectors.files.directory_files import FoundFile
from spark_connect_rt.errors import ConnectError

COMPARED_BYTES = 64 << 10  # before the position, when an object was replaced
log = logging.getLogger(__name__)


def bucket_of(uri: str) -> str:
    """Return the root of the bucket or container of a URI: `s3://b/in/x` -> `s3://b`."""
    scheme, _, place = uri.partition("://")
    return f"{scheme}://{place.partition('/')[0]}"


def key_of(uri: str) -> str:
    """Return the key of a URI in its bucket, without slashes around it."""
    return uri.partition("://")[2].partition("/")[2].strip("/")


class StoreFolder:
    """A folder of an object store. Paths of files are URIs."""

    def __init__(self, uri: str, store: FileStore) -> None:
        """Take the URI of the folder, and the store of its whole bucket."""
        self._bucket, self._folder, self._store = bucket_of(uri), key_of(uri), store

    def list(self, wanted: Callable[[str], bool]) -> list[FoundFile]:
        """Return the files whose name is wanted. Raises ConnectError: the folder cannot be listed."""
        found = self._store.files(self._folder)
        return [self._found(stored) for stored in found if wanted(stored.key.rpartition("/")[2])]

    def _found(self, stored: StoredFile) -> FoundFile:
        return FoundFile(f"{self._bucket}/{stored.key}", stored.size_bytes, stored.modified_ms)

    def is_as_found(self, found: FoundFile) -> bool:
        """Return whether the file exists and is unchanged. Raises RetriableError: that is not known now."""
        stored = self._store.find(key_of(found.path))
        return stored is not None and self._found(stored) == found

    def move_into(self, path: str, directory: str) -> str:
        """Move a file into a folder of the bucket, under a new name where its own is taken."""
        return self._move(path, f"{key_of(directory)}/{path.rpartition('/')[2]}", "")

    def rename(self, path: str, suffix: str) -> str:
        """Append `suffix` to a file's name; return the new one."""
        return self._move(path, key_of(path) + suffix, suffix)

    def _move(self, path: str, wanted: str, suffix: str) -> str:
        target, number = wanted, 0
        while self._store.find(target) is not None:
            number += 1
            target = f"{wanted.removesuffix(suffix) if suffix else wanted}.{number}{suffix}"
        self._store.move(key_of(path), target)
        return f"{self._bucket}/{target}"

    def delete(self, path: str) -> None:
        """Delete a file that may be deleted already."""
        self._store.delete(key_of(path))

    def input(self, path: str, position: int) -> StoreInput | CompressedInput:
        """Return the input of a complete file. Raises ConnectError."""
        key = key_of(path)
        compression = compression_of(self._store.read(key, 0, 16), path)
        if compression is None:
            return StoreInput(path, key, self._store, position, grows=False)
        return CompressedInput(path, position, compression, lambda: self.parquet(path))

    def parquet(self, path: str) -> Any:
        """Return a file object of a whole file. Raises ConnectError."""
        return io.BufferedReader(_StoreReader(self._store, key_of(path), path), 1 << 20)


class StoreInput:
    """As FileInput, of an object. It grows only by being replaced by a longer one that begins in the same way."""

    def __init__(self, path: str, key: str, store: FileStore, position: int = 0, *, grows: bool = True) -> None:
        """Take the object; it is looked for on first use."""
        self.path = path
        self.position = position
        self.incomplete_bytes = 0
        self.restarts = 0
        self._key, self._store, self._grows = key, store, grows
        self._seen: StoredFile | None = None
        self._tail = b""  # the bytes before the position

    def available(self) -> int:
        """Return how many bytes follow the position; 0 when there is nothing new, or no object (yet)."""
        if self._seen is None or self._grows:
            self._look()
        left_bytes = 0 if self._seen is None else self._seen.size_bytes - self.position
        return left_bytes if left_bytes > self.incomplete_bytes else 0

    def _look(self) -> None:
        found, seen = self._store.find(self._key), self._seen
        if found is None:
            log.log(logging.WARNING if seen is not None else logging.DEBUG, "file %s does not exist", self.path)
            self._seen = None
            return
        self._seen = found
        if seen is not None and seen.version == found.version:
            return
        if found.size_bytes < self.position or (self._tail and self._before() != self._tail):
            log.warning("file %s was replaced: reading it from its beginning", self.path)
            self.position = self.incomplete_bytes = 0
            self._tail = b""
            self.restarts += 1

    def _before(self) -> bytes:
        return self._store.read(self._key, self.position - len(self._tail), len(self._tail))

    def read(self, size_bytes: int, ahead_bytes: int = 0) -> bytes:
        """Return up to `size_bytes` from `ahead_bytes` past the position on; the position stays."""
        return self._store.read(self._key, self.position + ahead_bytes, size_bytes)

    def advance(self, size_bytes: int) -> None:
        """Move the position forward by `size_bytes` of whole rows."""
        if self._grows:
            self._tail = self.read(min(size_bytes, COMPARED_BYTES), max(0, size_bytes - COMPARED_BYTES))
        self.position += size_bytes
        self.incomplete_bytes = 0

    def changes(self) -> IdleLook | None:
        """Return None: only a request shows whether the object changed."""
        return None

    def close(self) -> None:
        """Do nothing: the object shares its connections."""


class _StoreReader(io.RawIOBase):
    """An object as Python's readers take files. The store's errors pass through them."""

    def __init__(self, store: FileStore, key: str, path: str) -> None:
        found = store.find(key)
        if found is None:
            raise ConnectError(f"file {path} does not exist")
        self._store, self._key, self._size, self._at = store, key, found.size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._store.read(self._key, self._at, min(len(buffer), self._size - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
