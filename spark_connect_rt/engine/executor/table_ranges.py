"""Reads bounded ranges of topic partitions on executors and decodes them into a table's columns.

Owns: range -> record batches of one table schema. Runs inside ``mapInArrow``; imports nothing of the driver side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.executor.table_rows import TableDecoder
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import Errant

POLL_RECORDS = 50_000
POLL_TIMEOUT_MS = 1_000
DEAD_LETTERS_TIMEOUT_MS = 60_000
EMPTY_POLLS_LIMIT = 60  # a minute without one record of a range that must hold some


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` (included) to ``end`` (excluded) of one topic partition."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RangeJob:
    """What one executor partition needs to read its ranges. Pickles; secrets unresolved."""

    clients: str  # "package.module:factory" of ExecutorClients
    consumer_config: Mapping[str, str]
    connector_config: StoredConfig
    worker_config: Mapping[str, str]
    ranges: tuple[OffsetRange, ...]
    schema: pa.Schema = field(repr=False)
    task: ConnectorTaskId
    dead_letter_producer: Mapping[str, str]


def read_ranges(
    job: RangeJob, ranges: Sequence[OffsetRange], count: Callable[[int, int], None]
) -> Iterator[pa.RecordBatch]:
    """Yield the decoded rows of ``ranges``; ``count(records, skipped)`` is called for every batch.

    Errant records are in the dead letter queue before the rows behind them are yielded; when the batch is written
    again (a lost executor), they are there again.
    Raises RetriableError when a range's records stop coming for a minute, ConnectError when the queue refuses.
    """
    clients = load_clients(job.clients)
    connector_config = clients.resolve(job.connector_config, job.worker_config)
    decoder = TableDecoder.from_config(connector_config, job.worker_config, clients.plugin, job.schema)
    producer_config = clients.resolve(job.dead_letter_producer, job.worker_config)
    reports = ErrantReports(job.task, ReportSettings.from_config(connector_config), clients, producer_config)
    consumer = clients.consumer(clients.resolve(job.consumer_config, job.worker_config))
    try:
        for raw in _raw_batches(consumer, ranges):
            try:
                decoded = decoder.decode(raw)
            finally:
                _tell(reports, decoder.take_errants())
            count(raw.num_rows, decoded.skipped)
            if decoded.rows.num_rows:
                yield decoded.rows
    finally:
        consumer.close()
        reports.close(0)


def _tell(reports: ErrantReports, errants: Sequence[Errant]) -> None:
    if errants:
        reports.tell(errants)
        if not reports.flush(DEAD_LETTERS_TIMEOUT_MS):
            raise RetriableError(f"dead letter queue {reports.settings.topic}: no acknowledgement in time")


def _raw_batches(consumer: Any, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    for range_ in ranges:
        consumer.assign({range_.partition: range_.start})
        yield from _one_range(consumer, range_)
        consumer.unassign([range_.partition])


def _one_range(consumer: Any, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    position, empty_polls = wanted.start, 0
    while position < wanted.end:
        batch = consumer.poll(POLL_RECORDS, POLL_TIMEOUT_MS)
        if batch is None or batch.num_rows == 0:
            empty_polls += 1
            if consumer.position(wanted.partition) >= wanted.end:
                return  # the rest of the range is transaction markers or compacted away
            if empty_polls >= EMPTY_POLLS_LIMIT:
                raise RetriableError(
                    f"{wanted.partition}: no record between offsets {position} and {wanted.end} for "
                    f"{EMPTY_POLLS_LIMIT} s. Is the partition's leader up?"
                )
            continue
        empty_polls = 0
        offsets = batch.column("offset")
        position = offsets[-1].as_py() + 1
        yield batch if position <= wanted.end else batch.filter(pc.less(offsets, wanted.end))
