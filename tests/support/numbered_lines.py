"""Numbered lines on their way: written to growing files, found again in topics and in a sink's file.

Ground truth only: the content of the topics, of the internal topics and of the disk; never a worker's own reports.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.kafka.lost_brokers import CallWatch
from spark_connect_rt.kafka.reading.offset_lookup import renew_metadata
from tests.support.consumed import consumed

NEVER_MS = 3_600_000


class Feeder:
    """Appends numbered lines to several files, each a line every ``every_s``, until stopped."""

    def __init__(self, folder: Path, count: int, every_s: float = 0.1) -> None:
        self.files = [folder / f"lines-{number}.txt" for number in range(count)]
        self.written = 0  # lines in each file
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Start the thread that writes lines."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more; every file now holds ``written`` lines."""
        self._stopped.set()
        self._thread.join(10)

    def _run(self) -> None:
        handles = [path.open("ab", buffering=0) for path in self.files]
        while not self._stopped.wait(self._every_s):
            for number, handle in enumerate(handles):
                handle.write(b"%d %08d\n" % (number, self.written))
            self.written += 1
        for handle in handles:
            handle.close()


@dataclass
class Arrivals:
    """The content of a topic with one partition: line numbers in order, and when the broker appended them."""

    numbers: list[int] = field(default_factory=list)
    appended_ms: list[int] = field(default_factory=list)


class Topics:
    """The topics ``prefix-0`` ..., read to their ends whenever asked."""

    def __init__(self, bootstrap_servers: str, names: Sequence[str]) -> None:
        self.arrivals = {name: Arrivals() for name in names}
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "truth",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._watch = CallWatch()
        self._next = dict.fromkeys(names, 0)  # the next offset to read
        self._consumer = self._assigned()

    def refresh(self, limit_s: float = 30.0) -> Mapping[str, Arrivals]:
        """Read everything appended by now."""
        deadline = time.monotonic() + limit_s
        missing = {name: self._end(name, deadline) for name in self.arrivals}
        while any(len(self.arrivals[name].numbers) < end for name, end in missing.items()):
            if time.monotonic() > deadline:
                raise AssertionError(f"the topics could not be read to {missing}")
            for message in consumed(self._consumer, 5_000, 0.2):
                if message.error() is None:
                    self._next[message.topic()] = message.offset() + 1
                    arrivals = self.arrivals[message.topic()]
                    arrivals.numbers.append(int(message.value().split()[1]))
                    arrivals.appended_ms.append(message.timestamp()[1])
        return self.arrivals

    def _end(self, name: str, deadline: float) -> int:
        while True:
            begun_s = time.monotonic()
            try:
                _, high = self._consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=5, cached=False)
                self._watch.succeeded()
                return int(high)
            except KafkaException:  # its leader is gone, or moves
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                if self._watch.is_lost(self._consumer, begun_s):
                    self._replace_consumer()
                renew_metadata(self._consumer, [name], 5)  # otherwise it may wait for a dead leader forever

    def _replace_consumer(self) -> None:
        """Read on with a new consumer: this one has lost all its brokers."""
        lost, self._consumer = self._consumer, self._assigned()
        lost.close()

    def _assigned(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(name, 0, offset) for name, offset in self._next.items()])
        return consumer

    def close(self) -> None:
        """Close the consumer of the topics."""
        self._consumer.close()


