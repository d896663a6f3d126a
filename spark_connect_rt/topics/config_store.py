"""The config topic as a store: snapshots to read, whole-record writes, events (Java ``KafkaConfigBackingStore``).

Owns: which records one change consists of, which writer may write them, and reading them back before a write returns.
It does not interpret records, as topics/config_state.py does. The topic is behind the ports CompactedLog and
FencedWriter.

With a FencedWriter, records that only the leader may write go in transactions, and a newer leader's claim fences them
(KIP-618). Records that any worker may write (target states alone, logger levels) never do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.compacted_log import CompactedLog, FencedWriter, LogRecord
from spark_connect_rt.topics.config_records import PendingChange, RecordKey, RecordKind, SessionKey, TargetState
from spark_connect_rt.topics.config_state import (
    CONFIG,
    EMPTY,
    LOGGER,
    STATE,
    ClusterConfigState,
    ConfigChange,
    ConfigEvent,
    ConfigFold,
)

OnConfigChange = Callable[[ConfigChange], None]
_KINDS = {RecordKind.CONNECTOR: CONFIG, RecordKind.TARGET_STATE: STATE, RecordKind.LOGGER: LOGGER}
OnConfigEvent = Callable[[ConfigEvent], None]
Change = tuple[bytes, bytes | None]

READ_WRITE_TOTAL_MS = 30_000  # one change: produce and read back (Java READ_WRITE_TOTAL_TIMEOUT_MS)

_log = logging.getLogger(__name__)


class ConfigStore:
    """Any thread may read; one writes at a time. Events are sent on the log's thread, only once started."""

    def __init__(self, log: CompactedLog, clock: Clock | None = None, writer: FencedWriter | None = None) -> None:
        self._log = log
        self._clock = clock
        self._writer = writer  # None: the leader writes as all others do
        self._fold = ConfigFold()
        self._snapshot = EMPTY
        self._on_event: OnConfigEvent | None = None
        self._on_change: OnConfigChange | None = None
        self._started = False

    def start(self, on_event: OnConfigEvent) -> None:
        """Read to the end of the topic, then report changes. Raises as ``CompactedLog.start``."""
        self._on_event = on_event
        self._log.start(self._on_records)
        self._started = True

    def watch(self, on_change: OnConfigChange) -> None:
        """Report every change that users made from ``start`` on, those that are read at the start included.

        Called from the log's thread for each record in its order, before a write that it is part of returns; must
        return at once. Call before ``start``.
        """
        self._on_change = on_change

    def stop(self) -> None:
        """Close the log; the last snapshot stays readable."""
        self._started = False
        self.release_write_privileges()
        self._log.stop()

    def may_lead(self) -> bool:
        """Return whether the leader's writes can be tried now: nothing to claim, or claimed. Any thread."""
        return self._writer is None or self._writer.is_claimed()

    def claim_write_privileges(self, timeout_ms: int) -> None:
        """Fence every earlier leader. Raises RetriableError, TimedOutError, ConnectError."""
        if self._writer is not None:
            self._writer.claim(timeout_ms)

    def release_write_privileges(self) -> None:
        """Forget the claim: another worker leads."""
        if self._writer is not None:
            self._writer.release()

    def snapshot(self) -> ClusterConfigState:
        """Return the state as far as it was read. Never waits."""
        return self._snapshot

    def refresh(self, timeout_ms: int) -> ClusterConfigState:
        """Read to the end of the topic, return the snapshot. Raises TimedOutError."""
        self._log.read_to_end(timeout_ms)
        return self._snapshot

    def put_connector_config(
        self, name: str, properties: Mapping[str, str], target_state: TargetState | None = None
    ) -> None:
        """Create or replace a connector; a target state is written first, so that it is never started by mistake."""
        self.put_connector_configs([(name, properties, target_state)])

    def put_connector_configs(self, configs: Sequence[tuple[str, Mapping[str, str], TargetState | None]]) -> None:
        """Create or replace connectors in one write, as ``put_connector_config``."""
        changes: list[Change] = []
        for name, properties, target_state in configs:
            if target_state is not None:
                value = records.encode_target_state(target_state.value)
                changes.append((records.target_state_key(name), value))
            changes.append((records.connector_key(name), records.encode_properties(properties)))
            changes += self._without_pending(name)
        self._lead(changes, self._deadline())

    def remove_connector_config(self, name: str) -> None:
        """Delete a connector. Its task records stay in the topic without effect (``topics.config_state``)."""
        tombstones: list[Change] = [(records.connector_key(name), None), (records.target_state_key(name), None)]
        self._lead([*tombstones, *self._without_pending(name)], self._deadline())

    def put_task_configs(self, task_sets: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        """Replace whole task sets: every task first, read back, then the commits that make them visible."""
        deadline = self._deadline()
        self._log.read_to_end(deadline.remaining_ms())
        tasks = [
            (records.task_key(ConnectorTaskId(name, number)), records.encode_properties(config))
            for name, configs in task_sets.items()
            for number, config in enumerate(configs)
        ]
        if tasks:
            self._lead(tasks, deadline)
        self._lead(
            [(records.commit_key(name), records.encode_commit(len(configs))) for name, configs in task_sets.items()],
            deadline,
        )

    def put_stopped(self, name: str) -> None:
        """Remove a connector's tasks and set STOPPED; in Java's order, but at once.

        Java writes one after the other, and a failure in between leaves a STARTED connector without tasks.
        """
        changes = [
            (records.commit_key(name), records.encode_commit(0)),
            (records.target_state_key(name), records.encode_target_state(TargetState.STOPPED.value)),
        ]
        self._lead(changes, self._deadline())

    def put_target_state(self, name: str, state: TargetState) -> None:
        """Set the target state of a connector. Any worker may."""
        value = records.encode_target_state(state.value)
        self._write([(records.target_state_key(name), value), *self._without_pending(name)], self._deadline())

    def put_pending(self, name: str, change: PendingChange) -> None:
        """Write that a change of two writes begins. Any worker may; the write that ends it also removes this record."""
        self._write([(records.pending_key(name), records.encode_pending(change))], self._deadline())

    def forget_pending(self, name: str) -> None:
        """Write that the change is over, or had no effect."""
        self._write([(records.pending_key(name), None)], self._deadline())

    def _without_pending(self, name: str) -> list[Change]:
        """Return the tombstone of the connector's pending change.

        It is written with the record that ends the change.
        """
        return [(records.pending_key(name), None)] if name in self._snapshot.pending else []

    def put_session_key(self, key: SessionKey) -> None:
        """Distribute a session key. Leader only."""
        self._lead([(records.session_key_key(), records.encode_session_key(key))], self._deadline())

    def put_restart_request(self, name: str, include_tasks: bool, only_failed: bool) -> None:
        """Make every worker restart its part of a connector. Leader only."""
        value = records.encode_restart_request(include_tasks, only_failed)
        self._lead([(records.restart_key(name), value)], self._deadline())

    def put_task_count_record(self, name: str, task_count: int) -> None:
        """Remember how many producers the next fencing must fence. Leader only."""
        value = records.encode_task_count(task_count)
        self._lead([(records.task_count_key(name), value)], self._deadline())

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Set a logger's level on every worker. Any worker may."""
        self._write([(records.logger_key(namespace), records.encode_logger_level(level))], self._deadline())

    def _lead(self, changes: Sequence[Change], deadline: _Deadline) -> None:
        """Write records that only the leader may write. Raises as ``_write``; FencedError: nothing was written."""
        if self._writer is None:
            self._write(changes, deadline)
            return
        self._writer.write(changes, deadline.remaining_ms())
        self._log.read_to_end(deadline.remaining_ms())

    def _write(self, changes: Sequence[Change], deadline: _Deadline) -> None:
        """Append and read back. Raises RetriableError, TimedOutError or FencedError: the change may be there."""
        failures: list[Exception] = []
        self._log.append(changes, lambda error: failures.append(error) if error else None)
        try:
            self._log.read_back(deadline.remaining_ms())
        except ConnectError as error:
            raise failures[0] if failures and isinstance(failures[0], ConnectError) else error from error
        if failures:
            raise _as_connect_error(failures[0], changes) from failures[0]

    def _deadline(self) -> _Deadline:
        return _Deadline(self._clock, READ_WRITE_TOTAL_MS)

    def _on_records(self, batch: Sequence[LogRecord]) -> None:
        events: list[ConfigEvent] = []
        for record in batch:
            try:
                events += self._apply(record)
            except Exception as error:  # noqa: BLE001 - an unexpected error must not end the reader of every worker
                _log.error("config topic offset=%d ignored: %s", record.offset, error)
        self._snapshot = self._fold.snapshot()  # one assignment: readers see the old one or the new one
        if self._started and self._on_event is not None:
            for event in events:
                self._on_event(event)

    def _apply(self, record: LogRecord) -> Sequence[ConfigEvent]:
        key = None if self._on_change is None else _key_seen_by_users(record.key)
        if key is None or self._on_change is None:
            return self._fold.apply(record.offset, record.key, record.value)
        before, target = self._fold.seen_by_users(key), self._fold.target_state(key.name)
        events = self._fold.apply(record.offset, record.key, record.value)
        after, target = self._fold.seen_by_users(key), self._fold.target_state(key.name) or target
        # compaction may have removed the earlier value
        is_removal = key.kind is RecordKind.CONNECTOR and record.value is None
        if before != after or is_removal:
            beside = target.value if target and key.kind is RecordKind.CONNECTOR else None
            self._on_change(
                ConfigChange(
                    _KINDS[key.kind],
                    key.name,
                    before,
                    after,
                    record.offset,
                    record.timestamp_ms,
                    beside,
                    self._started,
                )
            )
        return events


class _Deadline:
    """The remaining part of a time limit. Without a clock every phase gets all of it."""

    def __init__(self, clock: Clock | None, limit_ms: int) -> None:
        self._clock = clock
        self._limit_ms = limit_ms
        self._end_ms = clock.monotonic_ms() + limit_ms if clock else 0

    def remaining_ms(self) -> int:
        """Return the ms left, at least 1."""
        if self._clock is None:
            return self._limit_ms
        return max(1, self._end_ms - self._clock.monotonic_ms())


def _as_connect_error(error: Exception, changes: Sequence[Change]) -> ConnectError:
    if isinstance(error, ConnectError):
        return error
    keys = ", ".join(key.decode("utf-8", errors="replace") for key, _ in changes)
    return RetriableError(f"Error writing {keys} to Kafka: {error}")


def _key_seen_by_users(key: bytes | None) -> RecordKey | None:
    """Return the key of a connector, a target state or a logger; None for any other."""
    try:
        found = records.decode_key(key)
    except DataError:
        return None
    return found if found is not None and found.kind in _KINDS else None
