"""One table of a Lakeflow connector in a task: pass after pass, its rows and its deletions as pieces.

Each pass has a new instance of the connector's class, because many classes decide at creation how far they read. Within
it the class is called until its offset stays the same. Each call's rows carry the offset before it, the last of them
the one that it returned.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from spark_connect_rt.api.data.json_text import json_text, readable_json
from spark_connect_rt.connectors.python_sources.page_columns import Row
from spark_connect_rt.connectors.python_sources.passes import PassTimes
from spark_connect_rt.connectors.python_sources.table_pages import (
    GiveUp,
    Piece,
    TableHints,
    TablePages,
    topic_name,
    with_offset,
)
from spark_connect_rt.errors import ConnectError, DataError

# Values as JSON has them -> columns of the types that a Lakeflow connector's schema declares. Pure.
#
# Source: the values that ``parse_value`` of Databricks' community connectors accepts for each type. Here, objects in a
# text column become JSON.


_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError, AttributeError, DataError)
_TEXTS = (bool, int, float, Decimal, dt.date, dt.time, UUID)  # written as Databricks does, true as True
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d")
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S")


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns of a Spark schema; of types that only Spark has (variant, user-defined) text: JSON."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """Return the type of a column."""
    if isinstance(kind, spark.StructType):
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, spark.ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_type(kind)
    except Exception:  # noqa: BLE001 - of Spark's errors each version has others
        return pa.string()


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the schema's columns, others left out. Raises ValueError: a value does not fit."""
    columns = [column_of([row.get(field.name) for row in rows], field.type, field.name) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column_of(values: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Return values as a column. Raises ValueError naming it."""
    try:
        if not _misread_by_arrow(kind):
            return pa.array(values, kind)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return pa.array(values, pa.string()).cast(kind)
    except _UNFIT:
        pass
    try:
        return pa.array([converted(value, kind) for value in values], kind)
    except _UNFIT as error:
        raise ValueError(f"column {name}: {error}") from None


def _misread_by_arrow(kind: pa.DataType) -> bool:
    """Return whether Arrow would misread values: numbers as microseconds, base64 as the bytes themselves."""
    if pa.types.is_nested(kind):
        return any(_misread_by_arrow(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind) or pa.types.is_binary(kind))


def converted(value: Any, kind: pa.DataType) -> Any:
    """Return one value as the type's Python value. Raises ValueError, TypeError, ArithmeticError: it does not fit."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: converted(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(converted(key, kind.key_type), converted(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [
            converted(element, kind.value_type) for element in (value if isinstance(value, list | tuple) else [value])
        ]
    return next((convert(value) for is_kind, convert in _CONVERSIONS if is_kind(kind)), value)


def _text(value: Any) -> str:
    if isinstance(value, str | bytes):
        return value if isinstance(value, str) else value.decode()
    if isinstance(value, _TEXTS):
        return str(value)
    return json_text(value)


def _whole(value: Any) -> int:
    return int(value) if not isinstance(value, str) else int(float(value)) if "." in value else int(value)


def _boolean(value: Any) -> bool:
    lowered = value.lower() if isinstance(value, str) else None
    return lowered in _TRUE if lowered in (*_TRUE, *_FALSE) else bool(value)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    return value if isinstance(value, dt.date) else _parsed(value, _DATES).date()


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, int | float):
        return dt.datetime.fromtimestamp(value, dt.UTC)
    found = value if isinstance(value, dt.datetime) else _parsed(value, _TIMES)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _parsed(value: str, forms: Sequence[str]) -> dt.datetime:
    for form in forms:
        try:
            return dt.datetime.strptime(value, form).replace(tzinfo=dt.UTC)
        except ValueError:
            continue
    return dt.datetime.fromisoformat(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        return bytes(value)
    for decode in (lambda text: base64.b64decode(text, validate=True), bytes.fromhex):
        try:
            return decode(value)
        except (binascii.Error, ValueError):
            continue
    return value.encode()


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, lambda value: Decimal(str(value))),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_binary, _bytes),
)

