"""Records -> rows: which columns a record fills, which are its key, and the rest of many with one key. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

from spark_connect_rt.api.data.schema import INT32, INT64, STRING, Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.connectors.sql.sql_sink_config import KAFKA, KAFKA_COLUMNS, NONE, RECORD_KEY, RECORD_VALUE
from spark_connect_rt.errors import DataError

Row = tuple[Any, ...]
_Part = tuple[tuple[str, ...], tuple[Schema | None, ...], Callable[[SinkRecord], Row]]
_SHAPES_KEPT = 64


@dataclass(frozen=True, slots=True)
class RowShape:
    """The form of rows from one kind of record: columns, keys first, and the schema of each (None: unknown)."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    schemas: tuple[Schema | None, ...]
    deletes: bool = False


@dataclass(slots=True)
class TableRows:
    """Rows of one shape for one table, in the order of their records."""

    shape: RowShape
    rows: list[Row] = field(default_factory=list)


class RowReader:
    """Makes rows by ``pk.mode``, ``pk.fields``, ``fields.whitelist``. Plans are kept by the schemas' identity."""

    def __init__(self, mode: str, fields: Sequence[str], whitelist: Sequence[str], deletes: bool) -> None:
        """Take the settings of the sink that determine a row's columns."""
        self.mode = mode
        self._fields = tuple(fields)
        self._whitelist = frozenset(whitelist)
        self._deletes = deletes
        self._plans: dict[Any, tuple[tuple[Any, ...], RowShape, Callable[[SinkRecord], Row]]] = {}

    def read(self, record: SinkRecord) -> tuple[RowShape, Row]:
        """Return a record's shape and row. Raises DataError: it has no such key, or no fields."""
        value = record.value
        if value is None and not self._deletes:
            raise DataError("a record without a value needs delete.enabled=true and pk.mode=record_key")
        by = (
            id(record.key_schema),
            id(record.value_schema),
            value is None,
            tuple(value) if type(value) is dict else None,
            tuple(record.key) if type(record.key) is dict else None,
        )
        known = self._plans.get(by)
        if known is None:
            if len(self._plans) >= _SHAPES_KEPT:
                self._plans.clear()
            shape, read = self._plan(record)
            known = self._plans[by] = ((record.key_schema, record.value_schema), shape, read)  # ids stay theirs
        _, shape, read = known
        return shape, read(record)

    def _plan(self, record: SinkRecord) -> tuple[RowShape, Callable[[SinkRecord], Row]]:
        keys, key_schemas, read_key = self._key_part(record)
        if record.value is None:
            return RowShape(keys, keys, key_schemas, deletes=True), read_key
        names, schemas = _members(record.value_schema, record.value, "value")
        chosen = [name for name in names if name not in keys and (not self._whitelist or name in self._whitelist)]
        found = dict(zip(names, schemas, strict=True))
        shape = RowShape(keys, (*keys, *chosen), (*key_schemas, *(found[name] for name in chosen)))
        if not shape.columns:
            raise DataError("no field of the record is selected by fields.whitelist")
        if not keys or self.mode == RECORD_VALUE:
            return shape, _getter(record.value_schema, shape.columns, "value")
        read_value = _getter(record.value_schema, chosen, "value")
        return shape, lambda sink_record: (*read_key(sink_record), *read_value(sink_record))

    def _key_part(self, record: SinkRecord) -> _Part:
        if self.mode == NONE:
            return (), (), lambda _: ()
        if self.mode == KAFKA:
            return self._fields or KAFKA_COLUMNS, (STRING, INT32, INT64), lambda r: (r.topic, r.partition, r.offset)
        side = "key" if self.mode == RECORD_KEY else "value"
        schema = record.key_schema if side == "key" else record.value_schema
        value = record.key if side == "key" else record.value
        if value is None:
            raise DataError(f"a record without a {side} has no primary key (pk.mode={self.mode})")
        if side == "key" and not isinstance(value, Struct | Mapping):
            if len(self._fields) != 1:
                raise DataError(f"pk.fields must name one column for a key that is not a struct, not {self._fields}")
            return self._fields, (schema,), lambda r: (_not_null(r.key),)
        names, schemas = _members(schema, value, side)
        found = dict(zip(names, schemas, strict=True))
        wanted = self._fields or names
        if missing := [name for name in wanted if name not in found]:
            raise DataError(f"the {side} has no field {', '.join(missing)} (pk.fields). It has {', '.join(names)}")
        return wanted, tuple(found[name] for name in wanted), _getter(schema, wanted, side)


