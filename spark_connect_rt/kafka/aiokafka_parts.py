"""The parts of aiokafka that it does not promise to keep: connections, wire structs, reader and builder of records.

Owns: their import, and the one class that aiokafka takes for its own. A new minor release of aiokafka may move or
change any of them, so pyproject.toml keeps it below the next one. A test fails when another module imports one.
"""

import asyncio

from aiokafka import codec
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, collect_hosts
from aiokafka.protocol.admin import DeleteGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest_v5, LeaveGroupRequest_v1, SyncGroupRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from aiokafka.protocol.types import (
    Array,
    Boolean,
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
    "collect_hosts",
    "encode_varint",
]


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
        """Return the size, bytes."""
        return len(self._content)

    def record_count(self) -> int:
        """Return how many records there are."""
        return self._count

    def _build(self) -> bytes:
        if not self.requested.done():
            self.requested.set_result(None)
        return self._content
