"""Produce requests of ready batches, one batch of a partition at most: newer brokers take no more (KIP-98)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from aiokafka.errors import IncompatibleBrokerVersion

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.buffered_connection import BufferedConnection
from spark_connect_rt.kafka.socket_writer import Piece

ACKS_OF_ALL = -1
_NO_TRANSACTION = struct.pack(">h", -1)
_ACKS, _NUMBER, _PARTITION = struct.Struct(">hi"), struct.Struct(">i"), struct.Struct(">ii")
_TEXT, _OUTCOME, _OFFSET_BYTES = struct.Struct(">h"), struct.Struct(">ihqq"), 8
_LEAST, _MOST = 3, 8  # versions whose requests have one form
_WITH_LOG_START, _WITH_RECORD_ERRORS = 5, 8  # of answers


class Outcome(NamedTuple):
    """What became of a partition's batch."""

    code: int  # Kafka's, 0: it is there
    offset: int  # of its first record; -1: not known


class ProduceBatches:
    """A produce request whose batches are sent from where they lie (Kafka's ``ProduceRequest.json``)."""

    API_KEY = 0

    def __init__(self, batches: Sequence[tuple[TopicPartition, Piece]], acks: int, limit_ms: int) -> None:
        """Take each partition's batch, which replicas have to have it, and how long the broker may wait for them."""
        self._batches = sorted(batches, key=lambda batch: (batch[0].topic, batch[0].partition))
        self._acks = _ACKS.pack(acks, limit_ms)

    async def sent_by(self, connection: BufferedConnection) -> Any:
        """Send it; return the ``Outcome`` of each partition that the answer names."""
        return await connection.send_pieces(self, list(self._pieces()))

    def version(self, versions: Mapping[int, tuple[int, int]]) -> int:
        """See PiecesRequest."""
        least, most = versions[self.API_KEY]
        if least > _MOST or most < _LEAST:
            raise IncompatibleBrokerVersion(f"produce requests: the broker supports versions {least} to {most}")
        return min(most, _MOST)

    def decoded(self, body: bytes, version: int) -> dict[TopicPartition, Outcome]:
        """See PiecesRequest. Raises struct.error: it is cut off."""
        found, at = dict[TopicPartition, Outcome](), _NUMBER.size
        for _ in range(_NUMBER.unpack_from(body)[0]):
            (size,) = _TEXT.unpack_from(body, at)
            topic = body[at + _TEXT.size : at + _TEXT.size + size].decode()
            at += _TEXT.size + size
            (count,) = _NUMBER.unpack_from(body, at)
            at += _NUMBER.size
            for _ in range(count):
                number, code, offset, _ = _OUTCOME.unpack_from(body, at)
                found[TopicPartition(topic, number)] = Outcome(code, offset)
                at += _OUTCOME.size + (_OFFSET_BYTES if version >= _WITH_LOG_START else 0)
                at = _behind_errors(body, at) if version >= _WITH_RECORD_ERRORS else at
        return found

    def _pieces(self) -> Iterator[Piece]:
        by_topic = [(topic, list(some)) for topic, some in groupby(self._batches, lambda batch: batch[0].topic)]
        before = [_NO_TRANSACTION, self._acks, _NUMBER.pack(len(by_topic))]
        for topic, batches in by_topic:
            name = topic.encode()
            before += [struct.pack(">h", len(name)), name, _NUMBER.pack(len(batches))]
            for place, content in batches:
                before.append(_PARTITION.pack(place.partition, len(content)))
                yield b"".join(before)
                yield content
                before = []


def _behind_errors(body: bytes, at: int) -> int:
    """Return where a partition ends: behind its records' errors and the text of its own."""
    (count,) = _NUMBER.unpack_from(body, at)
    at += _NUMBER.size
    for _ in range(count):
        at = _behind_text(body, at + _NUMBER.size)
    return _behind_text(body, at)


def _behind_text(body: bytes, at: int) -> int:
    return at + _TEXT.size + max(0, int(_TEXT.unpack_from(body, at)[0]))  # -1: none
