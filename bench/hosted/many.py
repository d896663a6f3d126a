"""Twenty Java source tasks in one worker: PSS of all its processes beside Java Connect's.

A minute after each task has moved its lines: what a worker takes while it runs, not while it starts tasks.
"""

from __future__ import annotations

import time

from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.process_cost import SETTLE_S, memory_mib
from bench.report import Result, Run
from bench.sources import create_sources

TARGET = 1.3


def run(lab: Lab, short: bool) -> Result:
    """A fresh worker of each side."""
    tasks, lines, times = (3, 100, 1) if short else (20, 50_000, 2)
    result = Result("hosted_many", f"MiB (PSS) with {tasks} Java tasks", "pss", False, f"<={TARGET}")
    for _ in range(times):
        for who in ("java", "ours"):
            worker = lab.side(who)
            if worker is not None:
                create_sources(lab, worker, tasks, lines, IN_JAVA)
                time.sleep(0.0 if short else SETTLE_S)
                result.runs.append(Run(who, {"tasks": tasks, **memory_mib(worker.processes())}))
                lab.done_with(worker)
    result.conclude()
    result.met = result.ratio is not None and result.ratio <= TARGET
    result.note_ratio("of RSS", result.ratio_of("rss"))
    result.notes += lab.complaints
    return result
