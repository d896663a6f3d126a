"""Reading a long topic for the last record of each key: raw, in C loops, from a snapshot on where there is one.

Owns the records that the reader of ``compacted_log`` gathers while it loads, and the snapshot afterwards. Only for
topics whose records mean nothing together (offsets); the config topic is an order of events and is read record by
record. One thread at a time: ``begin`` by the thread that starts the log, all else by the log's reader.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.checked_lines import checksum
from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.logs.bulk_read_process import SHARE_FROM_COUNT
from spark_connect_rt.kafka.logs.compaction import Latest
from spark_connect_rt.kafka.lost_brokers import CallWatch, warn_replaced
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.log_snapshot import LogCache, LogFacts, LogSnapshot, ReadPosition

# Messages live for one batch. So many stay in the processor's caches, and below the garbage collector's threshold:
# 10,000 at a time cost half as much again (CPU, 2,000,000 records).
LOAD_BATCH_COUNT = 500
LOAD_WAIT_S = 0.02  # for a batch to be full; the end of the topic is noticed so much later
WORTH_SAVING_COUNT = 10_000  # records read since the last snapshot
WORTH_BULK_COUNT = 20_000  # records left to read: the connections it takes cost some 20 ms
SAVE_EVERY_MS = 600_000  # when there is anything new at all: a killed worker reads no more than this again

_Place = tuple[int, bytes | None]
_NEW_RECORD = partial(tuple.__new__, LogRecord)


def to_records(messages: Sequence[Any]) -> list[LogRecord]:
    """Return the messages' records; C loops only, since a start may read millions."""
    columns = zip(
        map(Message.partition, messages),
        map(Message.offset, messages),
        map(Message.key, messages),
        map(Message.value, messages),
        [at[1] for at in map(Message.timestamp, messages)],
        strict=True,
    )
    return list(map(_NEW_RECORD, columns))


class LatestLoad:
    """The last record of each key of one topic."""

    def __init__(
        self,
        cache: LogCache | None = None,
        bulk_from: int = WORTH_BULK_COUNT,
        share_from: int = SHARE_FROM_COUNT,
    ) -> None:
        """``cache``: where the snapshot is kept, None: nowhere; so many records are worth a read in whole batches.

        So many more each a process.
        """
        self.bulk_from, self.share_from = bulk_from, share_from
        self._cache = cache
        self._facts: LogFacts | None = None
        # Partition, key -> message, or record of the snapshot or after the load. A key may be in several partitions.
        self._latest: dict[_Place, Any] = {}
        self._last: dict[int, Any] = {}  # partition -> the last message or record seen
        self._marks: dict[int, ReadPosition] = {}  # where a partition stood before this start read anything of it
        self._unproven: dict[int, ReadPosition] = {}
        self._unsaved_count = 0
        self._saved_ms = 0

    @property
    def wants_facts(self) -> bool:
        """Return whether ``begin`` needs more of the facts than beginning and end."""
        return self._cache is not None

    def begin(self, facts: LogFacts) -> dict[int, int]:
        """Return where to read each partition from."""
        self._facts = facts
        snapshot = self._cache.load(facts) if self._cache is not None else None
        if snapshot is None:
            self._marks = {number: ReadPosition(at) for number, at in facts.beginning.items()}
        else:
            self._marks = dict(snapshot.bookmarks)
            self._latest = {(record[0], record[2]): LogRecord(*record) for record in snapshot.records}
            self._unproven = {n: mark for n, mark in self._marks.items() if mark.last_offset is not None}
        return {number: mark.resume_at for number, mark in self._marks.items()}

    def take(self, messages: Sequence[Any], last: Mapping[int, Any]) -> bool:
        """Gather messages, ``last`` being the last of each partition.

        Return False when they show that the snapshot was of another history: everything must be read again.
        """
        if self._unproven and not self._prove(messages):
            return False
        places = zip(map(Message.partition, messages), map(Message.key, messages), strict=True)
        self._latest.update(zip(places, messages, strict=True))
        self._last.update(last)
        self._unsaved_count += len(messages)
        return True

    def take_latest(self, partition: int, latest: Latest) -> bool:
        """Gather the last record of each key of many at once; see ``take``."""
        if latest.first is None or latest.last is None:
            return True
        if self._unproven and not self._prove([latest.first]):
            return False
        self._latest.update(((partition, record.key), record) for record in latest.records)
        self._last[partition] = latest.last
        self._unsaved_count += latest.next_offset - latest.first.offset
        return True

    def restart(self) -> dict[int, int]:
        """Forget the snapshot; return where to read each partition from."""
        assert self._facts is not None
        if self._cache is not None:
            self._cache.discard(self._facts, "the log holds other records than before")
        self._latest, self._last, self._unproven, self._unsaved_count = {}, {}, {}, 0
        self._marks = {number: ReadPosition(at) for number, at in self._facts.beginning.items()}
        return dict(self._facts.beginning)

    def finish(self) -> list[LogRecord]:
        """Return the last record of each key in each partition, tombstones included, in the order they were written."""
        found = list(self._latest.values())
        kept = [record for record in found if isinstance(record, LogRecord)]
        records = kept + to_records([message for message in found if not isinstance(message, LogRecord)])
        # A key, or two spellings of one source partition, may lie in two partitions: only time orders those.
        records.sort(key=lambda record: (record.timestamp_ms, record.partition, record.offset))
        self._latest = {} if self._cache is None else _kept(records)
        if self._cache is not None and self._unsaved_count >= WORTH_SAVING_COUNT:
            self.save()
        return records

    def follow(self, records: Sequence[LogRecord]) -> None:
        """Keep up with what is read after the load."""
        if self._cache is None:
            return
        for record in records:
            self._latest[record.partition, record.key] = record
            if record.value is None and not self._is_elsewhere(record):
                del self._latest[record.partition, record.key]
            self._last[record.partition] = record
        self._unsaved_count += len(records)
        if self._cache.now_ms() - self._saved_ms >= SAVE_EVERY_MS:
            self.save()

    def grow(self, beginning: Mapping[int, int]) -> None:
        """Take that partitions were added, and where each begins. Only after ``finish``."""
        for number, at in beginning.items():
            self._marks.setdefault(number, ReadPosition(at))

    def _is_elsewhere(self, record: LogRecord) -> bool:
        return any((place, record.key) in self._latest for place in self._marks if place != record.partition)

    def save(self) -> None:
        """Write the snapshot, if anything was read since the last one. Only after ``finish``."""
        if self._cache is None or self._facts is None or not self._unsaved_count:
            return
        facts, now_ms = self._facts, self._cache.now_ms()
        marks = {**self._marks, **{number: _bookmark(last) for number, last in self._last.items()}}
        records = tuple(self._latest.values())
        snapshot = LogSnapshot(
            facts.cluster_id, facts.topic, facts.topic_id, now_ms, marks, records, facts.committed_only
        )
        self._cache.save(facts, snapshot)
        self._unsaved_count, self._saved_ms = 0, now_ms

    def _prove(self, messages: Sequence[Any]) -> bool:
        """Compare the first record of each partition with the snapshot's last; a later one: that was compacted away."""
        for message in messages:
            seen = _record_of(message)
            mark = self._unproven.pop(seen.partition, None)
            if mark is not None and seen.offset == mark.last_offset and checksum(seen) != mark.last_checksum:
                return False
            if not self._unproven:
                break
        return True


