"""Kafka records by the Arrow batch, laid out as record batches without a loop over records.

Of every producer with settings that ``column_settings`` understands: librdkafka takes one call for each record, and
one report where offsets are to be known, which costs several times what the layout of columns does. Owns: the thread
with the event loop, the buffer's bound, the first failure. Must not: lay out, choose partitions, send
(``ColumnSender``).
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.kafka import cluster_contact
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.records.record_batch_columns import BATCH_OVERHEAD, record_bytes
from spark_connect_rt.kafka.writing.column_sender import ColumnSender
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.column_values import BatchPosition, PartitionRows, Produced
from spark_connect_rt.kafka.writing.producer_client import ProducerClient
from spark_connect_rt.kafka.writing.shared_clients import SharedLoop
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import RefusedRecord

# Where each record went that a ``ColumnProducer`` wrote, in the order of its ``produce``: for tasks with commitRecord.
#
# A number travels with each row as a column of its own, which no layout looks at; what is acknowledged comes as
# columns, too, so nothing is called for each record. Owns the numbers. Not thread-safe: the producer's lock is around
# it.


NUMBER = "connectrt.number"


class RecordOffsets:
    """Of one producer."""

    def __init__(self) -> None:
        """Start with no record."""
        self._first = self._next = 0  # numbers that are not taken yet
        self._places: list[RecordMetadata | None] = []

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in produce form with the numbers of its rows, which are the next ones."""
        numbers = np.arange(self._next, self._next + batch.num_rows, dtype=np.int64)
        self._next += batch.num_rows
        self._places.extend([None] * batch.num_rows)
        fields = [*batch.schema, pa.field(NUMBER, pa.int64())]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(numbers)], schema=pa.schema(fields, batch.schema.metadata)
        )

    def note(
        self, place: TopicPartition, offset: int, rows: pa.RecordBatch, now_ms: int, appended_ms: int | None
    ) -> None:
        """Take note of records that a partition holds from this offset on.

        Args:
            place: the partition.
            offset: of the first row.
            rows: numbered, as they were laid out.
            now_ms: the timestamp of those without one.
            appended_ms: the broker's own for all of them; None: the topic keeps theirs.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        stamps = columns["timestamp"].to_pylist() if "timestamp" in columns else [None] * rows.num_rows
        topic, partition = place.topic, place.partition
        numbers = columns[NUMBER].to_pylist()
        for index, (number, stamp) in enumerate(zip(numbers, stamps, strict=True)):
            own_ms = now_ms if stamp is None else stamp
            metadata = RecordMetadata(topic, partition, offset + index, own_ms if appended_ms is None else appended_ms)
            self._places[number - self._first] = metadata

    def take(self) -> list[RecordMetadata | None]:
        """Return those of all records since the last call, None of one that is not acknowledged; forget them."""
        taken, self._places = self._places, []
        self._first = self._next
        return taken


CLOSE_LIMIT_S = 5.0
CONTACT_EACH_S = 2.0
log = logging.getLogger(__name__)


class ColumnProducer:
    """A BatchProducer on aiokafka's client. One thread; another one is its own.

    Raises as ``KafkaBatchProducer`` does, but for a row whose partition does not exist: that fails the delivery.
    """

    def __init__(self, settings: ColumnSettings, clock_s: Callable[[], float] = time.time) -> None:
        """Take what ``column_settings`` returned, and the time since the epoch, for records that bring none."""
        self._settings = settings
        self._clock_s = clock_s
        self._changed = threading.Condition()  # of the following
        self._records = self._bytes = 0  # under way
        self._runs = DeliveryRuns()
        self._places = RecordOffsets()
        self._failure: ConnectError | None = None
        self._skips = False
        self._refused: list[RefusedRecord] = []
        self._end_by_s = math.inf
        self._is_watched = self._gets_on = False
        self._on_empty: Callable[[], None] | None = None
        self._start(self._new_sender(settings))

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return ColumnSender(settings, self._delivered)

    def _start(self, sender: ColumnSender) -> None:
        self._sender = sender
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._sending = self._loop.create_task(sender.run())
        self._thread = threading.Thread(target=self._run, name="column-producer", daemon=True)
        self._thread.start()

    def produce(self, batch: pa.RecordBatch) -> None:
        """See ``kafka.executor_clients.BatchProducer.produce``."""
        if not batch.num_rows:
            return
        sizes = record_bytes(batch)
        fits = sizes + BATCH_OVERHEAD <= self._settings.request_bytes
        too_large = [self._too_large(int(size)) for size in sizes[~fits]]
        if too_large and not self._skips:
            raise too_large[0]
        size, limit_ms = int(sizes[fits].sum()), self._settings.max_block_ms
        if not self._wait(lambda: self._bytes + size <= max(self._settings.buffer_bytes, size), limit_ms):
            raise TimedOutError(f"no room in the producer's buffer for max.block.ms={limit_ms}{self._why()}")
        until_s = self._loop.time() + self._settings.delivery_timeout_ms / 1000
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._settings.reports_records:
                batch = self._places.numbered(batch)
            if too_large:
                for row, error in zip(np.flatnonzero(~fits), too_large, strict=True):
                    self._refused.append(refused_record(batch.slice(int(row), 1), error))
                batch, sizes = batch.filter(pa.array(fits)), sizes[fits]
            if not batch.num_rows:
                return
            self._records += batch.num_rows
            self._bytes += size
            # The loop is closed only behind a failure.
            self._hand_over(Produced(batch, int(self._clock_s() * 1000), until_s, sizes))
            if not self._is_watched:
                self._is_watched = True
                self._loop.call_soon_threadsafe(self._watch_contact)  # in the context of this thread

    def _too_large(self, size: int) -> ConnectError:
        doing = f"producing a record of {size} bytes with max.request.size={self._settings.request_bytes}"
        return connect_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), doing)

    def skip_refused(self) -> None:
        """See ``kafka.executor_clients.SkipsRefused.skip_refused``."""
        self._skips, self._sender.on_refused = True, self._left_out

    def refused(self) -> list[RefusedRecord]:
        """See ``kafka.executor_clients.SkipsRefused.refused``."""
        with self._changed:
            taken, self._refused = self._refused, []
            return taken

    def _hand_over(self, produced: Produced) -> None:
        self._loop.call_soon_threadsafe(self._sender.put, produced)

    def flush(self, timeout_ms: int) -> None:
        """See ``kafka.executor_clients.BatchProducer.flush``."""
        if not self._wait(lambda: not self._records, timeout_ms):
            raise TimedOutError(f"{self._records} records not acknowledged in {timeout_ms} ms{self._why()}")

    def is_empty(self, otherwise: Callable[[], None]) -> bool:
        """See ``kafka.executor_clients.IdleNotifier.is_empty``."""
        with self._changed:
            if not self._records or self._failure is not None:
                return True
            self._on_empty = otherwise
            return False

    def hurry(self, end_by_s: float) -> None:
        """See ``kafka.executor_clients.BatchProducer.hurry``."""
        with self._changed:
            self._end_by_s = end_by_s
            self._changed.notify_all()

    def delivered(self) -> list[Delivered]:
        """See ``kafka.executor_clients.BatchProducer.delivered``."""
        with self._changed:
            return self._runs.take()

    def metadata(self) -> list[RecordMetadata | None]:
        """See ``kafka.executor_clients.BatchProducer.metadata``."""
        with self._changed:
            return self._places.take()

    def close(self) -> None:
        """See ``kafka.executor_clients.BatchProducer.close``."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._sending.cancel)
            self._thread.join(CLOSE_LIMIT_S)

    def _wait(self, fact: Callable[[], bool], limit_ms: int, *, hurried: bool = True) -> bool:
        """Wait for a fact; return whether it came. Raises the first failure. ``hurried``: see ``hurry``."""
        latest_s = time.monotonic() + limit_ms / 1000
        with self._changed:
            while self._failure is None and not fact():
                left_s = (min(latest_s, self._end_by_s) if hurried else latest_s) - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            if self._failure is not None:
                raise self._failure
            return True

    def _why(self) -> str:
        return f"; the client's last error: {self._sender.last_error}" if self._sender.last_error else ""

    # -- the loop's thread

    def _run(self) -> None:
        with self._runner:
            try:
                self._runner.run(_outcome(self._sending))
            except asyncio.CancelledError:
                pass  # closed
            except Exception as error:  # noqa: BLE001 - the top of the thread
                self._fail(error)

    def _left_out(self, place: TopicPartition, rows: PartitionRows, refusal: ConnectError) -> None:
        with self._changed:
            self._refused.append(refused_record(rows.columns, refusal, place))
            self._settle(rows)

    def _settle(self, rows: PartitionRows) -> None:
        self._records -= len(rows.sizes)
        self._bytes -= int(rows.sizes.sum())
        self._changed.notify_all()
        if not self._records:
            self._say_empty()

    def _watch_contact(self) -> None:
        """Say now and then whether the brokers take what is under way."""
        servers = self._settings.client["bootstrap_servers"]
        with self._changed:
            gets_on, self._gets_on = self._gets_on or not self._records, False
            self._is_watched = self._records > 0 and self._failure is None
        if gets_on:
            cluster_contact.found(servers)
        elif self._sender.last_error:
            cluster_contact.lost(servers, self._sender.last_error)
        if self._is_watched:
            self._loop.call_later(CONTACT_EACH_S, self._watch_contact)

    def _delivered(self, place: TopicPartition, written: BatchPosition, rows: PartitionRows) -> None:
        records = len(rows.sizes)
        with self._changed:
            if self._settings.reports_offsets:
                self._runs.note(place.topic, place.partition, written.offset, records)
            if self._settings.reports_records:
                self._places.note(place, written.offset, rows.columns, rows.now_ms, written.appended_ms)
            self._gets_on = True
            self._settle(rows)

    def _fail(self, error: Exception) -> None:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, ConnectError):
            log.exception("the producer has ended", exc_info=error)
        with self._changed:
            self._failure = error if isinstance(error, ConnectError) else ConnectError(f"producing: {error!r}")
            self._changed.notify_all()
            self._say_empty()

    def _say_empty(self) -> None:
        on_empty, self._on_empty = self._on_empty, None
        if on_empty is not None:
            on_empty()


