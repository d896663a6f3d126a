"""Memory of a worker with 1, 20 and 100 source tasks, each having moved its lines: JVM and Pythons apart.

A minute after the last task has: what a worker takes while it runs, not while it starts tasks. PSS, of all its
processes: RSS counts a page that forked Pythons share once for each of them, PSS divides it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from bench.floor import Floor
from bench.lab import Lab
from bench.process_cost import SETTLE_S, memory_mib
from bench.report import Result, Run
from bench.sources import create_sources

TARGET, MANY_TARGET = 1.2, 1.0
MANY = "many tasks"


def run(lab: Lab, short: bool) -> Result:
    """A fresh worker of each side each time: 1 task with many lines, then more tasks, then many."""
    some, many, lines, times = (3, 5, 100, 1) if short else (20, 100, 100_000, 2)
    unit = f"MiB (PSS) with 1, {some} and {many} tasks"
    result = Result("memory", unit, "pss", False, f"<={TARGET}_with_{some}_<={MANY_TARGET}_with_{many}")
    for _ in range(times):
        for who in ("java", "ours"):
            _one_side(lab, result, who, (some, many), lines, 0.0 if short else SETTLE_S)
        with Floor("spark") as floor:
            floor.await_ready()
            result.runs.append(_run("limit", 0, floor.processes))
    result.conclude()
    java = result.values("java")
    result.control = {"worst_to_best": round(max(java) / min(java), 3)}
    ours_many, java_many = (result.median(f"{who} ({MANY})") for who in ("ours", "java"))
    many_ratio = ours_many / java_many if ours_many and java_many else None
    result.met = bool(result.ratio and many_ratio and result.ratio <= TARGET and many_ratio <= MANY_TARGET)
    result.notes = [
        f"ratio and limit are with {some} tasks; limit is a bare SparkSession without tasks",
        *lab.complaints,
    ]
    result.note_ratio(f"with {many} tasks", many_ratio)
    return result


def _one_side(lab: Lab, result: Result, who: str, tasks: tuple[int, int], lines: int, settle_s: float) -> None:
    worker = lab.side(who)
    if worker is None:
        return
    some, many = tasks
    create_sources(lab, worker, 1, lines)
    result.runs.append(_run(f"{who} (1 task)", 1, worker.processes))
    create_sources(lab, worker, some - 1, max(lines // 10, 10))
    time.sleep(settle_s)
    result.runs.append(_run(who, some, worker.processes))
    create_sources(lab, worker, many - some, max(lines // 100, 10))
    time.sleep(settle_s)
    result.runs.append(_run(f"{who} ({MANY})", many, worker.processes))
    lab.done_with(worker)


def _run(who: str, tasks: int, processes: Callable[[], list[psutil.Process]]) -> Run:
    return Run(who, {"tasks": tasks, **memory_mib(processes())})