def _record_of(record: Any) -> LogRecord:
    return record if isinstance(record, LogRecord) else to_records([record])[0]


def _bookmark(last: Any) -> ReadPosition:
    record = _record_of(last)
    return ReadPosition(record.offset + 1, record.offset, checksum(record))


def _kept(records: Sequence[LogRecord]) -> dict[_Place, Any]:
    """Return what a snapshot needs: a tombstone only where the key is in another partition, too."""
    counts = Counter(record.key for record in records) if len({record.key for record in records}) < len(records) else {}
    return {
        (record.partition, record.key): record
        for record in records
        if record.value is not None or counts.get(record.key, 1) > 1
    }


# Looks whether only ends of transactions are left before a topic's end: librdkafka's consumers pass them silently.
#
# A consumer that waits for more says that it is at the end when the broker answers its fetch, which is held for half a
# second; Java's consumers know at once. So who waits for the end of a log asks a second consumer, which fetches only
# then and whose fetches are not held.


LIMIT_S = 1.0
_STEP_S = 0.05
_SETTINGS = {"enable.partition.eof": True, "fetch.wait.max.ms": 1, "fetch.queue.backoff.ms": 1}

log = logging.getLogger(__name__)


class EndProbe:
    """Of one topic. Any thread; one asks at a time."""

    def __init__(self, topic: str, consumer: Mapping[str, str]) -> None:
        """``consumer``: the properties of the log's own, which say what it sees."""
        self._topic = topic
        self._properties = {"group.id": topic, **consumer}
        self._lock = threading.Lock()
        self._consumer: Any = None
        self._watch = CallWatch()
        self._closed = False

    def silent_until(self, positions: Mapping[int, int], limit_s: float) -> dict[int, int]:
        """Return partition -> offset before which a reader at its position will find nothing.

        Partitions of which that is not known, or that hold a record there, are left out; so are all when the broker
        does not answer in time.
        """
        end_s = time.monotonic() + min(limit_s, LIMIT_S)
        with self._lock:
            if self._closed:
                return {}
            begun_s = self._watch.now()
            try:
                found = self._asked(positions, end_s)
            except KafkaException as error:
                log.debug("topic %s: waiting for its end: %s", self._topic, error)
                found = {}
            if found:
                self._watch.succeeded()
            elif self._consumer is not None and self._watch.is_lost(self._consumer, begun_s):
                self._drop_lost()
            return found

    def _asked(self, positions: Mapping[int, int], end_s: float) -> dict[int, int]:
        if self._consumer is None:
            self._consumer = make_consumer(self._properties, _SETTINGS)
        found, open_ones = dict[int, int](), set(positions)
        self._consumer.assign([_ClientPartition(self._topic, *position) for position in positions.items()])
        try:
            while open_ones and not self._closed and time.monotonic() < end_s:
                message = self._consumer.poll(_STEP_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    open_ones.discard(message.partition())
                elif error.code() == KafkaError._PARTITION_EOF:
                    if message.partition() in open_ones:
                        found[message.partition()] = message.offset()
                    open_ones.discard(message.partition())
            return found
        finally:
            self._consumer.unassign()

    def _drop_lost(self) -> None:
        """Have the next question make a new consumer."""
        warn_replaced(f"the consumer for the end of topic {self._topic}")
        lost, self._consumer = self._consumer, None
        lost.close()

    def close(self) -> None:
        """End it. May be called twice."""
        self._closed = True
        with self._lock, contextlib.suppress(KafkaException):
            if self._consumer is not None:
                self._consumer.close()
            self._consumer = None
