"""The offset file of a standalone worker (Java ``FileOffsetBackingStore``), which moves to a Java worker and back.

Written to a temporary file and renamed, so that a crash leaves the old file or the new one. Java writes in place.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from spark_connect_rt.errors import DataError, StartupError

# Java-serialised ``HashMap<byte[], byte[]>``: the offset file of standalone workers, byte for byte readable by both.
#
# Pure. Reads what the JDK writes for that one type, and writes what the JDK reads; any other object is rejected.
# Source: Java Object Serialization Specification, section 6, ``java.util.HashMap.writeObject`` and
# ``FileOffsetBackingStore``.


Bytes = bytes | None

_MAGIC = bytes.fromhex("aced0005")
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END = b"\x70", b"\x71", b"\x72", b"\x73", b"\x75", b"\x77", b"\x78"
_FIRST_HANDLE = 0x7E0000
_HASH_MAP = b"\x00\x11java.util.HashMap" + bytes.fromhex("0507dac1c31660d1") + b"\x03"
_HASH_MAP_FIELDS = b"\x00\x02F\x00\x0aloadFactorI\x00\x09threshold"
_BYTE_ARRAY = b"\x00\x02[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00"
_KNOWN_BYTE_ARRAY = _REFERENCE + struct.pack(">i", _FIRST_HANDLE + 2)
_LOAD_FACTOR = 0.75


def encode_byte_map(entries: Iterable[tuple[Bytes, Bytes]]) -> bytes:
    """Return the stream that ``ObjectOutputStream.writeObject(map)`` could have written."""
    pairs = list(entries)
    capacity = 16
    while len(pairs) > capacity * _LOAD_FACTOR:
        capacity *= 2
    parts = [_MAGIC, _OBJECT, _CLASS, _HASH_MAP, _HASH_MAP_FIELDS, _END, _NULL]
    parts += [struct.pack(">fi", _LOAD_FACTOR, int(capacity * _LOAD_FACTOR))]
    parts += [_BLOCK, b"\x08", struct.pack(">ii", capacity, len(pairs))]
    class_known = False
    for value in (part for pair in pairs for part in pair):
        if value is None:
            parts.append(_NULL)
            continue
        # Handles count up: 0 HashMap's class, 1 the map, 2 the class of byte arrays.
        described = (
            _REFERENCE + struct.pack(">i", _FIRST_HANDLE + 2) if class_known else _CLASS + _BYTE_ARRAY + _END + _NULL
        )
        class_known = True
        parts += [_ARRAY, described, struct.pack(">i", len(value)), value]
    return b"".join([*parts, _END])


def decode_byte_map(data: bytes) -> dict[Bytes, Bytes]:
    """Return the map. Raises DataError: the stream is damaged or contains another object."""
    reader = _Reader(data)
    try:
        return reader.byte_map()
    except struct.error as error:
        raise DataError(f"ends at byte {len(data)}, inside the map") from error


class _Reader:
    """Reads one stream; handles are given to classes and objects in the order they come, as the JDK does."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._handles: list[Bytes] = []  # the object of each handle; None: a class or the map itself

    def byte_map(self) -> dict[Bytes, Bytes]:
        for wanted in (_MAGIC, _OBJECT, _CLASS, _HASH_MAP, _HASH_MAP_FIELDS, _END, _NULL):
            self._expect(wanted)
        self._handles += [None, None]
        self._number(">f")
        self._number(">i")
        self._expect(_BLOCK + b"\x08")
        self._number(">i")
        size = int(self._number(">i"))
        found: dict[Bytes, Bytes] = {}
        for _ in range(size):
            key = self._value()
            found[key] = self._value()
        self._expect(_END)
        return found

    def _value(self) -> Bytes:
        kind = self._take(1)
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._handles[self._handle()]
        if kind != _ARRAY:
            raise self._wrong(f"an object of kind {kind.hex()} where bytes belong")
        if self._take(1) == _REFERENCE:
            self._handle()
        else:
            for wanted in (_BYTE_ARRAY, _END, _NULL):
                self._expect(wanted)
            self._handles.append(None)
        value = self._take(int(self._number(">i")))
        self._handles.append(value)
        return value

    def _handle(self) -> int:
        handle = int(self._number(">i")) - _FIRST_HANDLE
        if not 0 <= handle < len(self._handles):
            raise self._wrong(f"a reference to object {handle}, which has not come yet")
        return handle

    def _number(self, shape: str) -> float:
        (value,) = struct.unpack_from(shape, self._data, self._at)
        self._at += struct.calcsize(shape)
        return float(value)

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise self._wrong("the end")
        self._at += count
        return self._data[self._at - count : self._at]

    def _expect(self, wanted: bytes) -> None:
        if self._take(len(wanted)) != wanted:
            raise self._wrong("something else than a map of byte arrays")

    def _wrong(self, found: str) -> DataError:
        return DataError(f"no Java-serialised HashMap<byte[], byte[]>: {found}, near byte {self._at}")


EXIT_BAD_OFFSET_FILE = 21


class OffsetFile:
    """Keeper of source offsets: key and value bytes as in the offset topic."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Mapping[bytes, bytes]:
        """Return the offsets; none when there is no file yet, or an empty one. Raises StartupError (exit code 21)."""
        try:
            data = self._path.read_bytes()
            found = decode_byte_map(data) if data else {}
        except FileNotFoundError:
            return {}
        except (OSError, DataError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise StartupError(
                f"the offset file {self._path} cannot be read: {why}. Move it away to start without offsets.",
                exit_code=EXIT_BAD_OFFSET_FILE,
                code="CRT-1088",
            ) from error
        return {key: value for key, value in found.items() if key is not None and value is not None}

    def save(self, values: Mapping[bytes, bytes]) -> None:
        """Replace the file. Raises OSError."""
        beside = self._path.with_name(f"{self._path.name}.tmp")
        with beside.open("wb") as file:
            file.write(encode_byte_map(values.items()))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
