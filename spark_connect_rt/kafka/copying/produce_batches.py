"""Produce requests of ready batches, one batch of a partition at most: newer brokers take no more (KIP-98)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from spark_connect_rt.kafka.aiokafka_parts import ProduceRequest
from spark_connect_rt.kafka.copying.buffered_connection import BufferedConnection, Piece
from spark_connect_rt.protocol.ids import TopicPartition

ACKS_OF_ALL = -1
_NO_TRANSACTION = struct.pack(">h", -1)
_ACKS, _NUMBER, _PARTITION = struct.Struct(">hi"), struct.Struct(">i"), struct.Struct(">ii")


class ProduceBatches(ProduceRequest):  # type: ignore[misc]
    """A ProduceRequest whose batches are sent from where they lie. Versions 3 to 8 have the same form."""

    def __init__(self, batches: Sequence[tuple[TopicPartition, Piece]], acks: int, limit_ms: int) -> None:
        """Take each partition's batch, which replicas have to have it, and how long the broker may wait for them."""
        super().__init__(None, acks, limit_ms, [])
        self._batches = sorted(batches, key=lambda one: one[0])
        self._acks = _ACKS.pack(acks, limit_ms)

    async def sent_by(self, connection: BufferedConnection) -> Any:
        """Send it; return the answer."""
        return await connection.send_pieces(self, list(self._pieces()))

    def _pieces(self) -> Iterator[Piece]:
        by_topic = [(topic, list(some)) for topic, some in groupby(self._batches, lambda one: one[0].topic)]
        before = [_NO_TRANSACTION, self._acks, _NUMBER.pack(len(by_topic))]
        for topic, batches in by_topic:
            name = topic.encode()
            before += [struct.pack(">h", len(name)), name, _NUMBER.pack(len(batches))]
            for place, content in batches:
                before.append(_PARTITION.pack(place.partition, len(content)))
                yield b"".join(before)
                yield content
                before = []


class Outcome(NamedTuple):
    """What became of a partition's batch."""

    code: int  # Kafka's, 0: it is there
    offset: int  # of its first record; -1: not known


def outcomes(answer: Any) -> dict[TopicPartition, Outcome]:
    """Return what an answer to ProduceBatches says of each partition."""
    return {
        TopicPartition(topic, fields[0]): Outcome(fields[1], fields[2])
        for topic, partitions in answer.topics
        for fields in partitions
    }
