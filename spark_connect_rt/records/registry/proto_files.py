"""Protobuf schemas at the edge: file descriptors as the registry keeps them, message classes, and message indexes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.registry_client import StoredSchema, library

KNOWN_FILES = (  # what users' schemas may import, and how these libraries call it
    "google.protobuf.timestamp_pb2",
    "google.protobuf.wrappers_pb2",
    "google.protobuf.duration_pb2",
    "google.protobuf.struct_pb2",
    "google.protobuf.any_pb2",
    "google.protobuf.empty_pb2",
    "google.protobuf.field_mask_pb2",
    "google.type.date_pb2",
    "google.type.timeofday_pb2",
    "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent_kafka.schema_registry.confluent.types.decimal_pb2",
)


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """One file of messages, with everything it imports in a pool of its own."""

    descriptor: Any
    pool: Any

    def message(self, indexes: Sequence[int]) -> Any:
        """Return the message at a path of places. Raises DataError: there is none."""
        try:
            messages = list(self.descriptor.message_types_by_name.values())
            found = messages[indexes[0]]
            for at in indexes[1:]:
                found = found.nested_types[at]
        except IndexError as error:
            raise DataError(f"the schema has no message at {list(indexes)}") from error
        return found


@dataclass
class _Files:
    pool: Any
    others: Mapping[str, StoredSchema]
    added: set[str] = field(default_factory=set)

    def add(self, proto: Any) -> None:
        for name in proto.dependency:
            if name not in self.added:
                self.add(self._imported(name))
        if proto.name not in self.added:
            self.added.add(proto.name)
            self.pool.Add(proto)

    def _imported(self, name: str) -> Any:
        if name in self.others:
            proto = file_of_text(self.others[name].text)
            proto.name = name
            return proto
        proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
        try:
            library("google.protobuf.descriptor_pool").Default().FindFileByName(name).CopyToProto(proto)
        except KeyError as error:
            raise DataError(f"the schema imports {name}, which is not available") from error
        return proto


def file_of_text(text: str) -> Any:
    """Return the FileDescriptorProto that the registry gives in base64. Raises DataError: it is something else."""
    proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
    try:
        proto.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, library("google.protobuf.message").DecodeError) as error:
        raise DataError("the registry does not give Protobuf schemas in their serialized form") from error
    return proto


def text_of_file(proto: Any) -> str:
    """Return the form in which a file is registered."""
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def linked(proto: Any, others: Mapping[str, StoredSchema]) -> ProtoFile:
    """Return a file with its imports. Raises DataError: one is missing, or it contradicts itself."""
    for module in KNOWN_FILES:
        library(module)
    pool = library("google.protobuf.descriptor_pool").DescriptorPool()
    proto.name = proto.name or "connect.proto"
    try:
        _Files(pool, others).add(proto)
        return ProtoFile(pool.FindFileByName(proto.name), pool)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"not a valid Protobuf schema: {error}") from error


def written_indexes(indexes: Sequence[int]) -> bytes:
    """Return a message's path as it stands before the payload; the first message of a file is one zero byte."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, [len(indexes), *indexes]))


def read_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return a message's path, and where the payload begins. Raises DataError: it is cut off."""
    count, at = _read_varint(data, start)
    if count == 0:
        return (0,), at
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(number: int) -> bytes:
    rest, out = number << 1, bytearray()  # zigzag of what is never negative
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while at < len(data) and shift < 35:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if number & 1:
                break
            return number >> 1, at
    raise DataError("the message's index cannot be read")
