"""Many small file sources at once, for the benchmarks that need tasks rather than records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bench.lab import Lab, TopicTruth
from tests.support.worker_process import WorkerProcess

LIMIT_S = 180.0


def create_sources(
    lab: Lab, worker: WorkerProcess, count: int, lines: int, more: Mapping[str, str] | None = None
) -> list[str]:
    """Create ``count`` connectors of one task, each with its file of ``lines``; return when all is in Kafka."""
    topic = lab.fresh("many")
    lab.create_topic(topic)
    names = []
    for _ in range(count):
        name = lab.fresh("many")
        file = worker.directory / f"{name}.txt"
        write_lines(file, lines)
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
        worker.rest.create(name, {**config, **(more or {})})
        names.append(name)
    await_records(lab, topic, count * lines)
    for name in names:
        worker.rest.await_states(name, "RUNNING", ["RUNNING"], LIMIT_S)
    return names


def write_lines(file: Path, lines: int) -> None:
    """Write lines of 100 bytes."""
    file.write_text("".join(f"{number:0100d}\n" for number in range(lines)), encoding="ascii")


def await_records(lab: Lab, topic: str, records: int) -> None:
    """Wait until a topic of one partition holds at least so many records."""
    truth = TopicTruth(lab.bootstrap_servers, topic)
    deadline = time.monotonic() + LIMIT_S
    try:
        while (seen := truth.end()) < records:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} holds {seen} of {records} records after {LIMIT_S:.0f} s")
            time.sleep(0.05)
    finally:
        truth.close()
