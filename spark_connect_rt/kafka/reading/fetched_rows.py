"""Record batches of one partition -> consume-form Arrow batches (records.pipeline.columns), by the cheaper way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.records.record_batches import pay_as_columns
from spark_connect_rt.kafka.records.record_rows import RecordRows
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC

if TYPE_CHECKING:
    from spark_connect_rt.kafka.records.record_columns import Records

Fetched = tuple[pa.RecordBatch | None, int]  # the rows and the offset to go on at behind them


def fetched_rows(
    partition: TopicPartition,
    position: int,
    batches: bytes,
    aborted: Iterable[tuple[int, int]] | None,
    check_crcs: bool = True,
) -> Iterator[Fetched]:
    """Yield the rows from ``position`` on, chunk by chunk; arguments and errors as of ``record_columns.records_of``.

    The last batch may be cut off. Key and headers are no columns where they are null in every row.
    """
    if not pay_as_columns(batches):
        found = RecordRows(position, batches, aborted, check_crcs)
        rows = list(found)
        if found.behind > position:
            yield (_of_rows(partition, rows) if rows else None), found.behind
        return
    # Imported when needed: a task of few records does without this library.
    from spark_connect_rt.kafka.records.record_columns import records_of

    for records, behind in records_of(position, batches, aborted, check_crcs):
        yield (_of_columns(partition, records) if records and len(records.offsets) else None), behind


def _of_columns(partition: TopicPartition, records: Records) -> pa.RecordBatch:
    return _batch(
        partition,
        {
            "offset": pa.array(records.offsets),
            "timestamp": pa.array(records.timestamps),
            "key": records.key_column(),
            "value": records.value_column(),
            "headers": records.headers_column(),
        },
    )


def _of_rows(partition: TopicPartition, rows: list[Any]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in rows] for name in ("offset", "timestamp", "key", "value")
    }
    try:
        headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    except UnicodeDecodeError as error:
        raise DataError(f"a header name of {partition} is not valid UTF-8") from error
    columns["headers"] = headers
    return _batch(partition, {name: pa.array(values, CONSUME_FIELDS[name]) for name, values in columns.items()})


def _batch(partition: TopicPartition, columns: dict[str, pa.Array | None]) -> pa.RecordBatch:
    kept = {
        name: column
        for name, column in columns.items()
        if column is not None and (name not in ("key", "headers") or column.null_count < len(column))
    }
    metadata = {TOPIC: partition.topic.encode(), PARTITION: str(partition.partition).encode()}
    schema = pa.schema([pa.field(name, CONSUME_FIELDS[name]) for name in kept], metadata=metadata)
    return pa.RecordBatch.from_arrays(list(kept.values()), schema=schema)


def as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several partitions as one batch; topic and partition are columns where they differ."""
    if len(batches) == 1:
        return batches[0]
    topics = {batch.schema.metadata[TOPIC] for batch in batches}
    places = {(batch.schema.metadata[TOPIC], batch.schema.metadata[PARTITION]) for batch in batches}
    metadata = {
        **({TOPIC: topics.pop()} if len(topics) == 1 else {}),
        **({PARTITION: next(iter(places))[1]} if len(places) == 1 else {}),
    }
    tables = []
    for batch in batches:
        for name, place in (("topic", TOPIC), ("partition", PARTITION)):
            if place not in metadata:
                kind = CONSUME_FIELDS[name]
                said = pa.scalar(batch.schema.metadata[place].decode()).cast(kind)
                batch = batch.append_column(name, pa.repeat(said, batch.num_rows))
        tables.append(pa.Table.from_batches([batch.replace_schema_metadata(None)]))
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    return whole.replace_schema_metadata(metadata).to_batches()[0]
