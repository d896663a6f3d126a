"""Kafka records by the Arrow batch, in transactions (KIP-618), laid out as record batches without a loop over records.

Owns the translation of a ``TransactionalProducer``'s calls for the thread that sends. After a failure that does not
fence it, the open transaction can only be aborted: sending starts over then, with a new epoch (KIP-360), because it is
unknown which of the records arrived. Must not: decide where transactions end.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import (
    BrokerResponseError,
    DuplicateSequenceNumber,
    KafkaError,
    LeaderNotAvailableError,
    UnknownError,
    for_code,
)

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, FencedError, TimedOutError
from spark_connect_rt.kafka import cluster_contact
from spark_connect_rt.kafka.aiokafka_parts import ProduceRequest
from spark_connect_rt.kafka.error_mapping import is_retriable
from spark_connect_rt.kafka.records.record_batch_columns import LaidOutRecords, laid_out_records, next_sequence
from spark_connect_rt.kafka.writing import column_producer
from spark_connect_rt.kafka.writing.column_producer import CLOSE_LIMIT_S, ColumnProducer, ColumnSender, OnDelivered
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.producer_client import BatchPosition, PartitionRows
from spark_connect_rt.kafka.writing.transaction_coordinator import FENCING, TransactionCoordinator

# Produce requests of a transactional producer: one at a time to each leader, of all batches that came meanwhile.
#
# Owns: the request's bound, and what an answer says of each batch. aiokafka's own sender cannot be given a producer id
# that another object keeps. Must not: try again. On the event loop.


class BrokerRefusedError(KafkaError):  # type: ignore[misc]
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
    """Produce requests of one transactional id, several batches in each."""

    def __init__(self, client: Any, transactional_id: str, request_timeout_ms: int, limit_bytes: int) -> None:
        """Take aiokafka's client and the most bytes of batches in a request of several."""
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_ms = request_timeout_ms
        self._limit_bytes = limit_bytes
        self._waiting: dict[int, deque[_Batch]] = {}  # of leaders that a request is in flight to, or about to be
        self._tasks = set[asyncio.Task[None]]()

    async def send(self, leader: int, place: TopicPartition, content: bytes) -> int:
        """Return the offset of the batch's first record (-1: it was there already). Raises KafkaError.

        A partition has one batch in flight at a time. Given up, a batch may arrive all the same.
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
    return BrokerRefusedError(code) if kind is UnknownError and code != UnknownError.errno else kind()


def _settle(batches: list[_Batch], outcomes: dict[TopicPartition, int | KafkaError]) -> None:
    for batch in batches:
        outcome = outcomes.get(batch.place, KafkaError(f"the broker's response has no result for {batch.place}"))
        if batch.offset.done():
            continue  # given up
        if isinstance(outcome, KafkaError):
            batch.offset.set_exception(outcome)
        else:
            batch.offset.set_result(outcome)


# Sends columns as record batches of transactions: ``ColumnSender`` with a producer id, epochs and sequence numbers.
#
# Owns: the next sequence number of each partition. A batch gets its number when it is sent first and keeps it as often
# as it is sent again, so the broker drops what it has already. Must not: ask the coordinator anything but to add
# partitions.


class NumberedBatch:
    """A batch that is laid out but for its head; in the place of ``ReadyBatch``."""

    def __init__(self, records: LaidOutRecords) -> None:
        """Take the records. On the event loop."""
        self.records = records
        self.requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def size(self) -> int:
        """Return the size of the batch, in bytes."""
        return self.records.size

    def record_count(self) -> int:
        """Return how many records there are."""
        return self.records.count


class TransactionalSender(ColumnSender):
    """Sends record batches within transactions and numbers them. On the sending thread's loop."""

    def __init__(
        self,
        settings: ColumnSettings,
        coordinator: TransactionCoordinator,
        on_delivered: OnDelivered,
        on_dropped: Callable[[int, int], None],
    ) -> None:
        """Take what to call with records and bytes that are not sent, while ``dropping``; else as the base."""
        super().__init__(settings, on_delivered)
        self.dropping = False
        self._coordinator = coordinator
        self._on_dropped = on_dropped
        self._sequences: dict[TopicPartition, int] = {}
        self._is_connected = asyncio.Event()

    async def claim(self) -> None:
        """Claim the transactional id once connected, and number batches from zero again."""
        await self._is_connected.wait()
        await self._coordinator.claim()
        self._sequences.clear()

    async def end(self, *, committed: bool) -> None:
        """See ``TransactionCoordinator.end``; nothing is in flight."""
        await self._coordinator.end(committed=committed)

    async def abort_and_renew(self) -> None:
        """See ``TransactionCoordinator.abort_and_renew``; this sender has sent nothing yet."""
        await self._is_connected.wait()
        await self._coordinator.abort_and_renew()

    async def _connected(self) -> Any:
        producer = await super()._connected()
        settings, name = self._settings, self._coordinator.transactional_id
        timeout_ms = settings.client["request_timeout_ms"]
        self._produce = ProduceRequests(producer.client, name, timeout_ms, settings.request_bytes)
        self._coordinator.connect(producer.client)
        self._is_connected.set()
        return producer

    def _laid_out(self, rows: PartitionRows) -> tuple[PartitionRows, Any]:
        return rows, NumberedBatch(laid_out_records(rows.columns, rows.now_ms, self._settings.compression))

    async def _send(self, place: TopicPartition, rows: PartitionRows, batch: Any) -> None:
        if self.dropping:
            self._on_dropped(len(rows.sizes), int(rows.sizes.sum()))
        else:
            await super()._send(place, rows, batch)

    async def _acknowledged(self, place: TopicPartition, rows: PartitionRows, batch: Any) -> BatchPosition:
        """See the base, of a NumberedBatch. Raises FencedError, too."""
        sequence, content = self._sequences.get(place, 0), b""
        if not batch.requested.done():
            batch.requested.set_result(None)
        while True:
            await self._check(place)
            try:
                await self._coordinator.add(place)
                content = content or batch.records.content((*self._coordinator.producer, sequence))
                offset = await self._produce.send(self._leader(place), place, content)
            except KafkaError as error:
                self._raise_unless_retriable(error, place)
            else:
                self._sequences[place] = next_sequence(sequence, batch.record_count())
                return BatchPosition(offset)
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)

    def _leader(self, place: TopicPartition) -> int:
        leader: int | None = self._producer.client.cluster.leader_for_partition(place)
        if leader is None or leader < 0:
            raise LeaderNotAvailableError
        return leader

    def _raise_unless_retriable(self, error: KafkaError, place: TopicPartition) -> None:
        code = getattr(error, "errno", None)
        if code in FENCING:
            raise self._coordinator.fenced(int(code), f"producing to {place}") from error
        if not is_retriable(error):
            raise error
        self.last_error = repr(error)
        if getattr(error, "invalid_metadata", False):
            self._producer.client.force_metadata_update()


