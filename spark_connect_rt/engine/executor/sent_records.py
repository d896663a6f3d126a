"""What a source task returned and no delivery report came for yet, for tasks that want one for each record. Pure.

A poll becomes one or more BATCH rows; when the last of them is durable, each of its records is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from spark_connect_rt.api.records import Polled, RecordMetadata, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.kafka.executor_clients import DeliveryReports

RecordReport = tuple[SourceRecord, RecordMetadata | None]


@dataclass(frozen=True, slots=True)
class _Sent:
    """One BATCH row: ``rows`` Kafka records, of which the first ``records`` are the task's, the others dead letters."""

    records: int
    rows: int
    ends: Sequence[tuple[Polled, int]] | None  # of a poll's last: what it returned, rows of each


class SentRecords:
    """Of one task, in order. The task's thread."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a poll that is durable in part

    def add(
        self,
        polled: Sequence[Polled],
        rows_of_each: Sequence[int],
        batches: Sequence[tuple[int, int]],
    ) -> None:
        """Remember a poll.

        Args:
            rows_of_each: how many records of the topic each piece became: of a SourceRecord 1 or, left out, 0.
            batches: (the task's records, all rows) of each BATCH row that follows.
        """
        pairs = list(zip(polled, rows_of_each, strict=True))
        for index, (records, rows) in enumerate(batches, 1):
            self._sent.append(_Sent(records, rows, pairs if index == len(batches) else None))

    def durable(self, batches: int, metadata: Iterable[RecordMetadata | None]) -> Iterator[RecordReport]:
        """Yield the reports that are due now that so many more BATCH rows are durable.

        Args:
            metadata: of each Kafka record of these rows, in order.
        """
        places = iter(metadata)
        for _ in range(min(batches, len(self._sent))):
            sent = self._sent.popleft()
            self._places.extend(list(islice(places, sent.rows))[: sent.records])
            if sent.ends is not None:
                yield from self._record_reports(sent.ends)

    def _record_reports(self, ends: Sequence[tuple[Polled, int]]) -> Iterator[RecordReport]:
        for piece, rows in ends:
            found = [self._places.popleft() for _ in range(min(rows, len(self._places)))]
            if isinstance(piece, SourceRecord):
                yield piece, found[0] if found else None
        self._places.clear()


def wants_commits(task_class: type[SourceTask]) -> bool:
    """Tell whether the task has a hook to be called when batches are durable."""
    return task_class.commit is not SourceTask.commit or delivery_reports_of(task_class) is not DeliveryReports.NOTHING


def wants_offsets(task_class: type[SourceTask]) -> bool:
    """Tell whether the task wants to know where its records went."""
    return task_class.commit_offsets is not SourceTask.commit_offsets


def delivery_reports_of(task_class: type[SourceTask]) -> DeliveryReports:
    """Return which delivery reports the task wants."""
    if task_class.commit_record is not SourceTask.commit_record:
        return DeliveryReports.RECORDS
    return DeliveryReports.OFFSETS if wants_offsets(task_class) else DeliveryReports.NOTHING
