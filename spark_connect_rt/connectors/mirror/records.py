"""MirrorMaker's binary records: bytes <-> values (Java ``OffsetSync``, ``Checkpoint``, ``Heartbeat``).

Kafka's old encoding: big-endian integers, a string is INT16 length and UTF-8. Decoders raise DataError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError

VERSION = 0
T = TypeVar("T")
_TWO_LONGS = struct.Struct(">qq")
_VERSION = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) > 0x7FFF:
        raise DataError(f"a text of {len(data)} bytes is too long for a record of MirrorMaker's")
    return _VERSION.pack(len(data)) + data


class _Reader:
    """Reads fields one after another."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise ValueError("there is none")
        self._data, self._at = data, 0

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        found = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found

    def text(self) -> str:
        (length,) = self.fields(_VERSION)
        if length < 0 or self._at + length > len(self._data):
            raise ValueError(f"a text of {length} bytes at {self._at} of {len(self._data)}")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def version(self) -> None:
        (version,) = self.fields(_VERSION)
        if version != VERSION:
            raise ValueError(f"unknown version {version}")


def _decoded(what: str, key: bytes | None, value: bytes | None, read: Callable[[_Reader, _Reader], T]) -> T:
    try:
        return read(_Reader(key), _Reader(value))
    except (ValueError, struct.error) as error:
        raise DataError(f"not a valid {what}: key {key!r}, value {value!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record of ``partition`` at the source and the same record at the target."""

    partition: TopicPartition  # at the source
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """Return the record's key as bytes: topic and partition."""
        return _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        """Return the record's value, which has no version."""
        return _TWO_LONGS.pack(self.upstream_offset, self.downstream_offset)

    @staticmethod
    def decode(key: bytes | None, value: bytes | None) -> OffsetSync:
        """Return the value of ``key`` and ``value``. Raises DataError."""
        return _decoded(
            "offset sync",
            key,
            value,
            lambda of_key, of_value: OffsetSync(
                TopicPartition(of_key.text(), *of_key.fields(_INT)), *of_value.fields(_TWO_LONGS)
            ),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's offset at the source, and its equivalent at the target."""

    group: str
    partition: TopicPartition  # at the target
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """Return the record's key as bytes: group, topic and partition."""
        return _text(self.group) + _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        """Return the record's value as bytes: version, both offsets and metadata."""
        offsets = _TWO_LONGS.pack(self.upstream_offset, self.downstream_offset)
        return _VERSION.pack(VERSION) + offsets + _text(self.metadata)

    def source_partition(self) -> dict[str, Any]:
        """Return the Connect source partition of the record."""
        return {"group": self.group, "topic": self.partition.topic, "partition": self.partition.partition}

    @staticmethod
    def decode(key: bytes | None, value: bytes | None) -> Checkpoint:
        """Return the value of ``key`` and ``value``. Raises DataError."""

        def read(of_key: _Reader, of_value: _Reader) -> Checkpoint:
            of_value.version()
            upstream, downstream = of_value.fields(_TWO_LONGS)
            group, topic = of_key.text(), of_key.text()
            place = TopicPartition(topic, *of_key.fields(_INT))
            return Checkpoint(group, place, upstream, downstream, of_value.text())

        return _decoded("checkpoint", key, value, read)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Proof that a flow is alive: it is replicated as any record is."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Return the record's key as bytes: both aliases."""
        return _text(self.source_alias) + _text(self.target_alias)

    def value(self) -> bytes:
        """Return the record's value as bytes: version and time."""
        return _VERSION.pack(VERSION) + _LONG.pack(self.timestamp_ms)

    def source_partition(self) -> dict[str, str]:
        """Return the Connect source partition of the record."""
        return {"sourceClusterAlias": self.source_alias, "targetClusterAlias": self.target_alias}

    @staticmethod
    def decode(key: bytes | None, value: bytes | None) -> Heartbeat:
        """Return the value of ``key`` and ``value``. Raises DataError."""

        def read(of_key: _Reader, of_value: _Reader) -> Heartbeat:
            of_value.version()
            return Heartbeat(of_key.text(), of_key.text(), *of_value.fields(_LONG))

        return _decoded("heartbeat", key, value, read)
