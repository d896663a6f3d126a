"""Stored offsets of a table that are altered by request, for every table format."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.table_port import (
    Committed,
    LoadedTable,
    StoredOffset,
    TableCommit,
    TableStore,
)
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)
ALTER_TRIES = 5


def alter_stored(store: TableStore, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Commit new stored offsets without rows. Raises ConnectError if other writers are faster several times."""
    for _ in range(ALTER_TRIES):
        loaded = store.load()
        if loaded is None:
            return
        commit_id, now_ms = uuid.uuid4().hex[:16], int(time.time() * 1000)
        changed = {}
        for place, offset in offsets.items():
            if offset is not None:
                stored = loaded.offsets.get(place)
                topic_id = None if stored is None else stored.topic_id
                changed[place] = StoredOffset(offset, topic_id, (commit_id,), ((offset, offset, now_ms),))
        forgotten = [place for place, offset in offsets.items() if offset is None and place in loaded.offsets]
        _remove_parts(loaded, store.name)
        if not changed and not forgotten:
            return
        if isinstance(loaded.commit(TableCommit(commit_id, changed, forgotten)), Committed):
            log.info("table %s: offsets altered by request: %s", store.name, dict(offsets))
            return
    raise ConnectError(f"table {store.name}: other writers changed it {ALTER_TRIES} times in a row. Try again.")


def _remove_parts(loaded: LoadedTable, table: str) -> None:
    """Remove parts that killed tasks left: for a partition without a stored offset, they would be valid again."""
    try:
        folder = loaded.parts()
        folder.remove(folder.names())
    except OSError as error:
        raise ConnectError(f"table {table}: parts of earlier tasks cannot be removed: {error}") from error
