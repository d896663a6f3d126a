"""What the rows of a DataFrame are when they are written: records as they stand, or values with a schema.

Rows that have only the columns of the read (``topic``, ``partition``, ``key``, ``value``, ``headers``, ``timestamp``)
and a ``value`` of bytes or text are records. Any other row is the value of a record: a struct of its columns. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkRecord, SourceBatch
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PRODUCE_FIELDS
from spark_connect_rt.records.pipeline.connect_values import row_values

RECORD_COLUMNS = (*PRODUCE_FIELDS, "source_partition", "source_offset")  # the last two are of a read, and left out
_TEXTS = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)


def is_record_form(names: Collection[str], texts: Collection[str]) -> bool:
    """Tell whether rows are records as they stand; ``texts``: the columns of text or bytes among ``names``."""
    return "value" in texts and set(names) <= set(RECORD_COLUMNS)


class RecordForm:
    """Rows in record form: topic, key, value, headers ... as columns."""

    def __init__(self, columns: pa.Schema, topic: str | None) -> None:
        """Take the columns and the topic of rows that name none. Raises DataError: neither names one."""
        if topic is None and "topic" not in columns.names:
            raise DataError("no topic is given. Set the option topic, or add a column topic")
        self._topic = topic

    def produced(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in produce form. Raises DataError: a column is of another type, a topic is missing."""
        return pa.RecordBatch.from_pydict({name: self._column(batch, name) for name in PRODUCE_FIELDS})

    def consumed(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        """Return the batch in consume form, as if read from ``partition`` at ``first_offset``.

        Raises DataError as ``produced``.
        """
        columns = {name: self._column(batch, name) for name in PRODUCE_FIELDS}
        count = batch.num_rows
        columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), count)
        columns["offset"] = pa.array(range(first_offset, first_offset + count), pa.int64())
        return pa.RecordBatch.from_pydict({name: columns[name] for name in CONSUME_FIELDS})

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = PRODUCE_FIELDS[name]
        if name == "topic":
            return self._topics(batch)
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, kind)
        column = batch.column(name)
        try:
            if name == "timestamp" and pa.types.is_timestamp(column.type):
                return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(kind)
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"column {name}: expected {kind}, not {column.type}: {error}") from None

    def _topics(self, batch: pa.RecordBatch) -> pa.Array:
        given = batch.column("topic").cast(pa.string()) if "topic" in batch.schema.names else None
        fixed = pa.repeat(pa.scalar(self._topic, pa.string()), batch.num_rows)
        topics = fixed if given is None else pc.coalesce(given, fixed)
        if topics.null_count:
            raise DataError("a row has no topic. Set the option topic")
        return topics


class ValueForm:
    """Rows that are values: structs of their columns."""

    def __init__(self, columns: pa.Schema, topic: str | None) -> None:
        """Take the columns and the topic. Raises DataError: no topic, or a column that has no Connect form."""
        if topic is None:
            raise DataError("no topic is given. Set the option topic")
        self._topic = topic
        self._columns = RowColumns(columns)

    @property
    def schema(self) -> Schema:
        """Return the schema of every value."""
        return self._columns.schema

    def as_batch(self, batch: pa.RecordBatch) -> SourceBatch:
        """Return rows as what a source polls. Raises DataError: a value does not fit."""
        return SourceBatch({}, {}, self._topic, self._columns.structs(batch), self.schema)

    def as_records(
        self, batch: pa.RecordBatch, partition: int, first_offset: int
    ) -> Iterator[tuple[SinkRecord, DataError | None]]:
        """Yield rows as records of ``partition`` from ``first_offset`` on, as a sink task in a worker gets them.

        The second part says why a row has no value, where Python cannot hold it. Raises DataError: a value does not fit
        its column's Connect type.
        """
        for offset, value in enumerate(row_values(self._columns.structs(batch), self.schema), first_offset):
            unreadable = value if isinstance(value, DataError) else None
            yield SinkRecord(self._topic, partition, offset, None if unreadable else value, self.schema), unreadable


def form_of(columns: pa.Schema, topic: str | None) -> RecordForm | ValueForm:
    """Return the form of rows. Raises DataError: no topic, or a column that has no Connect form."""
    texts = [field.name for field in columns if any(is_text(field.type) for is_text in _TEXTS)]
    return RecordForm(columns, topic) if is_record_form(columns.names, texts) else ValueForm(columns, topic)