OFFSET, ENDED_MS = "offset", "ended_ms"
NONE = "{}"
ROWS, DELETES = "rows", "deletes"
SNAPSHOT, WITH_DELETES = "snapshot", "cdc_with_deletes"
KINDS = (SNAPSHOT, "cdc", WITH_DELETES, "append")
_LINES = "lakeflow"
Read = Callable[[Any], tuple[Iterator[Row], Any]]
"""Offset before -> rows, offset after them."""


def partition_of(name: str, table: str, flow: str) -> dict[str, str]:
    """Return the source partition of a table's rows or deletions."""
    return {_LINES: name, "table": table, **({"flow": DELETES} if flow == DELETES else {})}


@dataclass(frozen=True, slots=True)
class LakeflowTableSettings:
    """The settings that the tables of one task share."""

    name: str
    topic_prefix: str
    most_rows: int


class LakeflowTable:
    """Reads one table again and again, when it is time."""

    def __init__(
        self,
        table: str,
        options: Mapping[str, str],
        stored: Mapping[str, Mapping[str, Any] | None],
        make: Callable[[], Any],
        settings: LakeflowTableSettings,
        give_up: GiveUp,
        times: PassTimes,
    ) -> None:
        """Resume from ``stored``, by flow. ``make`` returns a new instance of the connector's class."""
        self.table, self.times = table, times
        self._options, self._make, self._settings, self._give_up = options, make, settings, give_up
        self._places = {flow: stored.get(flow) or {OFFSET: NONE} for flow in (ROWS, DELETES)}
        self._partitions = {flow: partition_of(settings.name, table, flow) for flow in (ROWS, DELETES)}
        ended_ms = self._places[ROWS].get(ENDED_MS)
        if ended_ms is not None:
            times.ended(ended_ms)
        self._pass: Iterator[list[Piece]] | None = None
        self._schema: pa.Schema | None = None
        self._pages: TablePages | None = None

    @property
    def busy(self) -> bool:
        """Return whether a pass is in progress."""
        return self._pass is not None

    def poll(self) -> list[Piece]:
        """Return the next records. Raises ConnectError: the source failed too often, or its answers make no sense."""
        if self._pass is None:
            if not self.times.due:
                return []
            self._pass = self._read()
        try:
            found = next(self._pass, None)
        except ConnectError:
            raise
        except Exception as error:  # noqa: BLE001 - errors of users' classes have no common base class
            self._pass = None
            self.times.failed(f"table {self.table}", error)
            return []
        if found is None:
            self._pass = None
            self.times.succeeded()
            self.times.ended()
        return found or []

    def close(self) -> None:
        """End the pass that is in progress."""
        self._pass = None

    def _read(self) -> Iterator[list[Piece]]:
        source = self._make()
        metadata = source.read_table_metadata(self.table, self._options)
        kind = metadata.get("ingestion_type") or SNAPSHOT
        if kind not in KINDS:
            raise ConnectError(
                f"table {self.table}: ingestion_type {kind} is not supported. Supported are {', '.join(KINDS)}"
            )
        self._prepare(source, metadata, kind)
        if kind == SNAPSHOT:
            yield from self._snapshot(source)
            return
        yield from self._flow(ROWS, self._reader(source), self._rows)
        if kind == WITH_DELETES:

            def read(start: Any) -> tuple[Iterator[Row], Any]:
                found: tuple[Iterator[Row], Any] = source.read_table_deletes(self.table, start, self._options)
                return found

            yield from self._flow(DELETES, read, self._deleted)

    def _prepare(self, source: Any, metadata: Mapping[str, Any], kind: str) -> None:
        hints = TableHints(tuple(metadata.get("primary_keys") or ()))
        if kind == WITH_DELETES and not hints.keys:
            raise ConnectError(f"table {self.table} has deletions but no primary keys")
        self._schema = arrow_schema(source.get_table_schema(self.table, self._options))
        if self._pages is None or self._pages.hints != hints:
            topic = topic_name(self._settings.topic_prefix, self.table)
            self._pages = TablePages(self.table, topic, hints, self._give_up)

    def _reader(self, source: Any) -> Read:
        """Return how the class gives changes: from call to call, or up to its latest offset in partitions."""
        if hasattr(source, "latest_offset") and _partitioned(source, self.table):

            def by_partitions(start: Any) -> tuple[Iterator[Row], Any]:
                end = source.latest_offset(self.table, self._options, start)
                if end == start:
                    return iter(()), end
                return self._all_of(source, source.get_partitions(self.table, self._options, start, end)), end

            return by_partitions

        def by_calls(start: Any) -> tuple[Iterator[Row], Any]:
            found: tuple[Iterator[Row], Any] = source.read_table(self.table, start, self._options)
            return found

        return by_calls

    def _all_of(self, source: Any, partitions: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        return chain.from_iterable(
            source.read_partition(self.table, partition, self._options) for partition in partitions
        )

    def _snapshot(self, source: Any) -> Iterator[list[Piece]]:
        if hasattr(source, "get_partitions"):
            rows = self._all_of(source, source.get_partitions(self.table, self._options))
        else:
            rows, _ = source.read_table(self.table, None, self._options)
        yield from self._chunks(ROWS, rows, self._rows, None)

    def _flow(self, flow: str, read: Read, pieces_of: Callable[[Sequence[Row]], list[Piece]]) -> Iterator[list[Piece]]:
        while True:
            start = orjson.loads(self._places[flow][OFFSET])
            rows, end = read(dict(start))
            if end == start:
                return
            yield from self._chunks(flow, rows, pieces_of, {OFFSET: orjson.dumps(end or {}).decode()})
            if not end:  # no offset: that was everything there is
                return

    def _chunks(
        self,
        flow: str,
        rows: Iterator[Row],
        pieces_of: Callable[[Sequence[Row]], list[Piece]],
        behind: Mapping[str, Any] | None,
    ) -> Iterator[list[Piece]]:
        """Yield rows as pieces; ``behind`` is the offset after them, None: a snapshot ended now."""
        rows = iter(rows)
        chunk = list(islice(rows, self._settings.most_rows))
        while True:
            following = list(islice(rows, self._settings.most_rows))
            pieces = pieces_of(chunk) if chunk else []
            if following:
                yield pieces
                chunk = following
                continue
            self._places[flow] = behind or {OFFSET: NONE, ENDED_MS: round(self.times.now_ms())}
            self.times.succeeded()
            if pieces:
                pieces[-1] = with_offset(pieces[-1], self._places[flow])
            yield pieces
            return

    def _rows(self, rows: Sequence[Row]) -> list[Piece]:
        assert self._schema is not None
        assert self._pages is not None
        try:
            batch = batch_of(rows, self._schema)
        except ValueError:
            fitting = [row for row in rows if self._fits(row)]
            batch = batch_of(fitting, self._schema)
        return self._pages.pieces(batch, self._partitions[ROWS], self._places[ROWS])

    def _deleted(self, rows: Sequence[Row]) -> list[Piece]:
        assert self._schema is not None
        assert self._pages is not None
        keyed = [{name: row.get(name) for name in self._pages.hints.keys} for row in rows]
        return self._pages.tombstones(batch_of(keyed, self._schema), self._partitions[DELETES], self._places[DELETES])

    def _fits(self, row: Row) -> bool:
        assert self._schema is not None
        try:
            batch_of([row], self._schema)
        except ValueError as error:
            self._give_up(f"a row of {self.table}", DataError(str(error)), readable_json(dict(row)))
            return False
        return True


def _partitioned(source: Any, table: str) -> bool:
    asked = getattr(source, "is_partitioned", None)
    return asked is None or bool(asked(table))
