"""Metadata of topics: the leader of each partition, since which epoch, and the topic's id (KIP-320, KIP-516).

Owns: Metadata 8 and 10, where aiokafka's own end. Brokers older than Kafka 2.8 send no topic ids, those older than 2.3
no epochs; then nothing is compared.
Source: Kafka's ``MetadataRequest.json`` and ``MetadataResponse.json``.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    MetadataRequest,
    RequestStruct,
    Response,
    Schema,
    String,
    TaggedFields,
)

_NO_ID = bytes(16)
_TEXT, _COMPACT = String("utf-8"), CompactString("utf-8")


class _Uuid:
    """Sixteen bytes as they are."""

    @staticmethod
    def encode(value: bytes) -> bytes:
        return value

    @staticmethod
    def decode(data: BytesIO) -> bytes:
        return data.read(16)


class MetadataResponse_v8(Response):  # type: ignore[misc]  # noqa: N801 - as the library names them
    """Metadata's answer, as of version 5 but for a partition's leader epoch and who may do what."""

    API_KEY, API_VERSION = 3, 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("topic_authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class MetadataRequest_v8(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """Metadata of topics by name."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 3, 8, MetadataResponse_v8
    SCHEMA = Schema(
        ("topics", Array(_TEXT)),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class MetadataResponse_v10(Response):  # type: ignore[misc]  # noqa: N801
    """As version 8, compact, with each topic's id behind its name."""

    API_KEY, API_VERSION = 3, 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _COMPACT), ("port", Int32), ("rack", _COMPACT), ("tags", TaggedFields)
            ),
        ),
        ("cluster_id", _COMPACT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", _COMPACT),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequest_v10(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """Metadata of topics by name, with their ids."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 3, 10, MetadataResponse_v10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _COMPACT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class LeadersRequest(MetadataRequest):  # type: ignore[misc]
    """Asks for the leaders of topics' partitions, and their epochs. Creates no topics, unless it may."""

    def __init__(self, topics: list[str], creates: bool = False) -> None:
        super().__init__(topics, creates)
        self._creates = creates

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in one of our versions, or as the library makes it."""
        if request_struct_class is MetadataRequest_v8:
            return MetadataRequest_v8(self._topics, self._creates, False, False)
        if request_struct_class is MetadataRequest_v10:
            named: list[Any] = [(_NO_ID, topic, {}) for topic in self._topics]
            return MetadataRequest_v10(named, self._creates, False, False, {})
        return super().build(request_struct_class)


# The library takes a request's versions from its type argument, which a subclass cannot extend.
LeadersRequest._CLASSES = (*MetadataRequest._CLASSES, MetadataRequest_v8, MetadataRequest_v10)


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """The part of an answer about one topic: an error code, its id if reported, (leader, epoch) by partition."""

    topic: str
    error_code: int
    topic_id: str | None
    leaders: dict[TopicPartition, int]
    epochs: dict[TopicPartition, int]


def topic_leaders(metadata: Any) -> Iterator[TopicLeaders]:
    """Yield what an answer to LeadersRequest says of each topic, whatever its version."""
    has_ids = metadata.API_VERSION >= MetadataResponse_v10.API_VERSION
    has_epochs = metadata.API_VERSION >= MetadataResponse_v8.API_VERSION
    for code, topic, *rest in metadata.topics:
        topic_id = rest[0] if has_ids and rest[0] != _NO_ID else None
        partitions = rest[2] if has_ids else rest[1]
        yield TopicLeaders(
            topic,
            code,
            None if topic_id is None else urlsafe_b64encode(topic_id).decode().rstrip("="),  # as Java prints it
            {TopicPartition(topic, partition[1]): partition[2] for partition in partitions},
            {TopicPartition(topic, partition[1]): partition[3] for partition in partitions} if has_epochs else {},
        )
