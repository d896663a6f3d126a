"""Kafka -> file sink: one task, records of 100 bytes; ours and warm Java in turn, and a bare consume loop.

The rate counts from the first line that is in the file to the last. ``with_start`` counts from the create request. A
run is ``exact`` when the file is what was produced: same length, same SHA-256.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET, TARGET_OF_LIMIT = 1.5, 0.7
VALUE_BYTES = 100  # a line of the file has one more
RUN_LIMIT_S = 300.0


@dataclass(frozen=True)
class Given:
    """The topic, and the file that it makes."""

    topic: str
    records: int
    sha256: str


def run(lab: Lab, short: bool) -> Result:
    """Have both fill a file, and a bare consumer none."""
    given = fill_topic(lab, 20_000 if short else 3_000_000)
    target = f">={TARGET},limit>={TARGET_OF_LIMIT}"
    result = Result("sink", "records/s of one FileStreamSink task", "records_per_s", True, target)

    def limit() -> Run:
        return Run("limit", _consume(lab, given))

    take_turns(result, lab, short, lambda who, worker: move(lab, who, worker, given), limit)
    fast = (result.ratio or 0) >= TARGET and (result.limit_share or 0) >= TARGET_OF_LIMIT
    result.met = fast and all_exact(result)
    note_speed(result, lab)
    lab.delete_topic(given.topic)
    return result


def fill_topic(lab: Lab, records: int) -> Given:
    """Produce values of 100 bytes into a new topic."""
    topic = lab.fresh("filled")
    lab.create_topic(topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 5})
    digest, filler = hashlib.sha256(), b"x" * (VALUE_BYTES - 10)
    for number in range(records):
        value = b"%010d%b" % (number, filler)
        digest.update(value + b"\n")
        try:
            producer.produce(topic, value, partition=0)
        except BufferError:
            producer.poll(0.5)
            producer.produce(topic, value, partition=0)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return Given(topic, records, digest.hexdigest())


def move(lab: Lab, who: str, worker: WorkerProcess, given: Given, more: Mapping[str, str] | None = None) -> Run:
    """Have a worker's FileStreamSink write the topic, with ``more`` settings; the connector is deleted afterwards."""
    name = lab.fresh("copy")
    file = lab.folder / f"{name}.txt"
    measured = Run(who, {})
    config = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(file), "topics": given.topic}
    with CpuMeter(worker.processes) as meter:
        begun = time.monotonic()
        worker.rest.create(name, {**config, **(more or {})})
        measured.figures = _watch(file, given.records, begun)
    measured.figures["cpu_s"] = round(meter.used_s, 1)
    worker.rest.delete(name)
    measured.figures["exact"] = _sha256(file) == given.sha256
    file.unlink(missing_ok=True)
    return measured


def _watch(file: Path, records: int, begun: float) -> dict[str, float]:
    """Look at the file's length until it holds every line; the looks are 20 ms apart."""
    first_at, first_count, count = begun, 0, 0
    while count < records and time.monotonic() - begun < RUN_LIMIT_S:
        count = file.stat().st_size // (VALUE_BYTES + 1) if file.exists() else 0
        if count and not first_count:
            first_at, first_count = time.monotonic(), count
        time.sleep(0.02)
    return _figures(begun, first_at, first_count, count)


def _figures(begun: float, first_at: float, first_count: int, count: int) -> dict[str, float]:
    now = time.monotonic()
    whole_s = now - begun
    flow_s, moved = (now - first_at, count - first_count) if first_count < count else (whole_s, count)
    return {
        "records_per_s": round(moved / flow_s),
        "with_start": round(count / whole_s),
        "first_s": round(first_at - begun, 2),
        "whole_s": round(whole_s, 2),
    }


def _sha256(file: Path) -> str:
    if not file.exists():
        return ""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _consume(lab: Lab, given: Given) -> dict[str, float]:
    """Take the topic's values as fast as the client can: no engine, no file."""
    consumer = Consumer(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "group.id": lab.fresh("limit"),
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4 << 20,
            "fetch.queue.backoff.ms": 5,  # the default second starves a consumer that reads as fast as it can
        }
    )
    digest, count, first_at, first_count = hashlib.sha256(), 0, 0.0, 0
    begun = time.monotonic()
    kept: list[list[bytes]] = []
    consumer.assign([TopicPartition(given.topic, 0, OFFSET_BEGINNING)])
    while count < given.records and time.monotonic() - begun < RUN_LIMIT_S:
        values = [message.value() for message in consumer.consume(2_000, timeout=0.1) if message.error() is None]
        kept.append(values)
        count += len(values)
        if count and not first_count:
            first_at, first_count = time.monotonic(), count
    figures = _figures(begun, first_at, first_count, count)
    consumer.close()
    for values in kept:
        digest.update(b"".join(value + b"\n" for value in values))
    return {**figures, "exact": digest.hexdigest() == given.sha256}
