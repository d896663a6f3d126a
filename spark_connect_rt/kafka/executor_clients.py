"""The external needs of code on an executor: clients and plug-ins. Handed in by ``app`` as one picklable name.

The launch carries ``clients`` = "package.module:factory"; the executor imports it and calls ``factory()`` to get
an ExecutorClients. In-memory twin: testing.memory_executor_clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import TopicGroup
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.records.pipeline.errant_records import RefusedRecord

OFFSET_REPORTS = {"connectrt.delivery.offsets": "true"}
"""Of a producer's configuration: it remembers where its records went."""
RECORD_REPORTS = {"connectrt.delivery.records": "true"}
"""The same, of each record."""


class DeliveryReports(IntEnum):
    """Which delivery reports a source task wants: which of its hooks are called once records are durable."""

    NOTHING = 0
    OFFSETS = 1  # where they went, of each partition
    RECORDS = 2  # of each

    @property
    def properties(self) -> Mapping[str, str]:
        """Return what to add to the producer's configuration."""
        return ({}, OFFSET_REPORTS, RECORD_REPORTS)[self]


class ClientLostError(RetriableError):
    """A client can never send again what it holds, by no fault of the task's: the task is hosted again."""


class BatchProducer(Protocol):
    """Writes Kafka records by the batch. One thread."""

    def produce(self, batch: pa.RecordBatch) -> None:
        """Queue every row of a batch in ``records.pipeline.columns`` produce form; blocks while the buffer is full.

        Raises ConnectError of the first failed delivery so far.
        """

    def flush(self, timeout_ms: int) -> None:
        """Return when everything queued is acknowledged. Raises the first failure, TimedOutError."""

    def delivered(self) -> list[Delivered]:
        """Return where records went that were acknowledged since the last call, in order for each partition.

        Only of a producer made with OFFSET_REPORTS.
        """

    def metadata(self) -> list[RecordMetadata | None]:
        """Return where each record went that was queued since the last call, in that order.

        After ``flush`` or ``commit``. None: it was dropped with its transaction. Only with RECORD_REPORTS.
        """

    def hurry(self, end_by_s: float) -> None:
        """Have ``produce`` and ``flush`` wait no longer than to this time (monotonic clock). Any thread.

        Also the call in progress; it raises TimedOutError then.
        """

    def close(self) -> None:
        """Give up what is queued and close."""


@runtime_checkable
class SkipsRefused(Protocol):
    """A BatchProducer that can leave out a record which Kafka refuses for what it is, and send the others."""

    def skip_refused(self) -> None:
        """From now on leave such records out: too large for a request or the topic, without a key it must have.

        Its place in ``metadata`` holds None. Every other error still fails a delivery. Before the first ``produce``.
        """

    def refused(self) -> list[RefusedRecord]:
        """Return the records that were left out since the last call, and why. Complete behind ``flush``."""


@runtime_checkable
class IdleNotifier(Protocol):
    """A BatchProducer that reports when a ``flush`` would not wait, so that callers need not wait in it."""

    def is_empty(self, otherwise: Callable[[], None]) -> bool:
        """Return whether nothing is in flight, or ``flush`` would raise; else call ``otherwise`` once it is so.

        Of several calls before that the last counts. ``otherwise``: on any thread; must not block.
        """


class TransactionalProducer(BatchProducer, Protocol):
    """Writes records that readers of committed data see all at once or never (KIP-618). One thread.

    Producers of one transactional id fence each other: only the last to call ``claim`` can write. The broker rejects
    records of a fenced producer, and each of its calls raises FencedError. After any other error the open transaction
    can only be aborted.
    """

    def claim(self, timeout_ms: int) -> None:
        """Fence every earlier producer of this id and abort what it left open; the first call.

        Raises FencedError, TimedOutError, ConnectError (not allowed).
        """

    def begin(self) -> None:
        """Open a transaction; none is open."""

    def commit(self, timeout_ms: int) -> None:
        """Make everything produced since ``begin`` visible, and return when it is.

        Raises FencedError, the first failed delivery, TimedOutError.
        """

    def abort(self, timeout_ms: int) -> None:
        """Drop everything produced since ``begin``."""


class BatchConsumer(Protocol):
    """Reads assigned partitions, no group. One thread."""

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too, from these offsets (-1 beginning, -2 end)."""

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these no more; nothing of them is returned afterwards."""

    def poll(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        """Return what is there in ``records.pipeline.columns`` consume form (one topic partition or several).

        Raises ConnectError, never in the place of rows already read: a caller that continues after it has lost nothing.
        """

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset this consumer will read, past markers and compacted records."""

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each partition (the last stable offset under read_committed)."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics (KIP-516), another one after a topic was deleted and created again.

        A topic that does not exist, or whose id this consumer cannot learn, has none. Raises ConnectError.
        """

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return how many partitions topics have. One that does not exist is left out. Raises ConnectError."""

    def close(self) -> None:
        """Close the consumer and its connections."""


class ExecutorClients(Protocol):
    """Makes clients on an executor. Configurations are Java client properties, secrets resolved here."""

    def producer(self, config: Mapping[str, str]) -> BatchProducer:
        """Return a new producer with these properties."""

    def transactional_producer(self, config: Mapping[str, str]) -> TransactionalProducer:
        """Return a new producer; ``config`` holds its ``transactional.id``."""

    def consumer(self, config: Mapping[str, str]) -> BatchConsumer:
        """Return a new consumer with these properties."""

    def ensure_topic(self, config: Mapping[str, str], topic: str, replication_factor: int) -> bool:
        """Create a topic of one partition when it is missing; return whether it was. ``config`` is an admin client's.

        Raises ConnectError: it cannot be created (BadConfigError: fewer brokers than copies), or no broker answers.
        """

    def create_topic(self, config: Mapping[str, str], topic: str, group: TopicGroup) -> bool:
        """Create a topic as its group says, unless it exists; return whether it did not. Raises as ``ensure_topic``."""

    def name_of(self, plugin: type[Any]) -> str:
        """Return a plug-in's name as users know it: Java's class where there is one, else ``package.module.Class``."""

    def plugin(self, name: str) -> type[Any]:
        """Return the class of a converter, transformation or predicate by class name or alias. NotFoundError."""

    def plugin_location(self, path: str) -> str:
        """Return where a file or folder of the driver's ``plugin.path`` is on this machine; others are left as is."""

    def resolve(self, config: StoredConfig | Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return ``config`` with every ``${provider:...}`` replaced by what ``worker_config``'s providers say.

        Raises BadConfigError naming what cannot be read. Secrets exist only in what this returns.
        """
