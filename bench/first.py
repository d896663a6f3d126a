"""First: process start to the first record of a connector that was there before, its topics and offsets too.

A worker that came back after an upgrade: what was written meanwhile waits in the file. ``first_s`` is when its first
record is in the topic, ``healthy_s`` the first 200 of ``GET /health``, ``cpu_s`` what all its processes used by then.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from bench.floor import spark_start_s
from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from spark_connect_rt.errors import StartupError
from tests.support.worker_process import WorkerProcess

TARGET = 1.0  # never behind Java's in the same run
LINES = 10
LIMIT_S = 180.0


def run(lab: Lab, short: bool) -> Result:
    """One start each that creates the connector, uncounted; a control of Java; then three each in turn."""
    times = 1 if short else 3
    result = Result("first", "s from process start to the first record", "first_s", False, f"<={TARGET}")
    sides = {who: returning for who in ("java", "ours") if (returning := _Returning.created(lab, who))}
    for _ in range(0 if short else 2):
        result.runs.append(Run("java (control)", sides["java"].once()))
    for _ in range(times):
        result.runs += [Run(who, side.once()) for who, side in sides.items()]
        result.runs.append(Run("limit", {"first_s": round(spark_start_s(), 2)}))
    for side in sides.values():
        side.close()
    result.conclude()
    result.met = result.ratio is not None and result.ratio <= TARGET
    result.note_ratio("until healthy (group joined)", result.ratio_of("healthy_s"))
    result.note_ratio("CPU until the first record", result.ratio_of("cpu_s"))
    result.notes += ["limit is a bare SparkSession and one job", "the connector is FileStreamSource", *lab.complaints]
    return result


class _Returning:
    """One worker that is started again and again, and the file that its one task reads."""

    def __init__(self, worker: WorkerProcess, file: Path, truth: TopicTruth) -> None:
        self._worker, self._file, self._truth = worker, file, truth

    @classmethod
    def created(cls, lab: Lab, who: str) -> _Returning | None:
        """Start a worker, create its connector, see its first lines, stop it; None where it does not come up."""
        if who == "ours" and (lab.java_only or lab.complaints):
            return None
        worker = lab.java() if who == "java" else lab.ours()
        topic = lab.fresh("first")
        lab.create_topic(topic)
        side = cls(worker, worker.directory / "first.txt", TopicTruth(lab.bootstrap_servers, topic))
        side._append()
        try:
            worker.start()
        except StartupError as error:
            lab.complaints.append(f"{who} did not start: {str(error)[-400:]}")
            side.close()
            return None
        config = {"connector.class": "FileStreamSource", "file": str(side._file), "topic": topic, "tasks.max": "1"}
        worker.rest.create(topic, config)
        side._await(LINES)
        worker.stop()
        return side

    def once(self) -> dict[str, float]:
        """Append lines, start the worker, wait for the first of them, stop it."""
        before = self._truth.end()
        self._append()
        begun = time.monotonic()
        self._worker.launch()
        healthy: list[float] = []

        def see_health() -> None:
            self._worker.await_answer("/health")
            healthy.append(time.monotonic() - begun)

        seeing = threading.Thread(target=see_health, daemon=True)
        seeing.start()
        with CpuMeter(self._worker.processes) as meter:
            self._await(before + 1)
            first_s = time.monotonic() - begun
        self._await(before + LINES)
        seeing.join(LIMIT_S)
        self._worker.stop()
        return {
            "first_s": round(first_s, 2),
            "healthy_s": round(healthy[0], 2),
            "cpu_s": round(meter.used_s, 2),
            "complete": self._truth.end() >= before + LINES,
            "repeated": self._truth.end() - before - LINES,  # a stop soon after a start may not have committed
        }

    def close(self) -> None:
        """Close the consumer of the topic."""
        self._truth.close()

    def _append(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.writelines(f"{number:0100d}\n" for number in range(LINES))

    def _await(self, end: int) -> None:
        begun = time.monotonic()
        while self._truth.end() < end:
            if time.monotonic() - begun > LIMIT_S:
                raise TimeoutError(f"{self._truth.end()} of {end} records after {LIMIT_S} s")
            time.sleep(0.01)
