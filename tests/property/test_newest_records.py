"""An internal topic that others write to and that grows: readers agree, and the newest record of a key counts.

One key, several partitions. Our log writes, another client writes anywhere, partitions are added, and readers start
again. They read the partitions in any order, from the topic or from a snapshot, and always hold the last written value.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.kafka.logs.compaction import Latest
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.kafka.records.partitioning import partition_of_key
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.key_places import BY_KEY, KeyPlaces, Write
from spark_connect_rt.topics.log_snapshot import LogCache, LogFacts
from spark_connect_rt.topics.newest_records import NewestOfKey, in_time_order

EXAMPLES = 1_000 if "CONNECTRT_SCHEDULES" in os.environ else 60  # ./test.sh long sets it
KEY = b'["c",{"p":1}]'
TIMES = st.integers(0, 20)
VALUES = st.sampled_from([b"1", b"2", None])


@st.composite
def topics(draw: st.DrawFn) -> list[LogRecord]:
    """Return records of three partitions, each partition's in order, whose times may go back."""
    rows = draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([b"k", b"l"]), VALUES, TIMES), max_size=12))
    return [LogRecord(partition, number, key, value, at) for number, (partition, key, value, at) in enumerate(rows)]


def in_some_order(records: Sequence[LogRecord], seed: int) -> list[LogRecord]:
    """Return a reading of the partitions: each in its own order, between them by chance."""
    order = random.Random(seed)
    waiting = [[record for record in records if record.partition == number] for number in range(3)]
    found = []
    while any(waiting):
        found.append(order.choice([partition for partition in waiting if partition]).pop(0))
    return found


@settings(max_examples=EXAMPLES, deadline=None)
@given(topics(), st.integers(), st.integers())
def test_every_order_of_reading_the_partitions_ends_in_the_same_values(
    records: list[LogRecord], first: int, other: int
) -> None:
    def read(seed: int) -> dict[bytes | None, bytes | None]:
        return {record.key: record.value for record in NewestOfKey().take(in_some_order(records, seed))}

    assert read(first) == read(other)
    assert read(first) == {record.key: record.value for record in in_time_order(records)}


class Topic:
    """A broker's records of one key, and the state of our reader."""

    def __init__(self, cache: LogCache) -> None:
        self.cache = cache
        self.partitions = 1
        self.records: list[LogRecord] = []
        self.now_ms = 0
        self.wanted: bytes | None = None
        self.start(0)

    def write(self, write: Write) -> None:
        place = partition_of_key(write.key, self.partitions) if write.partition == BY_KEY else write.partition
        record = LogRecord(place, len(self.records), write.key, write.value, write.timestamp_ms or self.now_ms)
        self.records.append(record)
        self.take([record])

    def start(self, seed: int) -> None:
        """Read everything, as a worker that starts does; partitions in any order, most of it perhaps a snapshot's."""
        self.value: bytes | None = None
        self.places = KeyPlaces(self.partitions, partition_of_key)

        def on_records(records: Sequence[LogRecord]) -> None:
            for record in records:
                self.value = record.value

        self.take = self.places.reading(on_records)
        ends = {number: len(self.records) for number in range(self.partitions)}
        load = LatestLoad(self.cache)
        begins = load.begin(LogFacts("c", "t", "id", dict.fromkeys(ends, 0), ends, 10**9))
        order = list(range(self.partitions))
        random.Random(seed).shuffle(order)
        for number in order:
            read = [kept for kept in self.records if kept.partition == number and kept.offset >= begins.get(number, 0)]
            if read:
                load.take_latest(number, Latest([read[-1]], read[0], read[-1], read[-1].offset + 1))
        self.take(load.finish())
        load.save()

    def live(self) -> list[int]:
        """Return the partitions whose last record of the key is not a tombstone."""
        last = {record.partition: record.value for record in self.records}
        return [number for number, value in last.items() if value is not None]


STEPS = st.lists(
    st.tuples(st.sampled_from(["ours", "ours", "other", "grow", "start"]), VALUES, st.integers(0, 5)), max_size=14
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
def test_last_written_value_counts_after_every_start(steps: list[tuple[str, bytes | None, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        topic = Topic(LogCache(Path(folder), lambda: 1_000))
        for kind, value, number in steps:
            topic.now_ms += 10
            if kind == "grow":
                topic.partitions += 1
                topic.start(number)
            elif kind == "start":
                topic.start(number)
            elif kind == "other":
                topic.write(Write(KEY, value, number % topic.partitions))
                topic.wanted = value
            else:
                for write in topic.places.writes([(KEY, value)]):
                    topic.write(write)
                topic.wanted = value
            assert topic.value == topic.wanted, kind
        topic.start(0)
        assert topic.value == topic.wanted
        for _ in range(2):  # the second one removes the newest record before the first
            topic.now_ms += 10
            for write in topic.places.writes([(KEY, b"9")]):
                topic.write(write)
        topic.start(1)
        assert topic.value == b"9"
        assert len(topic.live()) == 1
