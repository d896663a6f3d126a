"""Latency: a line appended to a file, one a second -> readable by a consumer of the topic.

The pauses between lines vary around a second, so that no side's polling phase is met again and again.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer

from bench.lab import Lab, TopicTruth
from bench.report import Result, Run
from tests.support.worker_process import WorkerProcess

TARGET_MS = 100.0
LINE_LIMIT_S = 30.0


def run(lab: Lab, short: bool) -> Result:
    """Blocks of lines in turn: Java, ours, a bare producer."""
    lines, blocks, pause_s = (3, 1, 0.2) if short else (40, 3, 1.0)
    result = Result("latency", "append -> consumer, ms", "p50_ms", False, "p50<100ms")
    chance = random.Random(1)
    probes: list[tuple[str, Probe]] = [(who, FileProbe(lab, worker)) for who, worker in lab.sides()] + [
        ("limit", ProducerProbe(lab))
    ]
    for _ in range(blocks):
        for who, probe in probes:
            found = [probe.once(pause_s * chance.uniform(0.5, 1.5)) for _ in range(lines)]
            result.runs.append(Run(who, {**_percentiles(found), "all_ms": [round(took_ms, 1) for took_ms in found]}))
    for _, probe in probes:
        probe.close()
    result.conclude()
    java = result.values("java")
    result.control = {"worst_to_best": round(max(java) / min(java), 3)}
    _fold_blocks(result)
    result.met = result.ours is not None and result.ours < TARGET_MS
    result.notes = ["limit is a bare producer with linger 0, no file", *lab.complaints]
    return result


def _percentiles(found_ms: list[float]) -> dict[str, float]:
    ordered = sorted(found_ms)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(p99, 1),
        "min_ms": round(ordered[0], 1),
        "max_ms": round(ordered[-1], 1),
    }


def _fold_blocks(result: Result) -> None:
    """One line a side over all its blocks, from every single latency; the blocks stay in the JSON."""
    for who in ("java", "ours", "limit"):
        every = [ms for run in result.runs if run.who == who for ms in run.figures["all_ms"]]
        if every:
            result.notes.append(f"{who} over all blocks: {_percentiles(every)}, {len(every)} lines")


class Probe:
    """One way from a line to a consumer."""

    def __init__(self, lab: Lab) -> None:
        self._topic = lab.fresh("seconds")
        lab.create_topic(self._topic)
        self._truth = TopicTruth(lab.bootstrap_servers, self._topic)
        self._number = 0
        self._consumer: Consumer | None = None

    def send(self, line: str) -> None:
        """Start one line on its way."""
        raise NotImplementedError

    def once(self, pause_s: float) -> float:
        """Pause, send one line, return the ms until the consumer has it. Raises TimeoutError."""
        time.sleep(pause_s)  # the pace of the benchmark
        self._number += 1
        line = f"line {self._number}"
        return self._timed(line, self.send)

    def close(self) -> None:
        """Close clients."""
        self._truth.close()

    def _timed(self, line: str, send: Callable[[str], None]) -> float:
        consumer = self._consumer or self._truth.follow()
        self._consumer = consumer
        begun = time.monotonic()
        send(line)
        while time.monotonic() - begun < LINE_LIMIT_S:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None and message.value() == line.encode():
                return (time.monotonic() - begun) * 1000
        raise TimeoutError(f"{line!r} did not come out of {self._topic} in {LINE_LIMIT_S:.0f} s")


class FileProbe(Probe):
    """Through a file and a worker's FileStreamSource."""

    def __init__(self, lab: Lab, worker: WorkerProcess) -> None:
        super().__init__(lab)
        name = lab.fresh("tail")
        file = worker.directory / f"{name}.txt"
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        worker.rest.create(
            name,
            {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": self._topic},
        )
        worker.rest.await_states(name, "RUNNING", ["RUNNING"])
        self._timed("warm-up", self.send)

    def send(self, line: str) -> None:
        """Append the line in one write."""
        os.write(self._descriptor, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file too."""
        os.close(self._descriptor)
        super().close()


class ProducerProbe(Probe):
    """Straight to the broker."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self._producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 0})
        self._timed("warm-up", self.send)

    def send(self, line: str) -> None:
        """Produce the line."""
        self._producer.produce(self._topic, line)
        self._producer.poll(0)

    def close(self) -> None:
        """Wait for the last acknowledgement."""
        self._producer.flush()
        super().close()
