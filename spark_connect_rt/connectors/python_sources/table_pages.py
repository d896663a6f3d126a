"""Pages of one table -> batches of columns for a source task, their keys, deletions as tombstones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.json_text import json_bytes, readable_json
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.connectors.python_sources.page_columns import GrowingColumns, Row
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns

Piece = SourceBatch | SourceRecord
Page: TypeAlias = "pa.RecordBatch | pa.Table | Sequence[Row]"
GiveUp = Callable[[str, Exception, bytes | None], None]
"""Reports one row: its place, the error, the row itself (SourceTaskContext.report_errant)."""


@dataclass(frozen=True, slots=True)
class TableHints:
    """The facts about a table other than its rows."""

    keys: tuple[str, ...] = ()
    """Columns that identify a row; none: records have no key."""
    deleted: str | None = None
    """A column that marks deleted rows: true, or any value if it is not a boolean."""
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of columns that are declared, not found out."""


class TablePages:
    """The pages of one table as pieces of one topic; remembers the schema."""

    def __init__(self, table: str, topic: str, hints: TableHints, give_up: GiveUp, schemaless: bool = False) -> None:
        """``schemaless``: a record a row, as JSON would have it, without a schema."""
        self.hints = hints
        self._table, self._topic, self._give_up, self._schemaless = table, topic, give_up, schemaless
        self._columns = GrowingColumns(hints.types)
        self._rows: tuple[pa.Schema, RowColumns, Schema] | None = None

    def pieces(self, page: Page, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> list[Piece]:
        """Return a page's records in its order. Raises DataError: a column has no Connect form."""
        if self._schemaless:
            return self._plain(page, partition, offset)
        batch = self._batch(page)
        if batch is None or not batch.num_rows:
            return []
        return self._typed(batch, partition, offset)

    def tombstones(self, page: Page, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> list[Piece]:
        """Return deletions of rows, of which the key columns matter only."""
        if self._schemaless:
            return self._plain(page, partition, offset, gone=True)
        batch = self._batch(page)
        keyed = None if batch is None else self._keyed(batch)
        return [self._gone(keyed, partition, offset)] if keyed else []

    def _batch(self, page: Page) -> pa.RecordBatch | None:
        if isinstance(page, pa.RecordBatch | pa.Table):
            try:
                return self._columns.of_columns(page)
            except ValueError as error:
                raise DataError(f"table {self._table}: {error}") from error
        try:
            return self._columns.of_rows(page)
        except ValueError:
            fitting = [row for row in page if self._fits(row)]
            return self._columns.of_rows(fitting) if fitting else None

    def _fits(self, row: Row) -> bool:
        try:
            self._columns.of_rows([row])
        except ValueError as error:
            self._give_up(f"a row of {self._table}", DataError(str(error)), readable_json(dict(row)))
            return False
        return True

    def _typed(self, batch: pa.RecordBatch, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> list[Piece]:
        batch = self._keyed(batch)
        gone = self._deletions(batch)
        pieces: list[Piece] = []
        for start, count, is_gone in _runs(gone, batch.num_rows):
            part = batch.slice(start, count)
            pieces.append((self._gone if is_gone else self._present)(part, partition, offset))
        return pieces

    def _present(self, batch: pa.RecordBatch, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> SourceBatch:
        columns, schema = self._forms(batch.schema)
        values = columns.structs(batch)
        keys, key_schema = self._keys(values, schema)
        return SourceBatch(partition, offset, self._topic, values, schema, keys, key_schema)

    def _gone(self, batch: pa.RecordBatch, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> SourceBatch:
        columns, schema = self._forms(batch.schema)
        keys, key_schema = self._keys(columns.structs(batch), schema)
        return SourceBatch(partition, offset, self._topic, pa.nulls(len(batch)), None, keys, key_schema)

    def _forms(self, columns: pa.Schema) -> tuple[RowColumns, Schema]:
        if self._rows is None or self._rows[0] != columns:
            made = RowColumns(columns)
            self._rows = (columns, made, replace(made.schema, name=self._table))
        return self._rows[1], self._rows[2]

    def _keys(self, values: pa.StructArray, schema: Schema) -> tuple[pa.StructArray | None, Schema | None]:
        if not self.hints.keys:
            return None, None
        names = list(self.hints.keys)
        arrays = [values.field(name) for name in names]
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
        members = [(name, schema.field(name)) for name in names]
        keys = struct_of([(name, found.schema.as_optional(False)) for name, found in members if found is not None])
        return pa.StructArray.from_arrays(arrays, fields=fields), keys

    def _keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that have a key; the others are given up."""
        if not self.hints.keys:
            return batch
        missing = [name for name in self.hints.keys if name not in batch.schema.names]
        if missing:
            raise DataError(f"table {self._table} has no column {', '.join(missing)} of its primary key")
        present = None
        for name in self.hints.keys:
            column = batch.column(name)
            if column.null_count:
                valid = column.is_valid()
                present = valid if present is None else pc.and_(present, valid)
        if present is None:
            return batch
        for row in batch.filter(pc.invert(present)).to_pylist():
            self._has_key(row)
        return batch.filter(present)

    def _has_key(self, row: Row) -> bool:
        absent = [name for name in self.hints.keys if row.get(name) is None]
        if absent:
            reason = DataError(f"primary key column {', '.join(absent)} is null")
            self._give_up(f"a row of {self._table}", reason, readable_json(dict(row)))
        return not absent

    def _deletions(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        name = self.hints.deleted
        if name is None or not self.hints.keys or name not in batch.schema.names:
            return None
        column = batch.column(name)
        gone = column.fill_null(False) if pa.types.is_boolean(column.type) else column.is_valid()
        return gone if gone.true_count else None

    def _plain(
        self, page: Page, partition: Mapping[str, Any], offset: Mapping[str, Any], gone: bool = False
    ) -> list[Piece]:
        rows = page.to_pylist() if isinstance(page, pa.RecordBatch | pa.Table) else page
        records: list[Piece] = []
        for given in rows:
            try:
                row: Row = plain_row(given)
            except DataError as error:
                self._give_up(f"a row of {self._table}", error, readable_json(dict(given)))
                continue
            if self.hints.keys and not self._has_key(row):
                continue
            key = {name: row[name] for name in self.hints.keys} or None
            value = None if key is not None and (gone or self._is_gone(row)) else row
            records.append(SourceRecord(partition, offset, self._topic, value, None, key))
        return records

    def _is_gone(self, row: Row) -> bool:
        mark = None if self.hints.deleted is None else row.get(self.hints.deleted)
        return mark is not None and mark is not False


def plain_row(row: Row) -> dict[str, Any]:
    """Return a row as JSON would have it: times as ISO text, bytes as base64. Raises DataError: a value has no form."""
    found: dict[str, Any] = orjson.loads(json_bytes(dict(row)))
    return found


def _runs(gone: pa.BooleanArray | None, length: int) -> list[tuple[int, int, bool]]:
    """Return the (start, count, deleted) of rows that follow each other and are of one kind."""
    if gone is None:
        return [(0, length, False)]
    runs: list[tuple[int, int, bool]] = []
    for at, mark in enumerate(gone.to_pylist()):
        if runs and runs[-1][2] is mark:
            start, count, _ = runs[-1]
            runs[-1] = (start, count + 1, mark)
        else:
            runs.append((at, 1, mark))
    return runs


def is_json_object(text: Any) -> bool:
    """Return whether an offset's field holds a state as text: offsets hold no trees (Java ``OffsetUtils``)."""
    try:
        return isinstance(text, str) and isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def with_offset(piece: Piece, offset: Mapping[str, Any]) -> Piece:
    """Return the same records with another offset to resume from after them."""
    return replace(piece, source_offset=offset)


def rows_in(pieces: Sequence[Piece]) -> int:
    """Return how many records these are."""
    return sum(len(piece.values) if isinstance(piece, SourceBatch) else 1 for piece in pieces)


def topic_name(prefix: str, table: str) -> str:
    """Return the topic of a table. Characters that Kafka does not allow become underscores."""
    return prefix + "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in table
    )
