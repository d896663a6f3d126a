"""File source -> Kafka: one task, lines of 100 bytes; ours and warm Java in turn, and a bare produce loop.

The rate counts from the first record that is visible at the topic's end to the last. ``with_start`` counts from
the create request. A run is ``exact`` when the topic holds the file: same count, same SHA-256.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET, TARGET_OF_LIMIT = 2.0, 0.7
LINE_BYTES = 100  # without the newline
RUN_LIMIT_S = 300.0


@dataclass(frozen=True)
class Input:
    """The file and what a topic must hold afterwards."""

    file: Path
    lines: int
    sha256: str


def run(lab: Lab, short: bool) -> Result:
    """Have both move the file, and a bare producer."""
    given = write_input(lab.folder / "lines.txt", 20_000 if short else 3_000_000)
    target = f">={TARGET},limit>={TARGET_OF_LIMIT}"
    result = Result("source", "records/s of one FileStreamSource task", "records_per_s", True, target)

    def limit() -> Run:
        return _measure(lab, "limit", given, lambda topic: _produce(lab, topic, given))

    take_turns(result, lab, short, lambda who, worker: move(lab, who, worker, given), limit)
    fast = (result.ratio or 0) >= TARGET and (result.limit_share or 0) >= TARGET_OF_LIMIT
    result.met = fast and all_exact(result)
    note_speed(result, lab)
    return result


def write_input(file: Path, lines: int) -> Input:
    digest = hashlib.sha256()
    filler = "x" * (LINE_BYTES - 10)
    with file.open("wb") as handle:
        for start in range(0, lines, 10_000):
            numbers = range(start, min(start + 10_000, lines))
            block = "".join(f"{number:010d}{filler}\n" for number in numbers).encode()
            handle.write(block)
            digest.update(block)
    return Input(file, lines, digest.hexdigest())


def move(lab: Lab, who: str, worker: WorkerProcess, given: Input, more: Mapping[str, str] | None = None) -> Run:
    """Have a worker's FileStreamSource read the file, with ``more`` settings; the connector is deleted afterwards."""
    name = lab.fresh("copy")

    def begin(topic: str) -> None:
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(given.file), "topic": topic}
        worker.rest.create(name, {**config, **(more or {})})

    with CpuMeter(worker.processes) as meter:
        found = _measure(lab, who, given, begin)
    found.figures["cpu_s"] = round(meter.used_s, 1)
    worker.rest.delete(name)
    return found


def _measure(lab: Lab, who: str, given: Input, begin: Callable[[str], None]) -> Run:
    topic = lab.fresh("lines")
    lab.create_topic(topic)
    truth = TopicTruth(lab.bootstrap_servers, topic)
    truth.end()
    measured = Run(who, {})
    begun = time.monotonic()
    begin(topic)
    measured.figures = watch(truth, given.lines, begun)
    count, sha256 = truth.digest()
    measured.figures["exact"] = (count, sha256) == (given.lines, given.sha256)
    truth.close()
    lab.delete_topic(topic)
    return measured


def watch(truth: TopicTruth, lines: int, begun: float) -> dict[str, float]:
    """Look at the topic's end until it holds every line; the looks are 20 ms apart, cheap and honest."""
    first_at, first_count, count = begun, 0, 0
    while count < lines and time.monotonic() - begun < RUN_LIMIT_S:
        count = truth.end()
        if count and not first_count:
            first_at, first_count = time.monotonic(), count
        time.sleep(0.02)
    now = time.monotonic()
    whole_s = now - begun
    flow_s = now - first_at if first_count < count else whole_s
    moved = count - first_count if first_count < count else count
    return {
        "records_per_s": round(moved / flow_s),
        "with_start": round(count / whole_s),
        "first_s": round(first_at - begun, 2),
        "whole_s": round(whole_s, 2),
    }


def _produce(lab: Lab, topic: str, given: Input) -> None:
    """Produce the file's lines as fast as the client can: no reader, no engine, acks=all."""
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    produce = producer.produce
    with given.file.open("rb") as handle:
        while lines := handle.readlines(4 << 20):
            for line in lines:
                try:
                    produce(topic, line[:-1])
                except BufferError:
                    producer.poll(0.5)
                    produce(topic, line[:-1])
            producer.poll(0)
    producer.flush()
