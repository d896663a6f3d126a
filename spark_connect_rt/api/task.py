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
"""Returns, from any thread and within microseconds, whether a poll may find something now."""


class OffsetReader(Protocol):
    """Reads this connector's offsets from the offset topic (Java ``OffsetStorageReader``)."""

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition, in order; None where there is none."""


class TransactionContext(Protocol):
    """Lets a source task define where its transactions end (KIP-618).

    Only calls from within ``poll`` count for its poll.

    Pass the very object that ``poll`` returns as the record. Readers of committed data never see aborted records, but
    the worker commits their offsets, so the task does not read them again.
    """

    def commit_transaction(self, record: SourceRecord | SourceBatch | None = None) -> None:
        """Commit after this record. None: after the batch that this poll returns."""

    def abort_transaction(self, record: SourceRecord | SourceBatch | None = None) -> None:
        """Abort everything since the last end up to this record. None: up to the end of this poll's batch."""


PLUGINS = "plugins"  # the group of a metric that names none


class PluginMetrics(Protocol):
    """Metrics that a task or a connector keeps itself (KIP-877). ``/admin/metrics`` shows them, its tags before these.

    ``group`` and ``name`` are as in JMX ``kafka.connect:type=<group>``. Of a task only its own thread; of a connector
    any thread, its averages are since its start, and it has no rates.
    """

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """Add to ``<name>-count``; ``<name>-rate`` is the number added per second, over the window."""

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Record values of ``<name>``: the last one, and ``-avg``, ``-min`` and ``-max`` over the window."""

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Set the current value of ``<name>``. It is shown until the next call, or until the task is hosted again."""


class NoPluginMetrics:
    """PluginMetrics that discard every value."""

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """Discard the number and do nothing else."""

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Discard the values and do nothing else."""

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Discard the value and do nothing else."""


@dataclass(frozen=True, slots=True)
class OwnWrites:
    """Whether a task may write records to its topics without its worker's producer, and return ``Written``.

    Allowed only if nothing inspects or changes the records in between: no transformation, converters that pass bytes
    through, no transaction.
    """

    properties: Mapping[str, str] | None = None
    """Java's properties of the producer that the worker would use, including secrets. None: the task may not write."""
    obstacles: Sequence[str] = ()
    """The settings that forbid it, empty if none does."""


class SourceTaskContext(Protocol):
    """The worker, as a source task sees it (Java ``SourceTaskContext``)."""

    offset_reader: OffsetReader
    metrics: PluginMetrics = NoPluginMetrics()
    transaction_context: TransactionContext | None = None
    """None unless the worker does exactly-once and ``transaction.boundary`` is ``connector``."""
    own_writes: OwnWrites = OwnWrites()
    previewed: bool = False
    """Whether the task runs for a preview. The connector's real task may run at the same time.

    A previewed task must not change anything outside itself: it moves, removes or marks no file and sends only safe
    requests.
    """

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """Skip one unreadable piece of input at ``place`` (file, line, offset ...).

        ``data`` is the piece itself for the connector's dead letter queue. Without it, no dead letter is sent.
        With ``errors.tolerance=all`` the piece is counted and logged. With ``none`` it raises DataError that names the
        place, which fails the task.
        """

    def record_event(self, summary: str, **details: str | int) -> None:
        """Show one sentence in the events of the group (``/admin/events``, kind ``report``), for what is rare.

        The task and its connector are added. A hosting shows at most 20 events a second. Only the task's own thread.
        """
        return


class ErrantRecordReporter(Protocol):
    """Where a sink task reports single records that it cannot deliver (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Skip one record: count, log and dead-letter it as the connector is configured. Any thread.

        The dead letter holds the consumed record. If the task made the record itself, the dead letter holds the output
        of the converters. You need not wait for the future: no offset is committed before every report is acknowledged.
        Raises ConnectError when ``errors.tolerance=none``.
        """


