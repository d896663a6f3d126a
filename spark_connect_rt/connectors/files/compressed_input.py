"""A compressed file as its decompressed bytes, and the detection of files that are compressed or not text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.task import IdleLook
from spark_connect_rt.connectors.files.file_input import FileInput
from spark_connect_rt.connectors.files.file_problems import content_problem, file_problem
from spark_connect_rt.errors import ConnectError

_COMPRESSIONS = {  # first bytes -> Arrow's name
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_REFUSED = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\xff\x06\x00\x00sNaPpY": "compressed by snappy",
    b"PAR1": "a Parquet file",
    b"Obj\x01": "an Avro file",
    b"ORC": "an ORC file",
}


def compression_of(start: bytes, path: str) -> str | None:
    """Return Arrow's name of a file's compression by its first bytes, None for text.

    Raises ConnectError: it is of a kind that no rows can be read of.
    """
    for magic, kind in _REFUSED.items():
        if start.startswith(magic):
            raise ConnectError(
                f"file {path} is {kind}, but only text can be read, plain or compressed by gzip, bz2, zstd or lz4"
            )
    return next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)


def whole_input(path: str, position: int) -> FileInput | CompressedInput:
    """Return the input of a complete file, which does not grow. Raises ConnectError."""
    try:
        with open(path, "rb") as file:
            compression = compression_of(file.read(16), path)
    except OSError as error:
        raise file_problem(path, "cannot be read", error) from error
    return FileInput(path, position) if compression is None else CompressedInput(path, position, compression)


class CompressedInput:
    """As FileInput, of a file that does not change; ``position`` counts its decompressed bytes."""

    restarts = 0

    def __init__(self, path: str, position: int, compression: str, open_file: Callable[[], Any] | None = None) -> None:
        """Remember the file; bytes before ``position`` are read and forgotten at the first read.

        ``open_file`` opens it. None: it is a local file.
        """
        self._open_file = open_file or (lambda: path)
        self.path = path
        self.position = position
        self.incomplete_bytes = 0
        self._compression = compression
        self._stream: Any = None
        self._ahead = b""  # read and not passed

    def available(self) -> int:
        """Return how many bytes are known to follow the position; 0: it is at the end. Raises ConnectError."""
        left_bytes = len(self.read(self.incomplete_bytes + 1))
        return left_bytes if left_bytes > self.incomplete_bytes else 0

    def read(self, size_bytes: int, ahead_bytes: int = 0) -> bytes:
        """Return up to ``size_bytes`` from ``ahead_bytes`` past the position on; the position stays."""
        if ahead_bytes < 0:
            position = self.position + ahead_bytes
            return CompressedInput(self.path, position, self._compression, self._open_file)._only(size_bytes)
        try:
            if self._stream is None:
                self._open()
            missing = ahead_bytes + size_bytes - len(self._ahead)
            if missing > 0:
                self._ahead += self._stream.read(missing)
        except OSError as error:
            self.close()  # a later read begins again
            raise content_problem(self.path, f"cannot be read as {self._compression}", error) from error
        return self._ahead[ahead_bytes : ahead_bytes + size_bytes]

    def _only(self, size_bytes: int) -> bytes:
        try:
            return self.read(size_bytes)
        finally:
            self.close()

    def _open(self) -> None:
        self._stream = pa.input_stream(self._open_file(), compression=self._compression)
        left_bytes = self.position
        while left_bytes and (passed := self._stream.read(min(left_bytes, 1 << 20))):
            left_bytes -= len(passed)

    def advance(self, size_bytes: int) -> None:
        """Move the position forward by ``size_bytes`` of whole rows."""
        self.position += size_bytes
        self._ahead = self._ahead[size_bytes:]
        self.incomplete_bytes = 0

    def changes(self) -> IdleLook | None:
        """Return None: the file does not change."""
        return None

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._ahead = None, b""
