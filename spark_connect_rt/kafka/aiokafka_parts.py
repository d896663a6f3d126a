"""The parts of aiokafka that it does not promise to keep: connections, wire structs, reader and builder of records.

Owns: their import, and the two classes that aiokafka takes for its own. A new minor release of aiokafka may move or
change any of them, so pyproject.toml keeps it below the next one. A test fails when another module imports one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Set
from typing import Any

from aiokafka import codec
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator
from aiokafka.errors import BrokerResponseError, ProducerClosed, kafka_errors
from aiokafka.producer import sender as _sender
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest_v5, LeaveGroupRequest_v1, SyncGroupRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest as _ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import encode_varint

__all__ = [
    "ABORT_MARKER",
    "AIOKafkaConnection",
    "AddPartitionsToTxnRequest",
    "Array",
    "Boolean",
    "CompactArray",
    "CompactBytes",
    "CompactString",
    "ConnectionGroup",
    "ControlRecord",
    "CoordinationType",
    "DefaultRecordBatchBuilder",
    "DeleteGroupsRequest",
    "EndTxnRequest",
    "FetchRequest",
    "FindCoordinatorRequest",
    "HeartbeatRequest",
    "InitProducerIdRequest",
    "Int16",
    "Int32",
    "Int64",
    "JoinGroupRequest_v5",
    "LeaveGroupRequest_v1",
    "MemoryRecords",
    "MetadataRequest",
    "OAuthAuthenticator",
    "OffsetCommitRequest",
    "OffsetFetchRequest",
    "OffsetRequest",
    "ProduceRequest",
    "ReadyBatch",
    "Request",
    "RequestStruct",
    "Response",
    "Schema",
    "String",
    "SyncGroupRequest",
    "TaggedFields",
    "codec",
    "encode_varint",
    "sends_no_more",
    "withdraw",
]


class ProduceRequest(_ProduceRequest):  # type: ignore[misc]
    """A produce request whose batches are put together once, not once more for each level of the schema around them.

    aiokafka's producer makes its requests of it, too: 1 MB was copied five times on its way to the connection.
    """

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in one version."""
        struct = super().build(request_struct_class)
        schema = struct.SCHEMA
        parts = [getattr(struct, name) for name in schema.names]
        # Not by way of the struct: it would hold itself, and its batches until garbage is looked for.
        struct.encode = lambda: b"".join(_pieces(schema, parts))
        return struct


_sender.ProduceRequest = ProduceRequest


def _pieces(kind: Any, value: Any) -> Iterator[bytes]:
    """Yield what ``kind.encode`` puts together; the bytes of batches as they are."""
    if type(kind) is Schema:
        for field, part in zip(kind.fields, value, strict=True):
            yield from _pieces(field, part)
    elif type(kind) is Array and value is not None:
        yield Int32.encode(len(value))
        for part in value:
            yield from _pieces(kind.array_of, part)
    elif kind is Bytes and value is not None:
        yield Int32.encode(len(value))
        yield value
    else:
        yield kind.encode(value)


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]
    """A broker refuses a record for what it is: without a key, for one, in a topic that is compacted (KIP-467)."""

    errno = 87
    message = "INVALID_RECORD"
    description = "The record failed the validation of the broker."


kafka_errors.setdefault(InvalidRecordError.errno, InvalidRecordError)  # else it would be UNKNOWN, without a cause


class ReadyBatch:
    """A record batch that is laid out, as ``AIOKafkaProducer.send_batch`` takes it (aiokafka's ``BatchBuilder``)."""

    def __init__(self, content: bytes, count: int) -> None:
        """Take the bytes and how many records are in them. On the event loop."""
        self._content = content
        self._count = count
        self.requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Is done when the batch is part of a request."""

    def close(self) -> None:
        """Do nothing: the batch is complete from the start."""

    def closed(self) -> bool:
        """Return that nothing can be added."""
        return True

    def size(self) -> int:
        """Return the size of the batch, in bytes."""
        return len(self._content)

    def record_count(self) -> int:
        """Return how many records there are."""
        return self._count

    def _build(self) -> bytes:
        if not self.requested.done():
            self.requested.set_result(None)
        return self._content


def sends_no_more(producer: Any) -> bool:
    """Return whether the task that sends an AIOKafkaProducer's batches has ended. Any thread."""
    task = producer._sender.sender_task
    return task is not None and bool(task.done())


def withdraw(producer: Any, batches: Set[ReadyBatch]) -> list[asyncio.Future[Any]]:
    """Take batches out of an AIOKafkaProducer; return what is done when the rest, in a request by now, is answered.

    That rest is not sent again by it. Other producers may wait for their turn behind what is taken out.
    """
    accumulator = producer._message_accumulator
    for place, waiting in list(accumulator._batches.items()):
        for queued in [queued for queued in waiting if queued._builder in batches]:
            waiting.remove(queued)
            if not queued._drain_waiter.done():
                queued._drain_waiter.set_result(None)
            queued.failure(ProducerClosed())
        if not waiting:
            del accumulator._batches[place]
    under_way = [batch for batch in accumulator._pending_batches if batch._builder in batches]
    for pending in under_way:
        pending._ttl = -1
    return [pending.future for pending in under_way]
