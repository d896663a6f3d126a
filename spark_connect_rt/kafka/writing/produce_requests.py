"""Produce requests of a transactional producer: one at a time to each leader, of all batches that came meanwhile.

Owns: the request's bound, and what an answer says of each batch. aiokafka's own sender cannot be given a producer id
that somebody else keeps. Must not: try again. On the event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import BrokerResponseError, DuplicateSequenceNumber, KafkaError, UnknownError, for_code

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import ProduceRequest


class RefusedError(KafkaError):  # type: ignore[misc]
    """A broker's refusal that aiokafka does not know; ``errno`` is Kafka's code."""

    def __init__(self, errno: int) -> None:
        super().__init__(f"error {errno}")
        self.errno = errno


@dataclass(frozen=True, slots=True)
class _Batch:
    place: TopicPartition
    content: bytes
    offset: asyncio.Future[int]


class ProduceRequests:
    """See the module."""

    def __init__(self, client: Any, transactional_id: str, request_timeout_ms: int, limit_bytes: int) -> None:
        """Take aiokafka's client and the most bytes of batches in a request of several."""
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_ms = request_timeout_ms
        self._limit_bytes = limit_bytes
        self._waiting: dict[int, deque[_Batch]] = {}  # of leaders that a request is under way to, or about to be
        self._tasks = set[asyncio.Task[None]]()

    async def send(self, leader: int, place: TopicPartition, content: bytes) -> int:
        """Return the offset of the batch's first record (-1: it was there already). Raises KafkaError.

        A partition has one batch under way at a time. Given up, a batch may arrive all the same.
        """
        batch = _Batch(place, content, asyncio.get_running_loop().create_future())
        if leader in self._waiting:
            self._waiting[leader].append(batch)
        else:
            self._waiting[leader] = deque([batch])
            task = asyncio.create_task(self._send_waiting(leader))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await batch.offset

    async def _send_waiting(self, leader: int) -> None:
        waiting = self._waiting[leader]
        try:
            while waiting:
                await self._send(leader, _taken(waiting, self._limit_bytes))
        finally:
            del self._waiting[leader]
            for batch in waiting:
                batch.offset.cancel()

    async def _send(self, leader: int, batches: list[_Batch]) -> None:
        topics = defaultdict[str, list[tuple[int, bytes]]](list)
        for batch in batches:
            topics[batch.place.topic].append((batch.place.partition, batch.content))
        request = ProduceRequest(self._transactional_id, -1, self._timeout_ms, list(topics.items()))
        try:
            answer = await self._client.send(leader, request)
        except KafkaError as error:
            _settle(batches, dict.fromkeys((unsent.place for unsent in batches), error))
        except BaseException:
            for batch in batches:
                batch.offset.cancel()
            raise
        else:
            _settle(batches, _outcomes(answer))


def _taken(waiting: deque[_Batch], limit_bytes: int) -> list[_Batch]:
    taken = [waiting.popleft()]
    size = len(taken[0].content)
    while waiting and (size := size + len(waiting[0].content)) <= limit_bytes:
        taken.append(waiting.popleft())
    return taken


def _outcomes(answer: Any) -> dict[TopicPartition, int | KafkaError]:
    """Return the offset or the error of each partition."""
    found: dict[TopicPartition, int | KafkaError] = {}
    for topic, partitions in answer.topics:
        for partition, code, offset, *_ in partitions:
            found[TopicPartition(topic, partition)] = int(offset) if code == 0 else _error_of(code)
    return found


def _error_of(code: int) -> KafkaError | int:
    kind: type[BrokerResponseError] = for_code(code)
    if kind is DuplicateSequenceNumber:
        return -1  # an earlier attempt at it arrived, so long ago that the broker forgot where
    return RefusedError(code) if kind is UnknownError and code != UnknownError.errno else kind()


def _settle(batches: list[_Batch], outcomes: dict[TopicPartition, int | KafkaError]) -> None:
    for batch in batches:
        outcome = outcomes.get(batch.place, KafkaError(f"the broker's response has no result for {batch.place}"))
        if batch.offset.done():
            continue  # given up
        if isinstance(outcome, KafkaError):
            batch.offset.set_exception(outcome)
        else:
            batch.offset.set_result(outcome)