class SharedColumnProducer(ColumnProducer):
    """A ColumnProducer by a client that others use, too: what fails or ends it is its own, and their loop goes on."""

    def __init__(
        self,
        settings: ColumnSettings,
        client: ProducerClient,
        loop: SharedLoop,
        give_back: Callable[[ProducerClient], bool],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Take what ``SharedClients.take`` returned, and its ``give_back``."""
        self._client = client
        self._shared = loop
        self._give_back = give_back
        self._over = threading.Event()
        super().__init__(settings, clock_s)

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return ColumnSender(settings, self._delivered, self._client)

    def _start(self, sender: ColumnSender) -> None:
        self._sender = sender
        self._loop = self._shared.loop
        self._shared.attach(self._loop_ended)
        self._loop.call_soon_threadsafe(self._start_sending)

    def _hand_over(self, produced: Produced) -> None:
        self._shared.put(self._sender, produced)

    def close(self) -> None:
        """See ``kafka.executor_clients.BatchProducer.close``."""
        if not self._over.is_set():
            self._loop.call_soon_threadsafe(lambda: self._sending.cancel())
            self._over.wait(CLOSE_LIMIT_S)

    # -- the loop's thread

    def _start_sending(self) -> None:
        self._sending = self._loop.create_task(self._sender.run())
        self._sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._shared.detach(self._loop_ended)
        if not sending.cancelled() and isinstance(error := sending.exception(), Exception):
            self._fail(error)
        if self._give_back(self._client):
            self._closing = self._loop.create_task(self._client.close())
        self._over.set()

    def _loop_ended(self, error: Exception) -> None:
        self._over.set()
        self._fail(error)


def refused_record(row: pa.RecordBatch, error: ConnectError, place: TopicPartition | None = None) -> RefusedRecord:
    """Return what is kept of a batch of one row in produce form. ``place``: where it was to go, if that is known."""
    metadata = row.schema.metadata or {}
    values = {name: column[0].as_py() for name, column in zip(row.schema.names, row.columns, strict=True)}
    topic = values.get("topic") or (metadata[TOPIC].decode() if TOPIC in metadata else "")
    partition = values.get("partition", int(metadata[PARTITION]) if PARTITION in metadata else None)
    headers = [(header["key"], header["value"]) for header in values.get("headers") or ()]
    return RefusedRecord.of(
        error,
        (topic, partition) if place is None else (place.topic, place.partition),
        (values.get("key"), values.get("value")),
        headers,
        values.get("timestamp"),
    )


async def _outcome(task: asyncio.Task[None]) -> None:
    await task
