"""Sends columns as record batches of transactions: ``ColumnSender`` with a producer id, epochs and sequence numbers.

Owns: the next sequence number of each partition. A batch gets its number when it is sent first and keeps it as often as
it is sent again, so the broker drops what it has already. Must not: ask the coordinator anything but to add partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError, LeaderNotAvailableError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.error_mapping import is_retriable
from spark_connect_rt.kafka.records.record_batch_columns import LaidOutRecords, laid_out_records, next_sequence
from spark_connect_rt.kafka.writing.column_sender import ColumnSender, OnDelivered
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.column_values import Rows, Written
from spark_connect_rt.kafka.writing.produce_requests import ProduceRequests
from spark_connect_rt.kafka.writing.transaction_coordinator import FENCING, TransactionCoordinator


class NumberedBatch:
    """A batch that is laid out but for its head; in the place of ``ReadyBatch``."""

    def __init__(self, records: LaidOutRecords) -> None:
        """Take the records. On the event loop."""
        self.records = records
        self.requested: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def size(self) -> int:
        """Return the size, bytes."""
        return self.records.size

    def record_count(self) -> int:
        """Return how many records there are."""
        return self.records.count


class TransactionalSender(ColumnSender):
    """See the module."""

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
        """See ``TransactionCoordinator.claim``."""
        await self._is_connected.wait()
        await self._coordinator.claim()
        self._sequences.clear()

    async def end(self, *, committed: bool) -> None:
        """See ``TransactionCoordinator.end``; nothing is under way."""
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

    def _laid_out(self, rows: Rows) -> tuple[Rows, Any]:
        return rows, NumberedBatch(laid_out_records(rows.columns, rows.now_ms, self._settings.compression))

    async def _send(self, place: TopicPartition, rows: Rows, batch: Any) -> None:
        if self.dropping:
            self._on_dropped(len(rows.sizes), int(rows.sizes.sum()))
        else:
            await super()._send(place, rows, batch)

    async def _acknowledged(self, place: TopicPartition, rows: Rows, batch: Any) -> Written:
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
                return Written(offset)
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