def _not_null(value: Any) -> Any:
    if value is None:
        raise DataError("a record without a key has no primary key (pk.mode=record_key)")
    return value


def _members(schema: Schema | None, value: Any, side: str) -> tuple[tuple[str, ...], tuple[Schema | None, ...]]:
    if schema is not None and schema.type is Type.STRUCT:
        return tuple(member.name for member in schema.fields), tuple(member.schema for member in schema.fields)
    if schema is None and isinstance(value, Mapping):
        return tuple(map(str, value)), (None,) * len(value)
    kind = type(value).__name__ if schema is None else schema.type.value
    raise DataError(f"the {side} must be a struct, or a map whose keys are column names, not {kind}")


def _getter(schema: Schema | None, names: Sequence[str], side: str) -> Callable[[SinkRecord], Row]:
    part = attrgetter(side)
    if schema is None:  # every name is in the map: its names are part of a plan's key
        take = itemgetter(*names) if len(names) > 1 else lambda given: tuple(given[name] for name in names)
        return lambda record: take(part(record))
    places = {member.name: member.index for member in schema.fields}
    indexes = [places[name] for name in names]
    if indexes == list(range(len(schema.fields))):
        return lambda record: tuple(_struct(part(record)).values())

    def of_struct(record: SinkRecord) -> Row:
        values = _struct(part(record)).values()
        return tuple([values[index] for index in indexes])

    return of_struct


def _struct(value: Any) -> Struct:
    if type(value) is Struct:
        return value
    raise DataError(f"the value must be a struct of its schema, not {type(value).__name__}")


def runs_of(pairs: Sequence[tuple[RowShape, Row]], replaces: bool) -> list[TableRows]:
    """Return rows in runs of one shape, to be written one run after the other.

    ``replaces``: rows with the same key replace each other (upsert, update, delete). Only the last row of each key is
    kept, because one statement may touch a row only once. An earlier row is kept in a separate run if dropping it would
    change the table's final content. That is so if the last one fills other columns, or follows a deletion.
    """
    if not replaces:
        return _plain_runs(pairs)
    shapes = {id(shape) for shape, _ in pairs}
    if len(shapes) == 1:  # nearly always, and the quicker way
        shape, size = pairs[0][0], len(pairs[0][0].keys)
        return [TableRows(shape, list({row[:size]: row for _, row in pairs}.values()))]
    done: list[TableRows] = []
    latest: dict[Row, tuple[RowShape, Row]] = {}
    for shape, row in pairs:
        key = row[: len(shape.keys)]
        before = latest.get(key)
        if before is not None and before[0] is not shape and not shape.deletes:
            done += _grouped(latest)
            latest = {}
        latest[key] = (shape, row)
    return done + _grouped(latest)


def _grouped(latest: Mapping[Row, tuple[RowShape, Row]]) -> list[TableRows]:
    groups: dict[int, TableRows] = {}
    for shape, row in latest.values():
        groups.setdefault(id(shape), TableRows(shape)).rows.append(row)
    return list(groups.values())


def _plain_runs(pairs: Sequence[tuple[RowShape, Row]]) -> list[TableRows]:
    runs: list[TableRows] = []
    for shape, row in pairs:
        if not runs or runs[-1].shape is not shape:
            runs.append(TableRows(shape))
        runs[-1].rows.append(row)
    return runs
