"""Connectors that are created where they are to begin (KIP-995): their offsets first, then they themselves.

Owns the order: checked, every old offset of the name replaced by the given ones and read back, and only then the
configuration is written, so that no task ever runs without them. What fails before the connector is there puts the old
offsets back. A record of the config topic says so before the first write and goes with the last: should this worker die
in between, the next leader puts the old offsets back (pending_changes.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from spark_connect_rt.api.plugin_modules import connector_plugin
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    exactly_once_producer_properties,
    sink_group_id,
)
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import AlreadyExistsError, BadRequestError, ConnectError, DataError, as_error
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.requests.offset_change import CHANGE_LIMIT_MS, OffsetChange
from spark_connect_rt.runtime.values import ConfigWritten
from spark_connect_rt.runtime.worker.launches import kind_of
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.config_records import PendingChange
from spark_connect_rt.topics.offset_changes import OffsetPair, as_pairs, check_source_offsets, one_per_partition
from spark_connect_rt.topics.offset_moves import offset_moves, pairs_of
from spark_connect_rt.topics.offset_records import canonical

FENCE_LIMIT_MS = 90_000

log = logging.getLogger(__name__)

Note = Callable[[Mapping[str, str], Sequence[OffsetPair]], PendingChange]
Write = Callable[[], Future[ConfigWritten]]
AddRequest = Callable[[str, Callable[[], Future[ConfigWritten]]], Future[ConfigWritten]]


class InitialOffsets:
    """Creations under way; ``create`` and ``refuse_under_way`` are called on the tick thread."""

    def __init__(self, deps: HerderDependencies, add: AddRequest, note: Note) -> None:
        """``note`` makes what is written before a creation from its configuration and the offsets to put back."""
        self._deps = deps
        self._add = add
        self._note = note
        self._under_way: set[str] = set()

    def refuse_under_way(self, name: str) -> None:
        """Raise AlreadyExistsError while a connector of that name is being created."""
        pending = self._deps.config_store.snapshot().pending.get(name)
        if name in self._under_way or (pending is not None and pending.config is not None):
            raise AlreadyExistsError(f"Connector {name} is being created by another request")

    def create(
        self, name: str, config: Mapping[str, str], offsets: Sequence[OffsetPair], write: Write
    ) -> Future[ConfigWritten]:
        """Write the offsets beside the tick, then queue ``write`` for it; it checks again what it must.

        Answers as ``write``, BadRequestError (they are no offsets), ConnectError (the connector or Kafka refused).
        """
        answer: Future[ConfigWritten] = Future()
        self._under_way.add(name)
        beginning = Beginning(self._deps, name, config, self._note)

        def end(error: BaseException | None, written: ConfigWritten | None = None) -> None:
            self._under_way.discard(name)
            beginning.close()
            if error is not None:
                answer.set_exception(error)
            else:
                assert written is not None
                answer.set_result(written)

        def write_offsets() -> None:
            try:
                words = beginning.write(offsets)
            except BaseException as error:  # noqa: BLE001 - the request's failure is its answer
                end(beginning.put_back(as_error(error)))
                return
            queued = self._add(f"create connector {name}", partial(self._written, name, write))
            queued.add_done_callback(partial(created, words))

        def created(words: str, done: Future[ConfigWritten]) -> None:
            if (error := done.exception()) is None:
                written = done.result()
                end(None, replace(written, info=replace(written.info, offsets_status=words)))
            else:
                self._deps.threads.start("herder-offsets", lambda: end(beginning.put_back(error)))

        try:
            self._deps.threads.start("herder-offsets", write_offsets)
        except RuntimeError as error:  # the machine has no thread left
            end(error)
        return answer

    def _written(self, name: str, write: Write) -> Future[ConfigWritten]:
        if self._deps.config_store.snapshot().contains(name):
            raise AlreadyExistsError(f"Connector {name} already exists")
        return write()


class Beginning:
    """The offsets of one connector that is not there yet. Blocks; off the tick."""

    def __init__(
        self, deps: HerderDependencies, name: str, config: Mapping[str, str], note: Note | None = None
    ) -> None:
        """``note`` None: nothing is begun with it, only ``restore``."""
        self._note = note
        self._deps = deps
        self._name = name
        self._config = StoredConfig(config)
        self._resolved: Mapping[str, str] = {}
        self._stores = SourceOffsetStores(
            deps.offset_store, deps.settings.worker, deps.open_offsets, self._config_of, deps.resolve, deps.threads
        )
        self._before: list[OffsetPair] | None = None  # None: nothing was written
        self._is_sink = False

    def write(self, offsets: Sequence[OffsetPair]) -> str:
        """Replace all offsets of the name by these; return KIP-875's words. Raises ConnectError."""
        pairs = one_per_partition(offsets)
        is_sink = self._opened()
        if not is_sink:
            try:
                check_source_offsets(pairs)
            except DataError as error:
                raise BadRequestError(str(error)) from error
        before = self._present(is_sink=is_sink)
        wanted = {canonical(partition) for partition, _ in pairs}
        gone: list[OffsetPair] = [(partition, None) for partition, _ in before if canonical(partition) not in wanted]
        if self._note is not None:
            self._deps.config_store.put_pending(self._name, self._note(self._config.written(), before))
        self._before = before
        return self._change().carry_out([*gone, *pairs])

    def restore(self, before: Sequence[OffsetPair]) -> None:
        """Set the offsets to what they were before a creation that was interrupted. Raises ConnectError."""
        self._set_to(before, is_sink=self._opened())

    def _opened(self) -> bool:
        """Find what the offsets are kept in; return whether it is a sink's group."""
        self._resolved = self._config.resolved(self._deps.resolve)
        self._is_sink = kind_of(self._deps.plugins.class_of(connector_plugin(self._resolved))) is not TaskKind.SOURCE
        if not self._is_sink:
            self._stores.open(self._name, self._config)
        return self._is_sink

    def _set_to(self, before: Sequence[OffsetPair], *, is_sink: bool) -> None:
        moves = offset_moves(self._present(is_sink=is_sink), before)
        if moves:  # else nothing was written
            self._change().carry_out(pairs_of(moves))

    def put_back(self, error: BaseException) -> BaseException:
        """Set the offsets back to what they were; return the error to answer with."""
        if self._before is None:
            return error
        try:
            self._deps.config_store.refresh(self._deps.settings.worker_sync_timeout_ms)
            if not self._deps.config_store.snapshot().contains(self._name):  # else it runs with what it has
                self._set_to(self._before, is_sink=self._is_sink)
            self._deps.config_store.forget_pending(self._name)
        except BaseException as second:  # the connector's code is asked for that, too
            log.exception("connector=%s its offsets cannot be restored", self._name)
            return ConnectError(
                f"Connector {self._name} was not created: {error}. Its offsets cannot be restored: {second}. They "
                "apply to a connector that is created with that name."
            )
        return error

    def close(self) -> None:
        """Close the connector's own offset topic, if it has one."""
        self._stores.stop()

    def _change(self) -> OffsetChange:
        return OffsetChange(self._deps, self._stores, self._name, self._fence, self._config)

    def _present(self, *, is_sink: bool) -> list[OffsetPair]:
        if is_sink:
            admin = connector_admin_properties(self._deps.settings.worker, self._resolved, self._name, 0)
            group = sink_group_id(self._resolved, self._name)
            return as_pairs(dict(self._deps.group_offsets.committed(self._deps.resolve(admin), group)))
        self._stores.read(self._name, [], CHANGE_LIMIT_MS)
        return list(self._stores.connector_offsets(self._name))

    def _fence(self, name: str) -> None:
        """Shut out what a connector of that name, deleted since, may have left."""
        tasks = self._deps.config_store.snapshot().task_count_record(name) or 0
        worker = self._deps.settings.worker
        producers = [
            self._deps.resolve(exactly_once_producer_properties(worker, self._resolved, name, number))
            for number in range(tasks)
        ]
        if producers and self._deps.transactions is not None:
            self._deps.transactions.fence(producers, FENCE_LIMIT_MS)

    def _config_of(self, name: str) -> StoredConfig | None:
        return self._config if name == self._name else self._deps.config_store.snapshot().connector_config(name)
