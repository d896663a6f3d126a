"""JoinGroup 9 and LeaveGroup 5, which carry a reason (KIP-800), where aiokafka's own end at 5 and 1; OffsetDelete 0.

Owns these layouts, declared with aiokafka's field types. Which version goes out is decided per connection
by what the broker offers, so an old broker gets the requests without a reason.
Source: Kafka's ``JoinGroupRequest.json``, ``LeaveGroupRequest.json``, ``OffsetDeleteRequest.json``, their responses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    JoinGroupRequest_v5,
    LeaveGroupRequest_v1,
    Request,
    RequestStruct,
    Response,
    Schema,
    String,
    TaggedFields,
)

_TEXT = CompactString("utf-8")
_NO_TAGS: dict[int, bytes] = {}


class JoinGroupResponse_v9(Response):  # type: ignore[misc]  # noqa: N801 - as the library names them
    """JoinGroup's answer. ``members`` are (id, instance id, metadata, tags), empty but for the leader."""

    API_KEY, API_VERSION = 11, 9
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("generation_id", Int32),
        ("protocol_type", _TEXT),
        ("group_protocol", _TEXT),
        ("leader_id", _TEXT),
        ("skip_assignment", Boolean),
        ("member_id", _TEXT),
        (
            "members",
            CompactArray(
                ("member_id", _TEXT),
                ("group_instance_id", _TEXT),
                ("member_metadata", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class JoinGroupRequest_v9(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """Version 9 of JoinGroup, which carries a reason."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 11, 9, JoinGroupResponse_v9
    SCHEMA = Schema(
        ("group", _TEXT),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        ("member_id", _TEXT),
        ("group_instance_id", _TEXT),
        ("protocol_type", _TEXT),
        (
            "group_protocols",
            CompactArray(("protocol_name", _TEXT), ("protocol_metadata", CompactBytes), ("tags", TaggedFields)),
        ),
        ("reason", _TEXT),
        ("tags", TaggedFields),
    )


class LeaveGroupResponse_v5(Response):  # type: ignore[misc]  # noqa: N801
    """LeaveGroup's answer, with one error for the request and one for each member."""

    API_KEY, API_VERSION = 13, 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "members",
            CompactArray(
                ("member_id", _TEXT), ("group_instance_id", _TEXT), ("error_code", Int16), ("tags", TaggedFields)
            ),
        ),
        ("tags", TaggedFields),
    )


class LeaveGroupRequest_v5(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """LeaveGroup of one or more members, each with its reason."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 13, 5, LeaveGroupResponse_v5
    SCHEMA = Schema(
        ("group", _TEXT),
        (
            "members",
            CompactArray(("member_id", _TEXT), ("group_instance_id", _TEXT), ("reason", _TEXT), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )


class OffsetDeleteResponse_v0(Response):  # type: ignore[misc]  # noqa: N801
    """OffsetDelete's answer: one error for the group, one for each partition."""

    API_KEY, API_VERSION = 47, 0
    SCHEMA = Schema(
        ("error_code", Int16),
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("error_code", Int16))),
            ),
        ),
    )


class OffsetDeleteRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """Forget the committed offsets of some partitions."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 47, 0, OffsetDeleteResponse_v0
    SCHEMA = Schema(
        ("group", String("utf-8")),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(Int32)),
            ),
        ),
    )


class OffsetDeleteRequest(Request[OffsetDeleteRequest_v0]):  # type: ignore[misc]
    """OffsetDelete (API 47), for partitions of any topics."""

    API_KEY = 47

    def __init__(self, group: str, partitions: Collection[TopicPartition]) -> None:
        self._group, self._partitions = group, sorted(partitions)

    def build(self, request_struct_class: Any) -> Any:
        """Return the request with its partitions by topic."""
        topics = groupby(self._partitions, lambda partition: partition.topic)
        return request_struct_class(self._group, [(topic, [p.partition for p in found]) for topic, found in topics])


def forgotten(answer: Any) -> Iterator[tuple[str, int]]:
    """Yield what an OffsetDelete's answer says: where (empty: of the whole group) and the error code, 0 for none."""
    yield "", answer.error_code
    for topic, partitions in answer.topics:
        for partition, code in partitions:
            yield f", {topic}-{partition}", code


class JoinRequest(Request[JoinGroupRequest_v5 | JoinGroupRequest_v9]):  # type: ignore[misc]
    """JoinGroup in the newest version that the broker and this worker have."""

    API_KEY = 11

    def __init__(self, *fields: Any, protocols: list[tuple[str, bytes]], reason: str) -> None:
        """Take group, times, member id, instance id and protocol type in the order of the wire."""
        self._fields, self._protocols, self._reason = fields, protocols, reason

    def build(self, request_struct_class: Any) -> Any:
        """Return the request of one version; versions below 8 have no reason."""
        if request_struct_class is JoinGroupRequest_v5:
            return request_struct_class(*self._fields, self._protocols)
        offers = [(name, metadata, _NO_TAGS) for name, metadata in self._protocols]
        return request_struct_class(*self._fields, offers, self._reason, _NO_TAGS)


class LeaveRequest(Request[LeaveGroupRequest_v1 | LeaveGroupRequest_v5]):  # type: ignore[misc]
    """LeaveGroup in the newest version that the broker and this worker have."""

    API_KEY = 13

    def __init__(self, group: str, member_id: str, reason: str) -> None:
        self._group, self._member_id, self._reason = group, member_id, reason

    def build(self, request_struct_class: Any) -> Any:
        """Return the request of one version; versions below 5 have no reason."""
        if request_struct_class is LeaveGroupRequest_v1:
            return request_struct_class(self._group, self._member_id)
        members = [(self._member_id, None, self._reason, _NO_TAGS)]
        return request_struct_class(self._group, members, _NO_TAGS)