class SinkTaskContext(Protocol):
    """The worker, as a sink task sees it (Java ``SinkTaskContext``)."""

    metrics: PluginMetrics = NoPluginMetrics()
    previewed: bool = False
    """Whether the task runs for a preview. The connector's real task may run at the same time.

    A previewed task must not change anything outside itself: it moves, removes or marks no file and sends only safe
    requests.
    """

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions this task holds now."""

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the reporter; None without a dead letter queue and without ``errors.log.enable``, as in Java."""

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration, with references to config providers resolved."""

    def positions(self) -> Mapping[TopicPartition, int]:
        """Return where the consumer group stood when partitions of this task were assigned.

        A partition without a committed offset is left out. The offset of one that the group's owner reset is the new
        one. For tasks that store offsets with their data: they compare, and use ``offset`` if the two differ.
        """

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of topics (KIP-516). A topic has another id after it was deleted and created again.

        Asks a broker with each call. Topics whose ids are not known are left out. Raises ConnectError.
        """

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return how many partitions topics have now. A topic that does not exist is left out.

        Asks a broker with each call. Raises ConnectError.
        """

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the log of each partition ends, as a reader of committed records sees it.

        Asks a broker with each call. Raises ConnectError.
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
        """Resume reading these paused partitions. Raises ConnectError: a partition is not assigned to this task."""


class Task(ABC):
    """The common part of source and sink tasks (Java ``Task``)."""

    def version(self) -> str:
        """Return the version reported in the task's status."""
        return __version__

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Open the task's resources. ``self.context`` is set. An error fails the task."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything; called once, from the task's own thread, after the last poll or put."""


class SourceTask(Task):
    """Reads records of a source system; the worker writes them to Kafka (Java ``SourceTask``)."""

    context: SourceTaskContext

    @abstractmethod
    def poll(self) -> Sequence[Polled] | None:
        """Return the available records, None or empty if there are none. Must return within about 100 ms when idle.

        Raises RetriableError to be polled again. Any other error fails the task.
        """

    def idle_wait_ms(self) -> int:
        """Return how long to wait before the next poll after an empty one, ms; the engine waits, not the task.

        Default 100. Lower is prompter and costs CPU; the wait ends early on stop and pause.
        """
        return 100

    def idle_look(self) -> IdleLook | None:
        """Return a check that detects new input at less cost than a poll. None (the default): only a poll does.

        Called after an empty poll. One thread of the process then runs the checks of all its idle tasks twice a second,
        or ten times if ``idle_wait_ms`` is below 200. The engine polls this task when its check returns True or raises.
        The check has to detect all input since that poll and must not block.
        """
        return None

    def is_writing(self) -> bool:
        """Return whether records that the task writes itself are in flight, or acknowledged and not yet returned.

        Default False. Called before a pause and a stop, which wait for such records as long as their timeouts allow.
        """
        return False

    def finish_writing(self) -> Sequence[Written]:
        """Read nothing more, wait about 100 ms for records in flight, and return those that are acknowledged."""
        return ()

    def has_more(self) -> bool | None:
        """Return whether more records come although a poll returned none.

        True: some are on their way, so a read that ends when nothing is left continues. False: nothing comes by itself,
        because the source has a bounded set of records or a run is over. Such a read ends, and a preview ends at once.
        None, the default: the task does not know. A read ends, and a preview waits some seconds for further records.
        Called after an empty poll, on the task's thread.
        """
        return None

    def commit_offsets(self, delivered: Sequence[Delivered]) -> None:
        """Called when these records are acknowledged, with their offsets.

        Per partition they are in the order in which they were returned. Called before ``commit``. Overriding it makes
        the producer inspect the broker's answer for every record, which costs a third of its speed.
        """

    def commit(self) -> None:
        """Called after each batch: everything that earlier polls returned and whose offsets were committed is durable.

        An error is logged and does not fail the task. The same holds for ``commit_record``.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called when ``record``, as ``poll`` returned it, is acknowledged (row form only).

        ``metadata`` is where it was written.

        ``metadata`` None: consumers cannot read it, because a transformation dropped it, it was errant, or its
        transaction was aborted. Overriding this method costs about as much as converting the record.
        """


class SinkTask(Task):
    """Writes Kafka records to a target system (Java ``SinkTask``)."""

    context: SinkTaskContext

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions are newly assigned."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the records, which are in order per partition.

        Raises RetriableError: the worker puts the same records again.
        Raises DataError: a record is bad. With ``errors.tolerance=all`` the worker puts the same records again in
        halves until it has found the bad ones (see ``may_put_halves``).
        Any other error fails the task, as in Java, and no record is dead-lettered. Raise ExternalError if the target is
        still unavailable after all retries.
        """

    def put_batch(self, batch: SinkBatch) -> bool:
        """Write the records of one partition as columns. Return False (the default) to get them in ``put`` instead.

        A task that returns False gets columns less and less often, down to one batch in 65.
        The engine calls this method if the class overrides it. ``put`` remains necessary: for records without a column
        form (headers, a converter or transformation that needs rows), and to find the bad records when ``put_batch``
        raised. True means the same as a return of ``put``. Raises as ``put``.
        """
        return False

    def wants_partitions_apart(self) -> bool:
        """Return whether each of several partitions that were read together is worth its own ``put_batch``.

        True by default. False where a call is expensive, such as a transaction: ``put`` then gets all records at once.
        """
        return True

    def largest_put(self) -> int | None:
        """Return how many records of a partition a call may get at most while the task is slower than Kafka.

        None (the default): as many as one read returns, 5,000. Return more where each call is expensive, such as a
        transaction. Waiting records are then put together, up to 8 MiB. While they come fast, a call waits for
        more, up to 50 ms. The user's ``max.poll.records`` takes precedence.
        """
        return None

    def takes_absent_values(self) -> bool:
        """Return whether ``put_batch`` accepts null values among others, even if ``value_schema`` is not optional.

        False by default: batches with such records go to ``put``.
        """
        return False

    def takes_nested_structs(self) -> bool:
        """Return whether ``put_batch`` accepts structs whose members are structs, as in Debezium's envelopes.

        Such a member is null where the record has null. False by default: these records go to ``put``.
        """
        return False

    def preview_put(self, records: Sequence[SinkRecord]) -> None:
        """Write the records as ``put`` would, then roll all of it back.

        No other reader may see it, and nothing may remain.

        For previews (``POST /admin/preview`` with ``put``). The task is started and opened as usual and gets nothing
        else. A record that ``put`` would reject must fail here in the same way. Raises as ``put``. Raises
        NotImplementedError (the default): this sink cannot roll back its writes.
        """
        raise NotImplementedError

    def reads_headers(self) -> bool:
        """Return whether the task reads headers. True by default: batches with headers go to ``put``.

        False: they go to ``put_batch`` without their headers.
        """
        return True

    def takes_headers(self) -> bool:
        """Return whether ``put_batch`` accepts headers as bytes (``batch.headers``), as ByteArrayConverter does.

        False by default. With another header converter, or headers that a transformation adds, records go to ``put``.
        """
        return False

    def may_put_halves(self) -> bool:
        """Return whether records of a ``put`` that raised DataError may be put again in smaller batches.

        Return False if the task cannot continue after an error, or would write some records twice and must not. The
        error then fails the task, as in Java.
        """
        return True

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make all records put so far durable. ``offsets`` are those of ``pre_commit``; raises like it."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed; by default flushes and returns all.

        ``offsets`` has the next offset of each partition: of all, or of those that are revoked (``close`` follows). An
        error does not fail the task: everything since the last commit is put again, by the next owner if the partition
        is revoked.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions are revoked, after their pre_commit."""
