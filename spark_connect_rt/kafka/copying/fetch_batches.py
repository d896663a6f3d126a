"""Fetch requests for whole batches, and their answers, without an object of each field.

The library's structures are as costly for eight partitions as eight small batches are to copy. Source: Kafka's
``FetchRequest.json``, ``FetchResponse.json``, without sessions (KIP-227).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import IncompatibleBrokerVersion

from spark_connect_rt.kafka.copying.buffered_connection import SMALL_FIELD_BYTES, BufferedConnection, Piece

_LEAST, _MOST = 4, 11
_WITH_LOG_START, _WITH_SESSION, _WITH_EPOCH, _WITH_RACK = 5, 7, 9, 11  # versions
_NUMBER, _TEXT = struct.Struct(">i"), struct.Struct(">h")
_HEAD = struct.Struct(">iiiib")  # replica, wait, least bytes, most bytes, isolation level
_NO_SESSION = struct.pack(">ii", 0, -1)
_ANSWERED = struct.Struct(">ihqq")  # partition, error, high watermark, last stable offset
_ABORTED = struct.Struct(">qq")
_NONE = -1


class FetchedTopics(NamedTuple):
    """An answer, in the library's form: what ``Fetcher`` reads."""

    topics: list[tuple[str, list[tuple[Any, ...]]]]
    """Of each partition (partition, error, high watermark, last stable offset, first offset, aborted, batches)."""


class FetchBatches:
    """See the module. Arguments as of the library's FetchRequest; ``epochs``: of the leaders that may answer."""

    API_KEY = 1

    def __init__(
        self,
        wait_ms: int,
        least_bytes: int,
        most_bytes: int,
        isolation: int,
        topics: Sequence[tuple[str, Sequence[tuple[int, Any, int]]]],
        *,
        epochs: Mapping[tuple[str, int], int],
    ) -> None:
        self._head = _HEAD.pack(_NONE, wait_ms, least_bytes, most_bytes, isolation)
        self._topics = topics
        self._epochs = epochs

    async def sent_by(self, connection: BufferedConnection) -> Any:
        """Send it; return the FetchedTopics."""
        return await connection.send_pieces(self, self._body)

    def version(self, versions: Mapping[int, tuple[int, int]]) -> int:
        """See PiecesRequest."""
        least, most = versions[self.API_KEY]
        if least > _MOST or most < _LEAST:
            raise IncompatibleBrokerVersion(f"fetch requests: the broker takes versions {least} to {most}")
        return min(most, _MOST)

    def _body(self, version: int) -> list[Piece]:
        return [b"".join(self._fields(version))]

    def _fields(self, version: int) -> Iterator[bytes]:
        yield self._head
        if version >= _WITH_SESSION:
            yield _NO_SESSION
        yield _NUMBER.pack(len(self._topics))
        epoch, start = "i" * (version >= _WITH_EPOCH), "q" * (version >= _WITH_LOG_START)
        place = struct.Struct(f">i{epoch}q{start}i")
        for topic, partitions in self._topics:
            name = topic.encode()
            yield _TEXT.pack(len(name)) + name + _NUMBER.pack(len(partitions))
            for number, offset, most_bytes in partitions:
                known = (self._epochs.get((topic, number), _NONE),) if epoch else ()
                yield place.pack(number, *known, offset, *((_NONE,) if start else ()), most_bytes)
        if version >= _WITH_SESSION:
            yield _NUMBER.pack(0)  # topics to forget
        if version >= _WITH_RACK:
            yield _TEXT.pack(0)

    def decoded(self, body: memoryview, version: int) -> FetchedTopics:
        """See PiecesRequest. Raises struct.error: it is cut off."""
        at = _NUMBER.size + (_TEXT.size + _NUMBER.size if version >= _WITH_SESSION else 0)
        topics: list[tuple[str, list[tuple[Any, ...]]]] = []
        (count,) = _NUMBER.unpack_from(body, at)
        at += _NUMBER.size
        for _ in range(count):
            (size,) = _TEXT.unpack_from(body, at)
            topic = bytes(body[at + _TEXT.size : at + _TEXT.size + size]).decode()
            at += _TEXT.size + size
            (several,) = _NUMBER.unpack_from(body, at)
            at += _NUMBER.size
            partitions = []
            for _ in range(several):
                one, at = _partition(body, at, version)
                partitions.append(one)
            topics.append((topic, partitions))
        return FetchedTopics(topics)


def _partition(body: memoryview, at: int, version: int) -> tuple[tuple[Any, ...], int]:
    """Return what an answer says of a partition, and where it ends."""
    head = _ANSWERED.unpack_from(body, at)
    at += _ANSWERED.size + (8 if version >= _WITH_LOG_START else 0)
    (count,) = _NUMBER.unpack_from(body, at)
    at += _NUMBER.size
    aborted = [_ABORTED.unpack_from(body, at + number * _ABORTED.size) for number in range(count)]
    at += max(0, count) * _ABORTED.size + (_NUMBER.size if version >= _WITH_RACK else 0)  # the replica to prefer
    (size,) = _NUMBER.unpack_from(body, at)
    at += _NUMBER.size
    end = at + max(0, size)
    if end > len(body):
        raise struct.error(f"batches of {size} bytes are cut off")
    batches: Piece = body[at:end]
    if size < SMALL_FIELD_BYTES:  # a view keeps its whole answer, while its target takes nothing
        batches = memoryview(bytearray(batches))
    return (*head, _NONE, aborted if count >= 0 else None, batches), end