def create_topics(bootstrap_servers: str, names: Iterable[str], replication: int = 1) -> None:
    """Create topics of one partition that carry the broker's own time of appending."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    config = {"message.timestamp.type": "LogAppendTime"}
    wanted = [NewTopic(name, 1, replication, config=config) for name in names]
    for created in admin.create_topics(wanted).values():
        created.result(timeout=30)


def replays(numbers: Sequence[int]) -> int:
    """Return how often the line numbers go back: each time a task restarted before the last line read.

    Two instances of a task at once would give one for nearly every line.
    """
    return sum(after <= before for before, after in itertools.pairwise(numbers))


def missing(numbers: Iterable[int], written: int) -> list[int]:
    """Return the lines that are not there."""
    return sorted(set(range(written)) - set(numbers))


def duplicates(numbers: Sequence[int]) -> int:
    """Return how many records are there more than once, each counted once less."""
    return len(numbers) - len(set(numbers))


def outage(arrivals: Arrivals, since_ms: float) -> tuple[int, int]:
    """Return the longest silence after ``since_ms``: its length and when it ended, ms after that."""
    times = [since_ms, *(time for time in arrivals.appended_ms if time > since_ms)]
    pairs = [(after - before, after) for before, after in itertools.pairwise(times)]
    length, end = max(pairs, default=(NEVER_MS, since_ms + NEVER_MS))
    return int(length), int(end - since_ms)


def sink_numbers(path: Path, count: int) -> list[list[int]]:
    """Return the numbers of each file's lines in a sink's file. Fails on a torn line."""
    found: list[list[int]] = [[] for _ in range(count)]
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            match = re.fullmatch(rb"(\d) (\d{8})", line)
            assert match is not None, f"a torn line: {line!r}"
            found[int(match[1])].append(int(match[2]))
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of an internal topic."""

    key: bytes
    value: bytes | None
    at_ms: int


def read_all(bootstrap_servers: str, topic: str) -> list[Entry]:
    """Return every record, partition by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "truth-internal", "log_level": 0})
    found: dict[int, list[Entry]] = {}
    try:
        numbers = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        partitions = [TopicPartition(topic, number, 0) for number in numbers]
        left = {
            partition.partition: consumer.get_watermark_offsets(partition, timeout=20)[1] for partition in partitions
        }
        left = {number: end for number, end in left.items() if end}
        found = {number: [] for number in left}
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        deadline = time.monotonic() + 30
        while left:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumed(consumer, 1_000, 0.5):
                if message.error() is None:
                    number = message.partition()
                    found[number].append(Entry(message.key(), message.value(), message.timestamp()[1]))
                    if message.offset() + 1 >= left.get(number, 0):
                        left.pop(number, None)
    finally:
        consumer.close()
    return [entry for number in sorted(found) for entry in found[number]]


def offsets_that_went_back(records: Iterable[Entry]) -> list[str]:
    """Return a sentence for each source offset that was written after a later one: a zombie's commit."""
    last: dict[bytes, int] = {}
    wrong = []
    for record in records:
        position = int(orjson.loads(record.value)["position"]) if record.value else 0
        if position < last.get(record.key, 0):
            wrong.append(f"{record.key.decode()}: {last[record.key]} -> {position}")
        last[record.key] = position
    return wrong


def runs_at_once(records: Iterable[Entry], since_ms: float = 0, dead: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each task that a worker reported RUNNING before another one reported that it had stopped.

    Args:
        records: the statuses topic.
        since_ms: earlier records only show which worker has which task.
        dead: workers that could not report since then (killed, stopped, disconnected).
    """
    owners: dict[bytes, str] = {}
    wrong = []
    for record in records:
        if not record.key.startswith(b"status-task-") or record.value is None:
            continue
        status = orjson.loads(record.value)
        worker, runs = status["worker_id"], status["state"] in ("RUNNING", "PAUSED", "RESTARTING")
        owner = owners.get(record.key, worker)
        if runs and owner != worker and owner not in dead and record.at_ms >= since_ms:
            wrong.append(f"{record.key.decode()}: {worker} runs it, {owner} had not stopped it")
        if runs:
            owners[record.key] = worker
        elif owner == worker:
            owners.pop(record.key, None)
    return wrong


def spread(owners: Iterable[str], workers: Sequence[str]) -> tuple[int, ...]:
    """Return how many each worker has, fewest first."""
    counts = Counter(owners)
    return tuple(sorted(counts.get(worker, 0) for worker in workers))


def newest_generation(records: Iterable[Entry]) -> int:
    """Return the highest group generation that a status of the statuses topic was written in."""
    statuses = (
        orjson.loads(record.value)
        for record in records
        if record.value and record.key.startswith((b"status-task-", b"status-connector-"))
    )
    return max((int(status["generation"]) for status in statuses), default=0)
