"""A source connector as a dlt resource: its tasks are polled until they have no more, their offsets are dlt's state.

Must not: acknowledge anything. dlt loads extracted data later, or not at all. Then the state of the previous run
counts, and the polled records are read again. So ``commit`` and ``commit_record`` of a task are never called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from spark_connect_rt.api.connector import ConnectorContext, SourceConnector
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Polled, SourceBatch, SourceRecord
from spark_connect_rt.api.task import NoPluginMetrics, OwnWrites, PluginMetrics, SourceTask
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins

# Records of source tasks -> items of dlt: batches as Arrow tables, records as dicts, by topic. Pure.


DELETED = "_deleted"
"""The column that marks a deleted row: a record without a value."""
Place = tuple[Mapping[str, Any], Mapping[str, Any]]


class Item(NamedTuple):
    """Rows for one table, and the (source partition, source offset) pairs from which to resume after them."""

    topic: str
    rows: Any
    places: Sequence[Place]


def items_of(polled: Sequence[Polled]) -> Iterator[Item]:
    """Yield the items of one poll in its order; records that follow each other in one topic are one item."""
    waiting: list[SourceRecord] = []
    for piece in polled:
        if isinstance(piece, SourceBatch):
            yield from _of_records(waiting)
            waiting = []
            yield from _of_batch(piece)
            continue
        if not isinstance(piece, SourceRecord):  # written by the task itself: nothing to load
            continue
        if waiting and waiting[0].topic != piece.topic:
            yield from _of_records(waiting)
            waiting = []
        waiting.append(piece)
    yield from _of_records(waiting)


def _of_records(records: Sequence[SourceRecord]) -> Iterator[Item]:
    if records:
        rows = [row_of(record.key, record.value) for record in records]
        places = [(record.source_partition, record.source_offset) for record in records]
        yield Item(records[0].topic, rows, places)


def _of_batch(batch: SourceBatch) -> Iterator[Item]:
    places = ((batch.source_partition, batch.source_offset),)
    if pa.types.is_struct(batch.values.type) and not batch.values.null_count:
        yield Item(batch.topic, pa.Table.from_batches([pa.RecordBatch.from_struct_array(batch.values)]), places)
        return
    keys = [None] * len(batch.values) if batch.keys is None else batch.keys.to_pylist(maps_as_pydicts="lossy")
    values = batch.values.to_pylist(maps_as_pydicts="lossy")
    yield Item(batch.topic, [row_of(key, value) for key, value in zip(keys, values, strict=True)], places)


def row_of(key: Any, value: Any) -> dict[str, Any]:
    """Return a record as a row: its value's fields; of a record without a value its key's, and that it is gone."""
    if value is None:
        return {**_fields(key, "key"), DELETED: True}
    return _fields(value, "value")


def _fields(value: Any, name: str) -> dict[str, Any]:
    found = plain(value)
    return found if isinstance(found, dict) else {name: found}


def plain(value: Any) -> Any:
    """Return a Connect value as dlt takes it: structs and maps as dicts."""
    if isinstance(value, Struct):
        return {name: plain(part) for name, part in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


OFFSETS = "offsets"
State = MutableMapping[str, Any]
_RETRY_S = 0.1


def resource(
    connector: type[SourceConnector] | str,
    config: Mapping[str, str],
    *,
    name: str | None = None,
    primary_key: str | Sequence[str] | None = None,
    tasks_max: int = 1,
    **hints: Any,
) -> Any:
    """Return a dlt resource that reads a connector until it has no more; each topic is a table.

    Args:
        connector: the class, or a bundled one's name such as ``HttpSource``.
        config: its own settings. Converters and transformations have nothing to do here; secrets come from dlt.
        name: the resource's; by default the connector's class without ``Connector``.
        primary_key: with it the disposition is ``merge``, and records without a value delete (``hard_delete``).
        tasks_max: most tasks; they are polled in turn.
        hints: further ones of ``dlt.resource``, such as ``write_disposition``.

    Raises:
        ConnectError: dlt is not installed. BadConfigError: the configuration is refused. NotFoundError: the name is
        unknown.
    """
    dlt = optional_module("dlt", "dlt", "resources of dlt")
    found = bundled_plugins().class_of(connector) if isinstance(connector, str) else connector
    checked(found, config)
    if primary_key is not None:
        hints.setdefault("write_disposition", "merge")
        deleted = {DELETED: {"data_type": "bool", "hard_delete": True}}
        hints["columns"] = {**deleted, **hints.get("columns", {})}

    def read() -> Iterator[Any]:
        state = dlt.current.resource_state()
        for item in items_until_none_left(found, config, state, tasks_max):
            yield dlt.mark.with_table_name(item.rows, item.topic)

    named = name or found.__name__.removesuffix("Connector")
    return dlt.resource(read, name=named, primary_key=primary_key, **hints)


def checked(connector: type[SourceConnector], config: Mapping[str, str]) -> None:
    """Return when a configuration is right. Raises BadConfigError naming everything that is wrong."""
    if not (isinstance(connector, type) and issubclass(connector, SourceConnector)):
        raise ConnectError(f"{connector} is not a source connector")
    made = connector()
    found = {
        config_value.name: list(config_value.errors)
        for config_value in made.config_def().validate(config)
        if config_value.errors
    }
    for setting, problems in made.validate(config).items():
        found.setdefault(setting, []).extend(problems)
    if config.get("transforms"):
        found.setdefault("transforms", []).append("is not for dlt: use add_map and add_filter of the resource")
    if found:
        raise BadConfigError(found)


def items_until_none_left(
    connector: type[SourceConnector], config: Mapping[str, str], state: State, tasks_max: int
) -> Iterator[Item]:
    """Yield items; the state already includes each yielded item. Raises errors of the connector and its tasks."""
    offsets: State = state.setdefault(OFFSETS, {})
    made = connector()
    made.context = _ConnectorContext()
    tasks: list[SourceTask] = []
    try:
        made.start(dict(config))
        for task_config in made.task_configs(tasks_max):
            task = made.task_class()()
            tasks.append(task)
            task.context = _TaskContext(offsets)
            task.start({**config, **task_config})
        yield from _polled(tasks, offsets)
    finally:
        for task in tasks:
            task.stop()
        made.stop()


def _polled(tasks: Sequence[SourceTask], offsets: State) -> Iterator[Item]:
    left = list(tasks)
    while left:
        for task in tuple(left):
            try:
                polled = task.poll() or ()
            except RetriableError:
                time.sleep(_RETRY_S)
                continue
            for item in items_of(polled):
                for partition, offset in item.places:
                    offsets[_text(partition)] = dict(offset)
                yield item
            if not polled and not task.has_more():
                left.remove(task)
            elif not polled:
                time.sleep(task.idle_wait_ms() / 1000)


def _text(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


class _ConnectorContext(ConnectorContext):
    """A connector's ConnectorContext: a run of dlt is short, the next one asks again."""

    def request_task_reconfiguration(self) -> None:
        """Nothing: the next run has other tasks."""

    def raise_error(self, error: Exception) -> None:
        """Fail the run with the connector's error."""
        raise error


class _TaskContext:
    """A task's SourceTaskContext, with offsets from dlt's state."""

    transaction_context: Any = None
    metrics: PluginMetrics = NoPluginMetrics()
    own_writes = OwnWrites()
    previewed = False

    def __init__(self, offsets: Mapping[str, Any]) -> None:
        self.offset_reader = self
        self._offsets = offsets

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the offsets in dlt's state."""
        return [self._offsets.get(_text(partition)) for partition in partitions]

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """Fail the run: dlt has no dead letters. Raises DataError."""
        raise DataError(f"{place}: {error}") from error

    def record_event(self, summary: str, **details: str | int) -> None:
        """Do nothing: a run of dlt has no group."""
