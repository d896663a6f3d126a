"""One change of a connector's offsets, carried out (Java ``Worker.modifyConnectorOffsets``). Blocks; off the tick.

The connector is asked first: it may refuse, and keeps its own offsets in step. When this returns the change is
durable and this worker has read it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    exactly_once_producer_properties,
    sink_group_id,
)
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.config.worker_settings import offsets_topic
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import ConnectError, NotFoundError, TimedOutError
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.worker.launches import kind_of, new_connector
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.offset_changes import (
    ALTER,
    RESET,
    OffsetPair,
    OffsetsChanged,
    answer_words,
    as_pairs,
    caught_up,
    changed_pairs,
    check_source_offsets,
    one_per_partition,
    sink_offsets,
)

CHANGE_LIMIT_MS = 90_000


class OffsetChange:
    """One change of one connector's offsets; carried out once."""

    def __init__(
        self,
        deps: HerderDependencies,
        offsets: SourceOffsetStores,
        name: str,
        fence: Callable[[str], object] = lambda _: None,
        config: StoredConfig | None = None,
    ) -> None:
        """Take what it changes; ``fence`` blocks until the producers of the connector's tasks are fenced.

        ``config``: of a connector that is not there yet; None: as it is configured.
        """
        self._config = config
        self._deps = deps
        self._offsets = offsets
        self._name = name
        self._fence = fence

    def carry_out(self, offsets: Sequence[OffsetPair] | None) -> str:
        """Alter these, None: reset all. Raises ConnectError in Java's words."""
        stored = self._config or self._deps.config_store.snapshot().connector_config(self._name) or NO_SETTINGS
        config = stored.resolved(self._deps.resolve)
        try:
            connector = new_connector(self._deps.plugins, config)
        except NotFoundError as error:
            raise ConnectError(str(error)) from error  # 404 would say that there is no such connector
        kind = "sink" if isinstance(connector, SinkConnector) else "source"
        pairs = None if offsets is None else one_per_partition(offsets)
        try:
            if isinstance(connector, SinkConnector):
                altered = self._change_sink(connector, config, pairs)
            else:
                altered = self._change_source(connector, config, pairs)
        except ConnectError:
            raise
        except BaseException as error:  # the connector's code
            raise ConnectError(f"Failed to modify offsets for {kind} connector {self._name}") from error
        return answer_words(pairs is None, altered)

    def _change_source(self, connector: Any, config: Mapping[str, str], pairs: Sequence[OffsetPair] | None) -> bool:
        store = self._offsets
        if self._deps.settings.worker.group.exactly_once:
            try:
                self._fence(self._name)
            except Exception as error:
                text = "Failed to perform zombie fencing for source connector prior to modifying offsets"
                raise ConnectError(f"{text}: {error}") from error
        store.read(self._name, [], CHANGE_LIMIT_MS)  # to the end: a reset must know every partition
        is_reset = pairs is None
        if pairs is None:
            pairs = [(partition, None) for partition, _ in store.connector_offsets(self._name)]
        check_source_offsets(pairs)
        before = store.connector_offsets(self._name)
        altered = self._asked(connector, config, pairs)
        if pairs:
            if self._deps.settings.worker.group.exactly_once:
                self._write_transaction(config, pairs)
            else:
                self._write_source(pairs)
            store.read(self._name, [], CHANGE_LIMIT_MS)
        self._note(is_reset, before, pairs)
        return altered

    def _write_transaction(self, config: Mapping[str, str], pairs: Sequence[OffsetPair]) -> None:
        """Write as task 0 would: in one transaction, under its transactional id (as Java)."""
        assert self._deps.transactions is not None
        worker = self._deps.settings.worker
        producer = self._deps.resolve(exactly_once_producer_properties(worker, config, self._name, 0))
        records = self._offsets.records(self._name, pairs)
        self._deps.transactions.write(producer, offsets_topic(worker, config), records, CHANGE_LIMIT_MS)
        self._offsets.put_copy(self._name, pairs)

    def _write_source(self, pairs: Sequence[OffsetPair]) -> None:
        """Append the offsets and wait until they are durable. A failed write is not retried behind the user's back."""
        done, given_up = self._deps.threads.event(), self._deps.threads.event()
        outcome: list[Exception | None] = []

        def on_done(error: Exception | None) -> None:
            outcome.append(error)
            if error is not None:
                given_up.set()
            done.set()

        self._offsets.put(self._name, pairs, on_done, lambda: not given_up.is_set())
        if not done.wait(CHANGE_LIMIT_MS / 1000):
            given_up.set()
            raise TimedOutError(f"Failed to modify offsets for source connector {self._name}: no answer from Kafka")
        if outcome[0] is not None:
            text = f"Failed to modify offsets for source connector {self._name}"
            raise ConnectError(f"{text}: {outcome[0]}") from outcome[0]

    def _change_sink(
        self, connector: SinkConnector, config: Mapping[str, str], pairs: Sequence[OffsetPair] | None
    ) -> bool:
        worker = self._deps.settings.worker
        admin = self._deps.resolve(connector_admin_properties(worker, config, self._name, 0))
        group, known = sink_group_id(config, self._name), self._deps.group_offsets
        wanted = {} if pairs is None else sink_offsets(pairs)
        before = known.committed(admin, group) if pairs is None or self._deps.offset_notes.is_wanted else {}
        if pairs is None:
            wanted = dict.fromkeys(before)
        altered = self._asked(connector, config, wanted)
        verb = "reset" if pairs is None else "alter"
        try:
            if kind_of(type(connector)) is TaskKind.SPARK_SINK:
                self._forget_table(config, admin, group)
            if pairs is None:
                known.delete(admin, group)
            else:
                self._alter_group(admin, group, wanted)
        except GroupInUseError as error:
            raise GroupInUseError(_still_running(verb, self._name)) from error
        except ConnectError as error:
            whose = "sink connector" if pairs is None else "connector"
            text = f"Failed to {verb} consumer group offsets for {whose} {self._name}"
            raise ConnectError(f"{text}: {error}", code=error.code) from error
        self._note(pairs is None, as_pairs(before), as_pairs(wanted))
        return altered

    def _note(self, is_reset: bool, before: Sequence[OffsetPair], change: Sequence[OffsetPair]) -> None:
        after = changed_pairs(before, None if is_reset else change)
        made = OffsetsChanged(self._name, RESET if is_reset else ALTER, before, after)
        self._deps.offset_notes.changed(made)
        text = f"offsets of {self._name} are {'reset' if is_reset else 'altered'}"
        details = {"action": made.action, "partitions": len(change)}
        self._deps.record_event("offsets", text, connector=self._name, details=details, key=made.key)

    def _alter_group(self, admin: Mapping[str, str], group: str, wanted: Mapping[TopicPartition, int | None]) -> None:
        altered = {partition: offset for partition, offset in wanted.items() if offset is not None}
        forgotten = [partition for partition, offset in wanted.items() if offset is None]
        if altered:
            self._deps.group_offsets.alter(admin, group, altered)
        if forgotten:
            self._deps.group_offsets.forget(admin, group, forgotten)

    def _forget_table(self, config: Mapping[str, str], admin: Mapping[str, str], group: str) -> None:
        """Make the group's offsets the only truth before they are changed (decision 0001).

        The table may hold a batch whose commit was lost. That commit is made up for first: a partition that the
        request does not name must not repeat the batch.
        """
        tables, known = self._deps.table_memory, self._deps.group_offsets
        if tables is None:
            return
        if known.is_in_use(admin, group):
            raise GroupInUseError(f"group {group} has members")
        lost = caught_up(tables.held(self._name, config), known.committed(admin, group))
        if lost:
            known.alter(admin, group, lost)
        tables.forget(self._name, config)

    def _asked(self, connector: SourceConnector | SinkConnector, config: Mapping[str, str], offsets: Any) -> bool:
        try:
            return bool(connector.alter_offsets(config, offsets))
        except NotImplementedError as error:
            raise ConnectError(
                f"Failed to modify offsets for connector {self._name} because it doesn't support external modification "
                "of offsets"
            ) from error


def _still_running(verb: str, name: str) -> str:
    changed = "reset" if verb == "reset" else "alter"
    return (
        f"Failed to {changed} consumer group offsets for connector {name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {changed} its offsets could be "
        "successfully completed. If the connector is in a stopped state, this operation can be safely retried. If it "
        "doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )
