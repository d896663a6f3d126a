"""What source tasks return -> items of dlt: batches as Arrow tables, records as dicts, by topic. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Polled, SourceBatch, SourceRecord

DELETED = "_deleted"
"""The column that says of a row that it is gone: a record without a value."""
Place = tuple[Mapping[str, Any], Mapping[str, Any]]


class Item(NamedTuple):
    """Rows for one table, and where to go on behind them: (source partition, source offset) pairs."""

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
