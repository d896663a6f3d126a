"""Idle cost: CPU seconds a minute of a worker whose 20 source tasks have nothing to read.

All sides are up and idle together; each is charged only what its own processes used.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import psutil

from bench.floor import Floor
from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.sources import create_sources

Group = tuple[str, Callable[[], Sequence[psutil.Process]]]


def run(lab: Lab, short: bool) -> Result:
    """Start everything, let it settle, charge windows of a minute."""
    tasks, settle_s, window_s, windows = (3, 2.0, 5.0, 1) if short else (20, 20.0, 60.0, 3)
    result = Result("idle", f"CPU s a minute, {tasks} idle source tasks", "cpu_s_per_min", False, "<=java")
    sides = lab.sides()
    for _, worker in sides:
        create_sources(lab, worker, tasks, lines=10)
    with Floor("spark") as floor:
        floor.await_ready()
        time.sleep(settle_s)  # not synchronisation: start-up work must not be charged as idling
        groups: list[Group] = [*((who, worker.processes) for who, worker in sides), ("limit", floor.processes)]
        for _ in range(windows):
            result.runs += _window(groups, window_s)
    result.conclude()
    java = result.values("java")
    result.control = {"worst_to_best": round(max(java) / min(java), 3)} if min(java) > 0 else {}
    result.met = result.ratio is not None and result.ratio <= 1.0
    result.notes = ["limit is a bare SparkSession doing nothing", *lab.complaints]
    return result


def _window(groups: list[Group], window_s: float) -> list[Run]:
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        meters = [(who, stack.enter_context(CpuMeter(processes))) for who, processes in groups]
        time.sleep(window_s)  # the window itself
    minutes = (time.monotonic() - begun) / 60
    return [Run(who, {"cpu_s_per_min": round(meter.used_s / minutes, 2)}) for who, meter in meters]