_LEAST_LIMIT_MS = 100  # of a question before which the time was used up
_SENT_LIMIT_MS = 5_000  # for what is in flight when its transaction is aborted


class ColumnTransactionalProducer(ColumnProducer):
    """A TransactionalProducer on aiokafka's connections. One thread; another one is its own."""

    _sender: TransactionalSender

    def __init__(self, settings: ColumnSettings) -> None:
        """Take what ``column_settings`` returned of properties with a ``transactional.id``."""
        assert settings.transaction is not None
        self._id = settings.transaction.id
        self._coordinator = TransactionCoordinator(self._id, settings.transaction.timeout_ms, settings.retry_backoff_ms)
        super().__init__(settings)

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return TransactionalSender(settings, self._coordinator, self._delivered, self._dropped)

    def claim(self, timeout_ms: int) -> None:
        """Fence earlier producers of this id. Raises FencedError, TimedOutError, ConnectError."""
        self._ask(self._sender.claim, timeout_ms, "claiming")

    def begin(self) -> None:
        """See ``kafka.executor_clients.TransactionalProducer.begin``. The first record opens it at the broker."""
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def commit(self, timeout_ms: int) -> None:
        """Wait for all records, then commit. Raises FencedError, the first failed delivery, TimedOutError."""
        end_s = time.monotonic() + timeout_ms / 1000
        if not self._wait(self._is_idle, timeout_ms, hurried=False):
            raise TimedOutError(f"{self._records} records not acknowledged in {timeout_ms} ms{self._why()}")
        left_ms = int(1000 * (end_s - time.monotonic()))
        self._ask(lambda: self._sender.end(committed=True), left_ms, "committing a transaction of")

    def abort(self, timeout_ms: int) -> None:
        """Drop everything produced since ``begin``, with a new epoch if records are in flight. Raises FencedError."""
        end_s = time.monotonic() + timeout_ms / 1000
        if isinstance(self._failure, FencedError):
            raise self._failure
        settled = self._nothing_is_under_way(min(timeout_ms, _SENT_LIMIT_MS))
        if not settled:
            self._start_over()
        left_ms = int(1000 * (end_s - time.monotonic()))
        end = (lambda: self._sender.end(committed=False)) if settled else self._sender.abort_and_renew
        self._ask(end, left_ms, "aborting a transaction of")

    def _is_idle(self) -> bool:
        return not self._records

    def _nothing_is_under_way(self, limit_ms: int) -> bool:
        """Drop what waits, and wait for the answers to what was sent; return whether all of it is known."""
        sender = self._sender
        sender.dropping = True
        try:
            return self._wait(self._is_idle, limit_ms, hurried=False)
        except ConnectError:
            return False
        finally:
            sender.dropping = False

    def _start_over(self) -> None:
        """Have another thread send, for a transaction that nothing was sent of. Raises TimedOutError."""
        self.close()
        if self._thread.is_alive():
            raise TimedOutError(f"{self._id}: the thread that sends did not end in {CLOSE_LIMIT_S:.0f} s")
        with self._changed:
            self._failure = None
            self._records = self._bytes = 0
        self._start(self._new_sender(self._settings))

    def _ask(self, make: Callable[[], Coroutine[Any, Any, None]], limit_ms: int, doing: str) -> None:
        """Run a question to the coordinator on the loop. Raises its error; FencedError for good; TimedOutError."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            call = asyncio.run_coroutine_threadsafe(make(), self._loop)  # it is closed only behind a failure
        call.add_done_callback(self._notify)
        if not self._wait_for_answer(call.done, max(limit_ms, _LEAST_LIMIT_MS)):
            call.cancel()
            last = self._coordinator.last_error or self._sender.last_error
            raise TimedOutError(f"{doing} {self._id}: no answer in time; the client's last error: {last or None}")
        try:
            call.result()
        except FencedError as error:
            self._fail(error)
            raise

    def _wait_for_answer(self, answered: Callable[[], bool], limit_ms: int) -> bool:
        """Wait for an answer of the coordinator, and say meanwhile whether any broker answers."""
        end_s, servers = time.monotonic() + limit_ms / 1000, self._settings.client["bootstrap_servers"]
        while (left_s := end_s - time.monotonic()) > 0:
            if self._wait(answered, int(1000 * min(left_s, column_producer.CONTACT_EACH_S)) + 1, hurried=False):
                cluster_contact.found(servers)
                return True
            if why := self._coordinator.unanswered or self._sender.last_error:
                cluster_contact.lost(servers, why)
        return False

    def _notify(self, _call: Any) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- the loop's thread

    def _dropped(self, records: int, size: int) -> None:
        with self._changed:
            self._records -= records
            self._bytes -= size
            self._changed.notify_all()
