"""Source offsets of connectors, also of those with their own offset topic (Java ``ConnectorOffsetBackingStore``).

Owns: which topic counts. A connector's own topic is written first and must succeed; the worker's follows, best effort,
so that the connector can be configured back. Reads: its own first, the worker's where it says nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import OWN_TOPIC, WorkerConfig, own_offsets_topic
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.topics.offset_records import OffsetMap, partition_key
from spark_connect_rt.topics.offset_store import READ_LIMIT_MS, IsWanted, OffsetStore, OnDone

log = logging.getLogger(__name__)

OpenStore = Callable[[str, Mapping[str, str]], OffsetStore]
"""(topic, connector configuration, references resolved) -> its store, not started."""
Pairs = Sequence[tuple[OffsetMap | None, OffsetMap | None]]
_Key = tuple[str, frozenset[tuple[str, str]]]
"""Topic and what its clients are made of: connectors share a store only with the same rights."""
_CLIENT_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
CLOSE_FLUSH_MS = 5_000


class _Place:
    """Where one store is, or is being opened. Its lock holds up no caller that wants another one."""

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.store: OffsetStore | None = None


class SourceOffsetStores:
    """Every connector's offsets. Any thread; ``open``, ``read`` and ``connector_offsets`` may block."""

    def __init__(
        self,
        common: OffsetStore,
        worker: WorkerConfig,
        open_store: OpenStore | None,
        config_of: Callable[[str], StoredConfig | None],
        resolve: Callable[[Mapping[str, str]], Mapping[str, str]],
        threads: Threads = MACHINE_THREADS,
    ) -> None:
        """Take the worker's store and settings; ``open_store`` None: no connector has its own topic (standalone)."""
        self._common = common
        self._worker = worker
        self._open_store = open_store
        self._config_of = config_of
        self._resolve = resolve
        self._threads = threads
        self._lock = threading.Lock()
        self._places: dict[_Key, _Place] = {}
        self._used: dict[str, _Key] = {}  # connector -> its store

    def wanted(self, config: StoredConfig) -> bool:
        """Return whether a connector of this configuration may have its own offset topic; ``open`` knows."""
        return self._open_store is not None and OWN_TOPIC in config

    def open(self, connector: str, stored: StoredConfig) -> OffsetStore | None:
        """Return the connector's own store, created and being read, None when it has none. Raises ConnectError."""
        config = stored.resolved(self._resolve)
        topic = None if self._open_store is None else own_offsets_topic(self._worker, config)
        if topic is None or self._open_store is None:
            self._note(connector, None)
            return None
        key = (topic, frozenset(it for it in config.items() if it[0].startswith(_CLIENT_PREFIXES)))
        while True:
            with self._lock:
                place = self._places.setdefault(key, _Place())
            with place.opening:
                if place.store is None:
                    store = self._open_store(topic, config)
                    store.start()
                    place.store = store
                    log.info("connector=%s stores its offsets in topic %s", connector, topic)
            if self._note(connector, key, place):
                return place.store

    def _note(self, connector: str, key: _Key | None, place: _Place | None = None) -> bool:
        """Note which store a connector uses from now on, and close those that no connector does, on another thread.

        False: this one was closed meanwhile, as no connector used it yet.
        """
        with self._lock:
            if key is not None and self._places.get(key) is not place:
                return False
            self._used = {name: used for name, used in self._used.items() if self._config_of(name) is not None}
            self._used.pop(connector, None)
            if key is not None:
                self._used[connector] = key
            idle = [
                unused for unused, place in self._places.items() if place.store and unused not in self._used.values()
            ]
            stores = [place.store for place in map(self._places.pop, idle) if place.store]
        for store in stores:
            self._threads.start("close-own-offsets", partial(_close, store))
        return True

    def read(
        self, connector: str, partitions: Sequence[OffsetMap], timeout_ms: int = READ_LIMIT_MS
    ) -> list[OffsetMap | None]:
        """Read to the end, then return each partition's offset. Raises as ``OffsetStore.read``."""
        own = self._store_of(connector)
        common = self._common.read(connector, partitions, timeout_ms)
        if own is None:
            return common
        first = own.read(connector, partitions, timeout_ms)
        return [mine if mine is not None else others for mine, others in zip(first, common, strict=True)]

    def connector_offsets(self, connector: str) -> list[tuple[OffsetMap | None, OffsetMap]]:
        """Return (partition, offset) of a connector as far as its topics were read."""
        own, common = self._store_of(connector), self._common.connector_offsets(connector)
        if own is None:
            return common
        merged = {partition_key(connector, partition): (partition, offset) for partition, offset in common}
        mine = own.connector_offsets(connector)
        merged |= {partition_key(connector, partition): (partition, offset) for partition, offset in mine}
        return list(merged.values())

    def put(
        self,
        connector: str,
        offsets: Pairs,
        on_done: OnDone | None = None,
        is_wanted: IsWanted = lambda: True,
        *,
        until_durable: bool = False,
    ) -> None:
        """Commit, as ``OffsetStore.put``; done when the topic that counts has them and the copy was tried."""
        own = self._open_already(connector)
        if own is None:
            self._common.put(connector, offsets, on_done, is_wanted, until_durable=until_durable)
            return

        def written(error: Exception | None) -> None:
            if error is None:
                self.put_copy(connector, offsets, on_done)
            elif on_done is not None:
                on_done(error)

        forgotten = [pair for pair in offsets if pair[1] is None]
        if not forgotten:
            own.put(connector, offsets, written, is_wanted, until_durable=until_durable)
            return

        def forgotten_there(error: Exception | None) -> None:
            if error is None:
                own.put(connector, offsets, written, is_wanted, until_durable=until_durable)
            elif on_done is not None:
                on_done(error)

        # The worker's topic forgets first: else what it still holds would show through where the own one has nothing.
        self._common.put(connector, forgotten, forgotten_there, is_wanted, until_durable=until_durable)

    def put_copy(self, connector: str, offsets: Pairs, on_done: OnDone | None = None) -> None:
        """Copy to the worker's topic what the connector's own one holds already; without one, nothing. Best effort.

        One attempt, and ``on_done`` gets None after it, whatever became of it: a copy sent later could set the
        worker's topic back, behind what the task's next owner wrote.
        """
        tried = threading.Event()

        def done(error: Exception | None) -> None:
            tried.set()
            if error is not None:
                log.warning("connector=%s: the worker's offset topic is not up to date: %s", connector, error)
            if on_done is not None:
                on_done(None)

        if self._open_already(connector) is None:
            done(None)
            return
        try:
            self._common.put(connector, offsets, done, lambda: not tried.is_set())
        except ConnectError as error:
            done(error)

    def records(self, connector: str, offsets: Pairs) -> list[tuple[bytes, bytes | None]]:
        """Return the records that a transaction must hold to commit these offsets in the topic that counts."""
        store = self._store_of(connector) or self._common
        return store.records(connector, offsets)

    def delete_leftovers(self, connector: str, offsets: Pairs) -> None:
        """See ``OffsetStore.delete_leftovers``, for the topic that the connector's transactions write to."""
        store = self._open_already(connector) or self._common
        store.delete_leftovers(connector, [partition for partition, _ in offsets])

    def give_up(self) -> None:
        """Try nothing again of what was put so far (I7)."""
        self._common.give_up()
        for store in self._all():
            store.give_up()

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything put in connectors' own topics is durable. Raises as ``OffsetStore.flush``."""
        for store in self._all():
            store.flush(timeout_ms)

    def stop(self) -> None:
        """Close the connectors' own topics; the worker's is not this object's to close."""
        for store in self._all():
            store.stop()

    def _all(self) -> list[OffsetStore]:
        with self._lock:
            return [place.store for place in self._places.values() if place.store is not None]

    def _store_of(self, connector: str) -> OffsetStore | None:
        config = self._config_of(connector)
        return None if config is None or not self.wanted(config) else self.open(connector, config)

    def _open_already(self, connector: str) -> OffsetStore | None:
        """Return the store that the connector's tasks were prepared with; never waits."""
        with self._lock:
            key = self._used.get(connector)
            return None if key is None else self._places[key].store


def _close(store: OffsetStore) -> None:
    try:
        store.flush(CLOSE_FLUSH_MS)
    except ConnectError as error:
        log.warning("closing an offset topic that no connector uses any more: %s", error)
    store.stop()
