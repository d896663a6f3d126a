"""What a sink task asks of its worker, and which rows it must not get meanwhile (Java ``WorkerSinkTaskContext``).

Owns the wishes between two calls of the task, and the partitions it paused or moved. The reader runs ahead: rows that
were read before it received a pause or a new offset are still on their way. So rows of a paused partition are
dropped here and read again from the first of them; after a rewind, rows are dropped until the reader says (an ASSIGNED
row) that what follows is from the new offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spark_connect_rt.api.task import ErrantRecordReporter, PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.errant_reports import SinkErrantReporter
from spark_connect_rt.errors import ConnectError


class WorkerSinkTaskContext:
    """The task's SinkTaskContext. The lane's thread, as the task's; a task may wish from no other."""

    previewed = False

    def __init__(self, metrics: PluginMetrics) -> None:
        self.metrics = metrics
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.reporter: SinkErrantReporter | None = None
        self._config: Mapping[str, str] = {}
        self._paused: dict[TopicPartition, int | None] = {}  # -> where to read on; None: where the reader stands
        self._moving: Counter[TopicPartition] = Counter()  # -> ASSIGNED rows to wait for
        self._rewinds: dict[TopicPartition, int] = {}
        self._hold: set[TopicPartition] = set()
        self._seek: dict[TopicPartition, int | None] = {}
        self._timeout_ms: int | None = None
        self._commit_asked = False

    # -- the task's

    def configs(self) -> Mapping[str, str]:
        """See SinkTaskContext."""
        return self._config

    def assignment(self) -> frozenset[TopicPartition]:
        """See SinkTaskContext."""
        return self.partitions

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """See SinkTaskContext."""
        return self.reporter

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See SinkTaskContext."""
        self._rewinds.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        """See SinkTaskContext."""
        self._timeout_ms = timeout_ms

    def request_commit(self) -> None:
        """See SinkTaskContext."""
        self._commit_asked = True

    def pause(self, *partitions: TopicPartition) -> None:
        """See SinkTaskContext."""
        self._require(partitions, "pause")
        for partition in partitions:
            if partition not in self._paused:
                self._paused[partition] = self._seek.pop(partition, None)
                self._hold.add(partition)

    def resume(self, *partitions: TopicPartition) -> None:
        """See SinkTaskContext."""
        self._require(partitions, "resume")
        for partition in partitions:
            if partition in self._paused:
                self._hold.discard(partition)
                self._seek[partition] = self._paused.pop(partition)

    def pause_only(self, partitions: frozenset[TopicPartition]) -> None:
        """Pause these and resume all others, of those that are the task's."""
        self.pause(*(partitions & self.partitions))
        self.resume(*(self._paused.keys() & self.partitions - partitions))

    # -- the lane's

    def set_config(self, config: Mapping[str, str]) -> None:
        """The task's configuration, references resolved."""
        self._config = config

    def take_timeout_s(self) -> float | None:
        """Return for how long to wait before the task is called again, once; None: it did not say."""
        timeout_ms, self._timeout_ms = self._timeout_ms, None
        return None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000

    def take_commit_request(self) -> bool:
        """Return whether a commit was asked for, once."""
        asked, self._commit_asked = self._commit_asked, False
        return asked

    def take_rewinds(self) -> dict[TopicPartition, int]:
        """Return the new offsets of partitions that are the task's, once."""
        rewinds, self._rewinds = self._rewinds, {}
        rewinds = {partition: offset for partition, offset in rewinds.items() if partition in self.partitions}
        for partition, offset in rewinds.items():
            (self._paused if partition in self._paused else self._seek)[partition] = offset
        return rewinds

    def take_reader_changes(self) -> tuple[set[TopicPartition], dict[TopicPartition, int | None]]:
        """Return what the reader is to hold, and where it is to read on (None: where it held), once.

        Rows of partitions that are read from elsewhere are dropped from now on, until ``note_repositioned``.
        """
        hold, self._hold = self._hold, set()
        seek, self._seek = self._seek, {}
        self._moving.update(partition for partition, offset in seek.items() if offset is not None)
        return hold, seek

    def unwanted(self) -> frozenset[TopicPartition]:
        """Return the partitions whose rows are dropped now."""
        return frozenset(self._paused.keys() | self._moving.keys())

    def note_dropped(self, partition: TopicPartition, first_offset: int) -> None:
        """Rows of an unwanted partition are gone, from ``first_offset`` on."""
        if partition in self._paused and partition not in self._moving and self._paused[partition] is None:
            self._paused[partition] = first_offset

    def note_repositioned(self, partitions: frozenset[TopicPartition]) -> None:
        """An ASSIGNED row: what follows is from where it was to be read."""
        for partition in partitions & self._moving.keys():
            self._moving[partition] -= 1
            if not self._moving[partition]:
                del self._moving[partition]

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are the task's no more."""
        self.partitions -= partitions
        for partition in partitions:
            self._paused.pop(partition, None)
            self._moving.pop(partition, None)
            self._seek.pop(partition, None)
            self._hold.discard(partition)

    def _require(self, partitions: tuple[TopicPartition, ...], what: str) -> None:
        if not self.partitions >= set(partitions):
            raise ConnectError(f"SinkTasks may not {what} partitions that are not currently assigned to them.")
