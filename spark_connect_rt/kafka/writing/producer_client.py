"""One client of aiokafka's for one producer or several: its connections, its metadata, the bound of its requests.

On one event loop. Owns: connecting and its retries, which topics are asked about, taking back what a producer that
closes has left in it. Must not: lay out or retry batches (``ColumnSender``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Set
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import ReadyBatch, sends_no_more, withdraw
from spark_connect_rt.kafka.writing.column_requests import LAST_WAIT_S, Requests, close
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.column_values import Written
from spark_connect_rt.kafka.writing.joint_batches import JointBatches

RECONNECT_S = 1.0


class ProducerClient:
    """Connects when the first producer asks. Everything but the making and ``users`` on the loop's thread."""

    def __init__(self, settings: ColumnSettings) -> None:
        """Take what ``column_settings`` returned."""
        self.last_error = ""
        self.joint = JointBatches(settings, self.send, self.withdrawn)
        self._requests = Requests(settings.request_bytes)
        self.users = 0  # producers that share it; under the lock of ``SharedClients``
        self._settings = settings
        self._producer: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._topics: Counter[str] = Counter()

    @property
    def broken(self) -> bool:
        """Tell whether nothing is sent by it any more. Any thread."""
        return self._producer is not None and sends_no_more(self._producer)

    async def connected(self) -> Any:
        """Return aiokafka's producer; waits while no broker answers."""
        if self._producer is None:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect())
            self._producer = await asyncio.shield(self._connecting)  # others may wait for it, too
        return self._producer

    async def _connect(self) -> Any:
        while True:
            producer = AIOKafkaProducer(**self._settings.client)
            try:
                await producer.start()
            except BaseException as error:
                await close(producer)
                if not isinstance(error, KafkaConnectionError):
                    raise
                self.last_error = repr(error)
                await asyncio.sleep(RECONNECT_S)
            else:
                return producer

    async def send(self, place: TopicPartition, batch: ReadyBatch) -> Written:
        """Make one attempt at a batch; return where its first record lies. Raises KafkaError."""
        leader = self._producer.client.cluster.leader_for_partition(place)
        async with self._requests.room(leader, batch.size()):
            sent = await self._producer.send_batch(batch, place.topic, partition=place.partition)
            sent.add_done_callback(_retrieve_outcome)  # also when no one waits for it any more
            done = await asyncio.shield(sent)
            return Written(int(done.offset), None if done.timestamp in (None, -1) else int(done.timestamp))

    def withdrawn(self, batch: ReadyBatch) -> bool:
        """Take a batch back; return False where it is in a request by now: that one is the last."""
        return not withdraw(self._producer, {batch})

    def writes_to(self, topic: str) -> None:
        """Take note that one more producer writes to a topic."""
        self._topics[topic] += 1

    async def leave(self, topics: Set[str], batches: Set[ReadyBatch]) -> None:
        """Take back what a producer has left: batches that no one waits for, topics that no other writes to."""
        self._topics -= Counter(topics)
        if self._producer is None:
            return
        if under_way := withdraw(self._producer, batches):
            await asyncio.wait(under_way, timeout=LAST_WAIT_S)
            withdraw(self._producer, batches)  # those that went back to be sent once more
        if self._topics:
            self._producer.client.set_topics(list(self._topics))

    async def close(self) -> None:
        """Close it, and give up what is under way."""
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._producer is not None:
            await close(self._producer)


def _retrieve_outcome(sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled():
        sent.exception()
