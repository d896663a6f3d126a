"""Small batches of several producers leave as one, and no one feels what another one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from aiokafka.errors import InvalidMessageError, KafkaError, NotLeaderForPartitionError, ProducerClosed

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.kafka.aiokafka_parts import MemoryRecords, ReadyBatch
from spark_connect_rt.kafka.records.record_batch_columns import record_bytes
from spark_connect_rt.kafka.writing.column_settings import settings_of
from spark_connect_rt.kafka.writing.producer_client import BatchCoalescer, BatchPosition, PartitionRows
from spark_connect_rt.testing.worker_settings import worker_settings

PLACE = TopicPartition("t", 0)
SETTINGS = settings_of(source_producer_properties(worker_settings({"bootstrap.servers": "k:9092"}), {}, "c", 0))


class Broker:
    """Takes one batch at a time; each waits until it is let go."""

    def __init__(self) -> None:
        self.joint = BatchCoalescer(replace(SETTINGS, batch_bytes=15_000), self.send, self.withdraw)
        self.batches: list[list[bytes]] = []
        self.in_request = False
        self.refuses: bytes | None = None
        self.error: KafkaError | None = None
        self._go = asyncio.Semaphore(0)
        self._end = 0

    async def send(self, _place: TopicPartition, batch: ReadyBatch) -> BatchPosition:
        values = _values(batch._build())
        self.batches.append(values)
        await self._go.acquire()
        if self.refuses in values:
            raise InvalidMessageError
        if self.error is not None:
            raise self.error
        self._end += len(values)
        return BatchPosition(self._end - len(values))

    def withdraw(self, _batch: ReadyBatch) -> bool:
        return not self.in_request

    async def asked(self, *values: bytes) -> asyncio.Task[BatchPosition]:
        """Begin to write a small batch."""
        columns = pa.record_batch({"value": pa.array(values, pa.binary())}, metadata={"topic": "t"})
        rows = PartitionRows(columns, record_bytes(columns), 1_000, 0.0)
        task = asyncio.create_task(self.joint.written(PLACE, rows, set()))
        await asyncio.sleep(0)
        return task

    async def sent(self, count: int) -> None:
        """Wait for so many attempts."""
        while len(self.batches) < count:
            await asyncio.sleep(0)

    def let_go(self, count: int = 1) -> None:
        for _ in range(count):
            self._go.release()


def _values(content: bytes) -> list[bytes]:
    batch = MemoryRecords(content).next_batch()
    return [record.value for record in batch]


async def _held_with(broker: Broker, *batches: Sequence[bytes]) -> list[asyncio.Task[BatchPosition]]:
    """Have a first batch under way and others waiting behind it."""
    first = await broker.asked(b"first")
    await broker.sent(1)
    return [first, *[await broker.asked(*values) for values in batches]]


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def within_limit() -> None:
        await asyncio.wait_for(story(), 20)

    asyncio.run(within_limit())


def test_batches_waiting_for_a_partition_leave_as_a_single_batch_with_own_offsets() -> None:
    async def story() -> None:
        broker = Broker()
        tasks = await _held_with(broker, [b"a1", b"a2"], [b"b"], [b"c1", b"c2"])
        broker.let_go(2)
        assert [written.offset for written in await asyncio.gather(*tasks)] == [0, 1, 3, 4]
        assert broker.batches == [[b"first"], [b"a1", b"a2", b"b", b"c1", b"c2"]]

    run(story)


def test_no_batch_grows_past_batch_size() -> None:
    async def story() -> None:
        broker = Broker()
        tasks = await _held_with(broker, *[[b"%d" % number * 6_000] for number in range(4)])
        broker.let_go(9)
        await asyncio.gather(*tasks)
        assert [len(values) for values in broker.batches] == [1, 2, 2]

    run(story)


def test_a_refused_batch_fails_whose_rows_are_refused_alone() -> None:
    async def story() -> None:
        broker = Broker()
        broker.refuses = b"bad"
        tasks = await _held_with(broker, [b"a"], [b"bad"], [b"c"])
        broker.let_go(9)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [getattr(outcome, "offset", None) for outcome in outcomes] == [0, 1, None, 2]
        assert isinstance(outcomes[2], InvalidMessageError)
        before = len(broker.batches)
        for task in [await broker.asked(b"d"), await broker.asked(b"e")]:
            await task
        assert broker.batches[before:] == [[b"d"], [b"e"]]  # for a while each goes alone

    run(story)


def test_an_attempt_that_is_worth_another_is_so_for_all() -> None:
    async def story() -> None:
        broker = Broker()
        broker.error = NotLeaderForPartitionError()
        tasks = await _held_with(broker, [b"a"], [b"b"])
        broker.let_go(9)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, NotLeaderForPartitionError) for outcome in outcomes)
        assert len(broker.batches) == 2

    run(story)


@pytest.mark.parametrize("in_request", [False, True])
def test_leaving_sender_takes_its_rows_along_unless_a_request_holds_them(in_request: bool) -> None:
    async def story() -> None:
        broker = Broker()
        first, leaver, stayer = await _held_with(broker, [b"a"], [b"b"])
        broker.let_go()
        await first
        await broker.sent(2)
        broker.in_request = in_request
        leaver.cancel()
        await asyncio.wait([leaver])
        broker.let_go(9)
        assert (await stayer).offset == (2 if in_request else 1)
        assert broker.batches[1:] == ([[b"a", b"b"]] if in_request else [[b"a", b"b"], [b"b"]])

    run(story)


def test_a_batch_taken_out_of_the_client_is_sent_once_more_for_those_who_stay() -> None:
    async def story() -> None:
        broker = Broker()
        first, leaver, stayer = await _held_with(broker, [b"a"], [b"b"])
        broker.let_go()
        await first
        await broker.sent(2)
        broker.in_request, broker.error = True, ProducerClosed()
        leaver.cancel()
        await asyncio.wait([leaver])
        broker.let_go()
        await broker.sent(3)
        broker.error = None
        broker.let_go()
        assert (await stayer).offset == 1
        assert broker.batches[2] == [b"b"]

    run(story)


def test_rows_that_cannot_be_laid_out_fail_no_neighbour() -> None:
    async def story() -> None:
        broker = Broker()
        first = await broker.asked(b"first")
        await broker.sent(1)
        columns = pa.record_batch({"value": pa.array(["text"])}, metadata={"topic": "t"})
        wrong = PartitionRows(columns, record_bytes(columns), 1_000, 0.0)
        tasks = [asyncio.create_task(broker.joint.written(PLACE, wrong, set())), await broker.asked(b"good")]
        broker.let_go(9)
        await first
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[0], Exception)
        assert isinstance(outcomes[1], BatchPosition)

    run(story)
