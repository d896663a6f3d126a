"""The requests that a sink task makes of its worker (Java ``WorkerSinkTaskContext``).

Owns the requests between two calls of the task, and the partitions that it has paused or moved. The runner, previews
and writes with ``format("connectrt")`` use it.

The reader runs ahead: when it receives a pause or a new offset, rows that it read before are still on their way. So the
runner drops the rows of a paused partition, and the reader later reads again from the first of them. After a rewind it
drops rows until an ASSIGNED row announces the new offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from spark_connect_rt.api.task import ErrantRecordReporter, PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.errant_reports import SinkErrantReporter
from spark_connect_rt.errors import ConnectError


class WorkerSinkTaskContext:
    """The ``SinkTaskContext`` of a task, which collects its requests until the runner takes them.

    Only the task's thread uses it. A task must not call it from another thread.
    """

    previewed = False

    def __init__(self, metrics: PluginMetrics) -> None:
        self.metrics = metrics
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.reporter: SinkErrantReporter | None = None
        self.ask_topic_ids: Callable[[Collection[str]], Mapping[str, str]] = lambda topics: {}
        self.ask_end_offsets: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]] = lambda places: {}
        self.ask_partition_counts: Callable[[Collection[str]], Mapping[str, int]] = lambda topics: {}
        self._positions: dict[TopicPartition, int] = {}
        self._config: Mapping[str, str] = {}
        self._paused: dict[TopicPartition, int | None] = {}  # -> where to read on; None: where the reader is
        self._moving: Counter[TopicPartition] = Counter()  # -> ASSIGNED rows to wait for
        self._rewinds: dict[TopicPartition, int] = {}
        self._hold: set[TopicPartition] = set()
        self._seek: dict[TopicPartition, int | None] = {}
        self._timeout_ms: int | None = None
        self._commit_asked = False

    # -- called by the task

    def configs(self) -> Mapping[str, str]:
        """Return the configuration of the task, with resolved references."""
        return self._config

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions of the task."""
        return self.partitions

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the reporter of errant records, None if the connector does not report any."""
        return self.reporter

    def positions(self) -> Mapping[TopicPartition, int]:
        """Return where the group stood when partitions of the task were assigned."""
        return dict(self._positions)

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of topics, as far as a broker knows them."""
        return self.ask_topic_ids(topics)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the logs of partitions end. Empty if no broker can be asked."""
        return self.ask_end_offsets(partitions)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return how many partitions topics have now."""
        return self.ask_partition_counts(topics)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Ask for these partitions to be read from these offsets."""
        self._rewinds.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        """Ask to be called again after this time, once."""
        self._timeout_ms = timeout_ms

    def request_commit(self) -> None:
        """Ask for a commit after the current call."""
        self._commit_asked = True

    def pause(self, *partitions: TopicPartition) -> None:
        """Ask for no more records of these partitions. Raises ConnectError for one that is not assigned."""
        self._require(partitions, "pause")
        for partition in partitions:
            if partition not in self._paused:
                self._paused[partition] = self._seek.pop(partition, None)
                self._hold.add(partition)

    def resume(self, *partitions: TopicPartition) -> None:
        """Ask for records of these partitions again. Raises ConnectError for one that is not assigned."""
        self._require(partitions, "resume")
        for partition in partitions:
            if partition in self._paused:
                self._hold.discard(partition)
                self._seek[partition] = self._paused.pop(partition)

    def pause_only(self, partitions: frozenset[TopicPartition]) -> None:
        """Pause exactly these partitions of the task, and resume all others."""
        self.pause(*(partitions & self.partitions))
        self.resume(*(self._paused.keys() & self.partitions - partitions))

    # -- called by the runner

    def set_config(self, config: Mapping[str, str]) -> None:
        """Set the configuration of the task, with resolved references."""
        self._config = config

    def take_timeout_s(self) -> float | None:
        """Return after how many s the task asked to be called again, once. None if it did not ask."""
        timeout_ms, self._timeout_ms = self._timeout_ms, None
        return None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000

    def take_commit_request(self) -> bool:
        """Return whether the task asked for a commit, once."""
        asked, self._commit_asked = self._commit_asked, False
        return asked

    def take_rewinds(self) -> dict[TopicPartition, int]:
        """Return the offsets that the task asked for, once, without partitions that have left it."""
        rewinds, self._rewinds = self._rewinds, {}
        rewinds = {partition: offset for partition, offset in rewinds.items() if partition in self.partitions}
        for partition, offset in rewinds.items():
            (self._paused if partition in self._paused else self._seek)[partition] = offset
        return rewinds

    def take_reader_changes(self) -> tuple[set[TopicPartition], dict[TopicPartition, int | None]]:
        """Return the partitions that the reader is to hold, and those that it is to read on, once.

        The offset of a partition is None if it is read on from where it was held. Rows of partitions with another
        offset are unwanted from now on, until ``note_repositioned``.
        """
        hold, self._hold = self._hold, set()
        seek, self._seek = self._seek, {}
        self._moving.update(partition for partition, offset in seek.items() if offset is not None)
        return hold, seek

    def unwanted(self) -> frozenset[TopicPartition]:
        """Return the partitions whose rows have to be dropped now."""
        return frozenset(self._paused.keys() | self._moving.keys())

    def moving(self) -> frozenset[TopicPartition]:
        """Return the partitions whose next rows do not come from the offset that the task asked for."""
        return frozenset(self._moving)

    def note_dropped(self, partition: TopicPartition, first_offset: int) -> None:
        """Note that rows of an unwanted partition were dropped. ``first_offset`` is the first of them."""
        if partition in self._paused and partition not in self._moving and self._paused[partition] is None:
            self._paused[partition] = first_offset

    def note_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note where newly assigned partitions are read from."""
        self._positions.update(positions)

    def note_repositioned(self, partitions: frozenset[TopicPartition]) -> None:
        """Note an ASSIGNED row: the rows of these partitions that follow it are from the new offset."""
        for partition in partitions & self._moving.keys():
            self._moving[partition] -= 1
            if not self._moving[partition]:
                del self._moving[partition]

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """Forget partitions that left the task."""
        self.partitions -= partitions
        for partition in partitions:
            self._positions.pop(partition, None)
            self._paused.pop(partition, None)
            self._moving.pop(partition, None)
            self._seek.pop(partition, None)
            self._hold.discard(partition)

    def _require(self, partitions: tuple[TopicPartition, ...], what: str) -> None:
        if not self.partitions >= set(partitions):
            raise ConnectError(f"SinkTasks may not {what} partitions that are not currently assigned to them.")
