"""Many small appends: CPU seconds a minute of eight source tasks whose files grow line by line, 500 lines/s in all.

Each side in turn has its files appended to, one write a line, and is charged what its processes used until the last
line is in the topic. What the CPU buys is beside it: how late the lines came, on average.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from confluent_kafka import Producer

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from tests.support.worker_process import WorkerProcess

LIMIT_S = 60.0
Write = Callable[[int, bytes], None]


def run(lab: Lab, short: bool) -> Result:
    """Windows in turn: Java, ours, a bare producer of the same lines."""
    tasks, rate, window_s, windows = (2, 100, 3.0, 1) if short else (8, 500, 30.0, 3)
    unit = f"CPU s a minute, {tasks} source tasks, {rate} lines/s in single appends"
    result = Result("trickle", unit, "cpu_s_per_min", False, "<=java")
    with contextlib.ExitStack() as stack:
        sides = [(who, stack.enter_context(_grown(lab, worker, tasks))) for who, worker in lab.sides()]
        for _, side in sides:
            side.once(rate, window_s / 3)  # warm-up
        for _ in range(windows):
            result.runs += [Run(who, side.once(rate, window_s)) for who, side in sides]
            result.runs.append(Run("limit", _produce(lab, rate, window_s)))
    result.conclude()
    java = result.values("java")
    result.control = {"worst_to_best": round(max(java) / min(java), 3)} if min(java, default=0) > 0 else {}
    result.met = result.ratio is not None and result.ratio <= 1.0
    result.note_ratio("lines are so late", result.ratio_of("late_ms"))
    result.notes += ["limit is a bare producer, one call a line; Java looks at a file once a second", *lab.complaints]
    return result


class _Grown:
    """The files of one worker's tasks, all read into one topic."""

    def __init__(self, worker: WorkerProcess, truth: TopicTruth, descriptors: list[int]) -> None:
        self._worker, self._truth, self._descriptors = worker, truth, descriptors
        self._written = 0

    def once(self, rate: int, window_s: float) -> dict[str, float]:
        """Append for so long; return what it cost and how late the lines were."""
        first = self._written
        with CpuMeter(self._worker.processes) as meter:
            late = _Lateness(self._truth, first)
            begun = time.monotonic()
            self._written += _drip(rate, window_s, lambda n, line: self._append(n, line), late.look)
            while late.arrived < self._written - first and time.monotonic() - begun < window_s + LIMIT_S:
                late.look(self._written - first)
                time.sleep(0.05)
            took_s = time.monotonic() - begun
        return {
            "cpu_s_per_min": round(60 * meter.used_s / took_s, 2),
            "lines": self._written - first,
            "late_ms": round(late.mean_ms(rate)),
            "exact": late.arrived == self._written - first,
        }

    def _append(self, number: int, line: bytes) -> None:
        os.write(self._descriptors[number % len(self._descriptors)], line + b"\n")


class _Lateness:
    """How many lines have arrived of those written, looked at now and then: their mean gap is the mean lateness."""

    def __init__(self, truth: TopicTruth, first: int) -> None:
        self._truth, self._first = truth, first
        self._gaps: list[int] = []
        self.arrived = 0

    def look(self, written: int) -> None:
        """Compare with the topic's end."""
        self.arrived = self._truth.end() - self._first
        self._gaps.append(written - self.arrived)

    def mean_ms(self, rate: int) -> float:
        """Return the mean time from append to topic (Little's law)."""
        return 1000 * sum(self._gaps) / len(self._gaps) / rate


def _drip(rate: int, window_s: float, write: Write, look: Callable[[int], None]) -> int:
    """Write lines of 100 bytes at an even pace; return how many. ``look`` gets the number ten times a second."""
    begun, number, looked_s = time.monotonic(), 0, 0.0
    while (passed_s := time.monotonic() - begun) < window_s:
        while number < passed_s * rate:
            write(number, b"%0100d" % number)
            number += 1
        if passed_s - looked_s >= 0.1:
            looked_s = passed_s
            look(number)
        time.sleep(0.5 / rate)  # the pace
    return number


@contextlib.contextmanager
def _grown(lab: Lab, worker: WorkerProcess, tasks: int) -> Iterator[_Grown]:
    topic = lab.fresh("trickle")
    lab.create_topic(topic)
    truth, descriptors, names = TopicTruth(lab.bootstrap_servers, topic), [], []
    for _ in range(tasks):
        names.append(lab.fresh("trickle"))
        file = worker.directory / f"{names[-1]}.txt"
        descriptors.append(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
        worker.rest.create(names[-1], config)
    for name in names:
        worker.rest.await_states(name, "RUNNING", ["RUNNING"])
    try:
        yield _Grown(worker, truth, descriptors)
    finally:
        truth.close()
        for descriptor in descriptors:
            os.close(descriptor)
        for name in names:
            worker.rest.delete(name)


def _produce(lab: Lab, rate: int, window_s: float) -> dict[str, float]:
    topic = lab.fresh("bare")
    lab.create_topic(topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 0})

    def write(_number: int, line: bytes) -> None:
        producer.produce(topic, line)
        producer.poll(0)

    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    lines = _drip(rate, window_s, write, lambda _: None)
    producer.flush()
    minutes = (time.monotonic() - begun_s) / 60
    lab.delete_topic(topic)
    return {"cpu_s_per_min": round((time.process_time() - begun_cpu_s) / minutes, 2), "lines": lines}
