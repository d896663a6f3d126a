"""Leader epochs: how a reader learns that an unclean election cut the log it reads (KIP-320).

Owns: OffsetForLeaderEpoch 3 and the epochs in Fetch from 9 on, where aiokafka's own end or leave them out.
Brokers older than Kafka 2.3 tell no epochs; then nothing is compared.
Source: Kafka's ``OffsetForLeaderEpochRequest.json`` and its counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import (
    Array,
    FetchRequest,
    Int16,
    Int32,
    Int64,
    Request,
    RequestStruct,
    Response,
    Schema,
    String,
)

UNKNOWN = -1  # epoch or offset
_TEXT = String("utf-8")
_EPOCHS_IN_FETCH = 9  # version


class EpochEnd(NamedTuple):
    """Where a leader's log ends for an epoch asked about: of the last one it has that is not later."""

    error_code: int
    leader_epoch: int
    end_offset: int


class OffsetForLeaderEpochResponse_v3(Response):  # type: ignore[misc]  # noqa: N801
    """See EpochEnd."""

    API_KEY, API_VERSION = 23, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class OffsetForLeaderEpochRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """The first version that asks for no more rights than to read the topic."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 23, 3, OffsetForLeaderEpochResponse_v3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        ),
    )


class EpochEndsRequest(Request[OffsetForLeaderEpochRequest_v3]):  # type: ignore[misc]
    """Where the leader's log ends for epochs: partition -> (the leader's present epoch, the epoch asked about)."""

    API_KEY = 23

    def __init__(self, epochs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._epochs = epochs

    def build(self, request_struct_class: Any) -> Any:
        """See Request."""
        by_topic = groupby(sorted(self._epochs.items()), key=lambda entry: entry[0].topic)
        topics = [(topic, [(place.partition, *epochs) for place, epochs in places]) for topic, places in by_topic]
        return request_struct_class(UNKNOWN, topics)


class FencedFetchRequest(FetchRequest):  # type: ignore[misc]
    """A FetchRequest that only the leader of the epochs given answers; where brokers know of none, as any other."""

    def __init__(self, *fields: Any, epochs: Mapping[tuple[str, int], int]) -> None:
        super().__init__(*fields)
        self._epochs = epochs

    def build(self, request_struct_class: Any) -> Any:
        """See Request."""
        built = super().build(request_struct_class)
        if request_struct_class.API_VERSION >= _EPOCHS_IN_FETCH:
            built.topics = [
                (topic, [(number, self._epochs.get((topic, number), UNKNOWN), *rest) for number, _, *rest in places])
                for topic, places in built.topics
            ]
        return built


def epoch_ends(answer: Any) -> dict[TopicPartition, EpochEnd]:
    """Return what an answer to EpochEndsRequest tells of each partition."""
    return {
        TopicPartition(topic, number): EpochEnd(code, epoch, offset)
        for topic, partitions in answer.topics
        for code, number, epoch, offset in partitions
    }
