"""Lag: how late a record is in the copy at 10,000 records/s; Java's MM2, ours by whole batches, ours record by record.

The part ``lag`` of ``mirror`` and ``batches`` alone, in turns: a few minutes. Beside each turn the machine's load and
what the worker's processes used. ``limit``: to the same consumer, of the source itself.
"""

from __future__ import annotations

import time

from bench.batches import RECORD_BY_RECORD
from bench.lab import Lab
from bench.mirror import bare_lag, lag
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from tests.support.worker_process import WorkerProcess

P50_MS, P99_MS, BATCHES_P99_MS = 15.0, 50.0, 20.0
TURN_S = 10.0


def run(lab: Lab, short: bool) -> Result:
    """Take turns; the first of each side is a warm-up."""
    result = Result("lag", "ms from timestamp to the copy, p50", "p50_ms", False, f"<={P50_MS:.0f}, p99 <={P99_MS:.0f}")
    sides, seconds = lab.sides(), 1.0 if short else TURN_S
    for turn in range(1 if short else 4):
        kind = " (warm-up)" if not turn and not short else ""
        for who, worker in sides:
            ways = {who: {}, "records": RECORD_BY_RECORD} if who == "ours" else {who: {}}
            for label, settings in ways.items():
                result.runs.append(Run(f"{label}{kind}", _measured(lab, worker, seconds, settings)))
        if not kind:
            result.runs.append(Run("limit", bare_lag(lab, seconds)))
    if not short:
        result.runs += [Run("java (control)", _measured(lab, sides[0][1], seconds, {})) for _ in range(2)]
    result.conclude()
    p99s = {
        who: [side.figures.get("p99_ms", 1e9) for side in result.runs if side.who == who] for who in ("ours", "java")
    }
    result.notes += [f"p99 of {who}: {found} ms" for who, found in p99s.items()]
    result.notes.append(f"wanted by batches: p99 < {BATCHES_P99_MS:.0f} ms; worthless where the limit is not near 0")
    result.met = result.ours is not None and result.ours <= P50_MS and max(p99s["ours"], default=1e9) <= P99_MS
    return result


def _measured(lab: Lab, worker: WorkerProcess, seconds: float, settings: dict[str, str]) -> dict[str, float | bool]:
    with CpuMeter(worker.processes) as meter:
        begun = time.monotonic()
        found = lag(lab, worker, seconds, **settings)
        took_s = time.monotonic() - begun
    return {**found, "cpu_s_per_10_s": round(10 * meter.used_s / took_s, 2)}
