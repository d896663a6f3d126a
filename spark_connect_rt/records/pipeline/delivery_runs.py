"""Where acknowledged records went, as runs of neighbouring offsets: a few numbers for a whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spark_connect_rt.api.records import Delivered, RecordMetadata

MetadataRun = tuple[str, int, int, int | None, int]
"""(topic, partition, first offset, timestamp of each in ms, records). Unreadable records have the offset -1."""

UNREADABLE = ("", -1, -1, None)


class DeliveryRuns:
    """Takes records as they are acknowledged; keeps the order within each partition. One thread."""

    def __init__(self) -> None:
        """Start without any delivered record."""
        self._runs: dict[tuple[str, int], list[list[int]]] = {}  # -> [first offset, offset after the last]

    def note(self, topic: str, partition: int, offset: int, records: int = 1) -> None:
        """Add a record, or several from this offset on."""
        runs = self._runs.get((topic, partition))
        if runs is None:
            self._runs[topic, partition] = [[offset, offset + records]]
        elif runs[-1][1] == offset:
            runs[-1][1] = offset + records
        else:
            runs.append([offset, offset + records])

    def take(self) -> list[Delivered]:
        """Return all there are and forget them."""
        taken, self._runs = self._runs, {}
        return [Delivered(*place, first, end - first) for place, runs in taken.items() for first, end in runs]


def metadata_runs(metadata: Iterable[RecordMetadata | None]) -> list[MetadataRun]:
    """Return the metadata of records, in their order, as runs. None: the record is not readable."""
    runs: list[MetadataRun] = []
    for record_metadata in metadata:
        topic, partition, offset, timestamp_ms = UNREADABLE if record_metadata is None else record_metadata
        if runs:
            *place, first, stamp, count = runs[-1]
            follows = first if record_metadata is None else first + count
            if (place, follows, stamp) == ([topic, partition], offset, timestamp_ms):
                runs[-1] = (topic, partition, first, stamp, count + 1)
                continue
        runs.append((topic, partition, offset, timestamp_ms, 1))
    return runs


def metadata_of(runs: Iterable[Sequence[object]]) -> Iterator[RecordMetadata | None]:
    """Yield the metadata from which ``metadata_runs`` made these runs."""
    for topic, partition, first, timestamp_ms, count in runs:
        for number in range(count):  # type: ignore[call-overload]
            yield None if first == -1 else RecordMetadata(topic, partition, first + number, timestamp_ms)  # type: ignore
