"""The part that the connectors of all table formats share: validation, and offsets that are altered by request."""

from __future__ import annotations

import logging
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings, task_doubts
from spark_connect_rt.connectors.lakehouse.table_port import (
    Committed,
    LoadedTable,
    StoredOffset,
    TableCommit,
    TableStore,
)
from spark_connect_rt.errors import BadConfigError, ConnectError

log = logging.getLogger(__name__)
ALTER_TRIES = 5


class TableSinkConnector(SinkConnector):
    """A sink whose tables store the offsets of their records. A subclass adds the settings, the task and the stores."""

    stores_offsets = True
    unknown_tables_advice: ClassVar[str] = ""
    """Advice to alter offsets of tables that the settings do not name. Starts with a blank."""

    @abstractmethod
    def typed_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings. Raises BadConfigError."""

    @abstractmethod
    def open_store(self, config: Mapping[str, str], settings: TableSinkSettings, table: str) -> TableStore:
        """Return a store of a table. Raises ConnectError."""

    def setting_checks(self, config: Mapping[str, str]) -> Sequence[Callable[[], object]]:
        """Return calls that raise BadConfigError for settings that do not fit each other."""
        return (lambda: self.typed_settings(config),)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other, if each is valid alone."""
        if any(value.errors for value in self.config_def().validate(config)):
            return {}
        problems: dict[str, list[str]] = {}
        for check in self.setting_checks(config):
            try:
                check()
            except BadConfigError as error:
                problems |= {name: list(why) for name, why in error.problems.items()}
        return problems

    def doubts(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return a warning for more tasks than can commit to a table without long waits."""
        return task_doubts(config)

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Store the new offsets in the tables, so that they win there, too. Raises ConnectError."""
        settings = self.typed_settings(config)
        if settings.dynamic:
            raise ConnectError(
                "offsets of a connector with iceberg.tables.dynamic-enabled=true cannot be altered, because its tables "
                f"are not known.{self.unknown_tables_advice}"
            )
        for name in settings.tables:
            store = self.open_store(config, settings, name)
            try:
                alter_stored(store, offsets)
            finally:
                store.close()
        return True


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
