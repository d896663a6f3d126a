"""Tasks: they move the data, on executors (Java ``SourceTask``, ``SinkTask``).

A task lives in one Python process, is called by one thread, and is rebuilt in another process after a restart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from spark_connect_rt._version import __version__
from spark_connect_rt.api.records import (
    Delivered,
    Polled,
    RecordMetadata,
    SinkBatch,
    SinkRecord,
    SourceBatch,
    SourceRecord,
    Written,
)
from spark_connect_rt.base.ids import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future


IdleLook = Callable[[], bool]
"""Says, from any thread and within microseconds, whether a poll may find something now."""


class OffsetReader(Protocol):
    """Reads what the offset topic holds for this connector (Java ``OffsetStorageReader``)."""

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition, in order; None where there is none."""


class TransactionContext(Protocol):
    """Where a source task says that its transactions end (KIP-618). Only calls from within ``poll`` count for its poll.

    A record is named by itself, the very object that ``poll`` returns. What is aborted is never visible to readers of
    committed data, but its offsets are committed: it does not come again.
    """

    def commit_transaction(self, record: SourceRecord | SourceBatch | None = None) -> None:
        """Commit behind this record; None: behind the batch that this poll returns."""

    def abort_transaction(self, record: SourceRecord | SourceBatch | None = None) -> None:
        """Drop everything since the last end up to this record; None: up to the end of this poll's batch."""


PLUGINS = "plugins"  # the group of a metric that names none


class PluginMetrics(Protocol):
    """Metrics that a task or a connector keeps itself (KIP-877). ``/admin/metrics`` shows them, its tags before these.

    ``group`` and ``name`` are as in JMX ``kafka.connect:type=<group>``. Of a task only its own thread; of a connector
    any thread, its averages are since its start, and it has no rates.
    """

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """Add to ``<name>-count``; ``<name>-rate`` is what was added a second, over the window."""

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Take in values of ``<name>``: the last one, and ``-avg``, ``-min`` and ``-max`` over the window."""

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Say what ``<name>`` is now; it is shown until something else is said, or the task is hosted again."""


class NoPluginMetrics:
    """PluginMetrics that no one looks at."""

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """Do nothing."""

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Do nothing."""

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class OwnWrites:
    """Whether a task may write records to its topics itself, beside its worker's producer, and return ``Written``.

    It may where nothing looks at them on their way: no transformation, converters that pass bytes on, no transaction.
    """

    properties: Mapping[str, str] | None = None
    """Java's properties of the producer that the worker would use, secrets and all; None: it may not."""
    obstacles: Sequence[str] = ()
    """The settings because of which it may not."""


class SourceTaskContext(Protocol):
    """What a source task may ask of its worker."""

    offset_reader: OffsetReader
    metrics: PluginMetrics = NoPluginMetrics()
    transaction_context: TransactionContext | None = None
    """None unless the worker does exactly-once and ``transaction.boundary`` is ``connector``."""
    own_writes: OwnWrites = OwnWrites()
    previewed: bool = False
    """Whether the task runs for a preview: then it changes nothing outside itself (no file moved, removed or marked,
    no request that is not safe), as the connector's real task may be running."""

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """Give up one unreadable piece of input at ``place`` (file, line, offset ...).

        ``data`` is the piece itself, for the connector's dead letter queue; without it none is sent.
        errors.tolerance=none: raises DataError naming the place, the task fails. all: counts and logs it.
        """


class ErrantRecordReporter(Protocol):
    """Where a sink task reports single records that it cannot deliver (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Give up one record: it is counted, logged and dead-lettered as the connector is configured. Any thread.

        The dead letter holds what was consumed; for a record that the task made itself, what the converters make of
        it. No one has to wait for the future: no offset is committed before every report is acknowledged.
        Raises ConnectError when ``errors.tolerance`` is none.
        """


class SinkTaskContext(Protocol):
    """What a sink task may ask of its worker."""

    metrics: PluginMetrics = NoPluginMetrics()
    previewed: bool = False
    """Whether the task runs for a preview: then it changes nothing outside itself (no file moved, removed or marked,
    no request that is not safe), as the connector's real task may be running."""

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions this task holds now."""

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the reporter; None without a dead letter queue and without ``errors.log.enable``, as in Java."""

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration."""

    def positions(self) -> Mapping[TopicPartition, int]:
        """Return where the consumer group stood when partitions of this task were assigned.

        A partition without a committed offset is left out. The offset of one that the group's owner reset is the new
        one. For tasks that store offsets with their data: they compare, and use ``offset`` if the two differ.
        """

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of topics (KIP-516). A topic has another id after it was deleted and created again.

        Asks a broker with each call. Topics whose ids are not known are left out. Raises ConnectError.
        """

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, once the present call has returned; others are passed over."""

    def timeout(self, timeout_ms: int) -> None:
        """Be called again after ``timeout_ms``: with the same records if ``put`` raises RetriableError now, else by an
        empty ``put``. Counts once."""

    def request_commit(self) -> None:
        """Have offsets committed once the present call has returned."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Get nothing of these partitions until ``resume``. Raises ConnectError: one is not this task's."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions where they were paused. Raises ConnectError: one is not this task's."""


class Task(ABC):
    """What source and sink tasks have in common (Java ``Task``)."""

    def version(self) -> str:
        """Return the version reported in the task's status."""
        return __version__

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Open what the task needs. ``self.context`` is set. An error fails the task."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything; called once, from the task's own thread, after the last poll or put."""


