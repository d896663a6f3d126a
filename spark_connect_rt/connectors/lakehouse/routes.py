"""Which tables a record goes to (`iceberg.tables.route-field`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings, is_table_name
from spark_connect_rt.errors import DataError


def tables_of(records: Sequence[SinkRecord], settings: TableSinkSettings) -> Iterator[tuple[str, Sequence[SinkRecord]]]:
    """Yield each table and its records in order. A record whose route field has no value goes nowhere.

    Without a route field, the only table gets all records.
    """
    if settings.route_field is None:
        yield settings.tables[0], records
        return
    path = settings.route_field.split(".")
    by_table: dict[str, list[SinkRecord]] = {}
    for record in records:
        value = field_at(record.value, path)
        if value is None:
            continue
        for table in _names(str(value), settings):
            by_table.setdefault(table, []).append(record)
    yield from by_table.items()


def unnamed(records: Sequence[SinkRecord], settings: TableSinkSettings) -> dict[int, DataError]:
    """Return the records whose route field should be the name of a table and is not, by offset.

    Such a name could also lead out of the folder of the tables.
    """
    if not settings.dynamic or settings.route_field is None:
        return {}
    path = settings.route_field.split(".")
    found = {record.offset: field_at(record.value, path) for record in records}
    return {
        offset: DataError(
            f"field {settings.route_field}: {str(value)!r} is not the name of a table. It must be namespace.table, "
            "such as shop.orders"
        )
        for offset, value in found.items()
        if value is not None and not is_table_name(str(value))
    }


def _names(value: str, settings: TableSinkSettings) -> Sequence[str]:
    if settings.dynamic:
        return [value.lower()]  # as the official sink does
    return [table for table in settings.tables if (route := settings.of(table).route) and route.fullmatch(value)]


def field_at(value: Any, path: Sequence[str]) -> Any:
    """Return the field of a value at a path. None if there is no such field."""
    for name in path:
        if isinstance(value, Struct):
            value = value.get(name) if name in [field.name for field in value.schema.fields or ()] else None
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value