class SourceTask(Task):
    """Reads records of a source system; the worker writes them to Kafka (Java ``SourceTask``)."""

    context: SourceTaskContext

    @abstractmethod
    def poll(self) -> Sequence[Polled] | None:
        """Return what is there, None or empty if nothing; must return within about 100 ms when idle.

        Raises RetriableError: tried again; any other error fails the task.
        """

    def idle_wait_ms(self) -> int:
        """Return how long to wait before the next poll after an empty one, ms; the engine waits, not the task.

        Default 100. Lower is prompter and costs CPU; the wait ends early on stop and pause.
        """
        return 100

    def idle_look(self) -> IdleLook | None:
        """Return what sees something new at less cost than a poll; None (the default): only a poll does.

        Asked after an empty poll. One thread of the process then looks for all its idle tasks, twice a second or ten
        times where ``idle_wait_ms`` is below 200, and this task is polled when its look says yes, or raises. It has to
        see what has come since that poll; it is not asked about anything else, and must not wait.
        """
        return None

    def is_writing(self) -> bool:
        """Tell whether records that the task writes itself are under way, or written and not returned yet.

        Default False. Asked before a pause and a stop, which wait for them as long as they may.
        """
        return False

    def finish_writing(self) -> Sequence[Written]:
        """Read nothing more, wait about 100 ms for what is under way, and return what is acknowledged."""
        return ()

    def has_more(self) -> bool:
        """Tell whether there is more, though a poll brought nothing: asked by a read that ends when nothing is left.

        Default False. For tasks whose records may be on their way to them while ``poll`` returns.
        """
        return False

    def commit_offsets(self, delivered: Sequence[Delivered]) -> None:
        """These records are acknowledged and lie at these offsets: for each partition in the order they were returned.

        Called before ``commit``. Overriding it has the broker's answer looked at for every record, a third of the
        producer's speed.
        """

    def commit(self) -> None:
        """Everything returned by earlier polls whose offsets were committed is durable (after each batch).

        What it raises is logged and fails nothing, as of ``commit_record``.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """``record``, as ``poll`` returned it, is acknowledged and lies there (row form only).

        None: it is nowhere to be read, for a transformation dropped it, it was errant, or its transaction was aborted.
        Overriding it costs about what converting the record does.
        """


class SinkTask(Task):
    """Writes Kafka records to a target system (Java ``SinkTask``)."""

    context: SinkTaskContext

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are newly assigned."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take the records, in order per partition.

        Raises RetriableError: the same records come again. DataError: a record is to blame; with
        ``errors.tolerance=all`` the same records come again in halves until those to blame are found (see
        ``may_put_halves``). Any other error fails the task, as in Java, and no record is dead-lettered:
        ExternalError is the one for a target that stayed away until the retries were used up.
        """

    def put_batch(self, batch: SinkBatch) -> bool:
        """Take the records of one partition as columns; False (the default): they come to ``put`` instead.

        A task that returns False is asked less and less often, at last for one batch in 65.
        Overriding it is all a task has to do to be asked; ``put`` stays, for what has no column form (headers, a
        converter or transformation that needs rows) and for finding the records to blame when ``put_batch`` raised.
        True means what the return of ``put`` means. Raises as ``put``.
        """
        return False

    def wants_partitions_apart(self) -> bool:
        """Tell whether columns of several partitions that were read together are worth a ``put_batch`` each.

        True by default. False where a call costs much, such as a transaction: they come to ``put``, all at once.
        """
        return True

    def largest_put(self) -> int | None:
        """Return how many records of a partition may come at once when the task is slower than Kafka.

        None (the default): as many as one read brings, 5,000. More where each call costs much, such as a transaction:
        what waits comes together, at most 8 MiB. The user's ``max.poll.records`` goes before it.
        """
        return None

    def takes_absent_values(self) -> bool:
        """Tell whether ``put_batch`` takes records without a value among others: nulls, whatever ``value_schema`` says.

        False by default: batches with such records come to ``put``.
        """
        return False

    def preview_put(self, records: Sequence[SinkRecord]) -> None:
        """Take the records as ``put`` would, and take all of it back: nothing of it may be seen by others, or stay.

        For previews (``POST /admin/preview`` with ``put``), on a task that is started and opened as always and gets
        nothing else. What does not fit must show as it would in ``put``. Raises as ``put``; NotImplementedError (the
        default): this sink cannot take back what it wrote.
        """
        raise NotImplementedError

    def reads_headers(self) -> bool:
        """Tell whether headers matter to the task. True by default: batches with some come to ``put``.

        False: they come to ``put_batch`` as others do, without their headers.
        """
        return True

    def takes_headers(self) -> bool:
        """Tell whether ``put_batch`` takes headers as bytes (``batch.headers``), as ByteArrayConverter gives them.

        False by default. With another header converter, or headers that a transformation adds, records come to ``put``.
        """
        return False

    def may_put_halves(self) -> bool:
        """Tell whether records of a ``put`` that raised DataError may be put again in smaller batches.

        Return False when an error leaves the task unable to go on, or with records it would then write twice and must
        not; the error then fails the task, as in Java.
        """
        return True

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything put so far durable; raises as ``pre_commit``, whose ``offsets`` these are."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed; by default flushes and returns all.

        ``offsets`` is next offset per partition: of all, or of those that go (``close`` follows). Whatever is raised
        fails nothing: everything since the last commit is put again, of partitions that go by their next owner.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions go away; called after their pre_commit."""
