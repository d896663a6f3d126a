"""Mirror by batches: one MirrorSource task copies 8 partitions, by whole batches, record by record, and Java's MM2.

The three take turns with the same topics: records of 100 bytes and of 1 KB, in large batches (librdkafka's own)
and in Java's of 16 KB. ``cpu_s_per_gb`` is what all processes of the worker took, so also what Spark's JVM takes beside
the copying (``own_s`` the worker's, ``jvm_s``, ``python_s`` with the task's); ``broker_s_per_gb`` the broker's beside
it. ``start``: a copy of next to nothing, which each of the others has in it, too. The notes say what rate the cores
allow by all that (``batch_limits``). ``lag`` as in ``mirror``. Every copy is compared by SHA-256.
"""

from __future__ import annotations

import psutil

from bench.batch_limits import Costs, bound_note, socket_cost
from bench.lab import Lab
from bench.mirror import Given, bare_copied, bare_lag, copied, filled, lag
from bench.report import Result, Run
from bench.turns import all_exact
from tests.support.worker_process import WorkerProcess

TARGET, TARGET_CPU, TARGET_P99_MS = 8.0, 1.0, 20.0
RECORD_BY_RECORD = {"connectrt__mirror__batches": "never"}
SHAPES = (("100 B", 100, 4_000_000, 0), ("1 KB", 1_024, 800_000, 0), ("100 B, 16 KB batches", 100, 1_000_000, 16_384))


def run(lab: Lab, short: bool) -> Result:
    """Copy each shape in turns, then look at the lag."""
    result = Result("batches", "records/s of one MirrorSource task, 100 B", "records_per_s", True, f">={TARGET}")
    sides = lab.sides()
    for name, value_bytes, records, batch_bytes in SHAPES[:1] if short else SHAPES:
        given = filled(
            lab, 10_000 if short else records, value_bytes, **({"batch.size": batch_bytes} if batch_bytes else {})
        )
        _in_turns(lab, result, sides, given, "" if name == SHAPES[0][0] else f" ({name})", short)
        lab.delete_topic(given.topic)
    _starts(lab, result, sides, short)
    for who, worker in sides:
        for label, settings in _ways(who):
            result.runs.append(Run(f"{label} (lag)", lag(lab, worker, 1.0 if short else 20.0, **settings)))
        lab.done_with(worker)
    result.runs.append(Run("limit (lag)", bare_lag(lab, 1.0 if short else 20.0)))
    result.runs.append(Run("limit (sockets)", socket_cost()))
    result.conclude()
    _conclude(result)
    return result


def _ways(who: str) -> list[tuple[str, dict[str, str]]]:
    return [(who, {})] if who == "java" else [(who, {}), ("records", RECORD_BY_RECORD)]


def _in_turns(
    lab: Lab, result: Result, sides: list[tuple[str, WorkerProcess]], given: Given, shape: str, short: bool
) -> None:
    first = not shape and not short
    kinds = [" (warm-up)"] * first + [""] * (1 if short else 3)
    for kind in kinds:
        for who, worker in sides:
            for label, settings in _ways(who):
                result.runs.append(_measured(lab, f"{label}{shape}{kind}", worker, given, settings))
        if not shape and not kind:
            result.runs.append(bare_copied(lab, given))
    if first:
        result.runs += [_measured(lab, "java (control)", sides[0][1], given, {}) for _ in range(2)]


def _starts(lab: Lab, result: Result, sides: list[tuple[str, WorkerProcess]], short: bool) -> None:
    given = filled(lab, 8, 100)
    for _ in range(1 if short else 3):
        result.runs += [copied(lab, f"{who} (start)", worker, given) for who, worker in sides]


def _measured(lab: Lab, who: str, worker: WorkerProcess, given: Given, settings: dict[str, str]) -> Run:
    found = copied(lab, who, worker, given, **settings)
    gigabytes = given.records * given.value_bytes / 1e9
    for figure, of in (("cpu_s_per_gb", "cpu_s"), ("broker_s_per_gb", "broker_s")):
        found.figures[figure] = round(found.figures[of] / gigabytes, 2)
    return found


def _bound(result: Result, name: str, shape: str) -> str:
    sockets = sum(result.runs[-1].figures.values())
    worker, broker = (result.median(f"ours{shape}", f"{of}_s_per_gb") or 0.0 for of in ("cpu", "broker"))
    rates = [(result.median(f"{who}{shape}", "mb_per_s") or 0.0) / 1e3 for who in ("ours", "java")]
    return bound_note(name, Costs(worker, broker, sockets), psutil.cpu_count() or 1, *rates)


def _conclude(result: Result) -> None:
    shapes = ["", *(f" ({name})" for name, *_ in SHAPES[1:])]
    for shape in shapes:
        ours, java, records = (result.median(f"{who}{shape}") for who in ("ours", "java", "records"))
        name = shape.strip(" ()") or SHAPES[0][0]
        result.note_ratio(f"{name}, beside Java", ours / java if ours and java else None)
        result.note_ratio(f"{name}, beside record by record", ours / records if ours and records else None)
        if ours and java:
            result.notes.append(_bound(result, name, shape))
    starts = [result.median(f"{who} (start)", "cpu_s") for who in ("ours", "java")]
    result.notes.append(f"a start alone, CPU s (in each figure above): ours {starts[0]}, Java {starts[1]}")
    lags = {turn.who: turn.figures for turn in result.runs if turn.who.endswith("(lag)")}
    result.notes += [f"{who}: p50 {f.get('p50_ms')} ms, p99 {f.get('p99_ms')} ms" for who, f in lags.items()]
    copies = Result("", "", "", True, "", runs=[turn for turn in result.runs if "exact" in turn.figures])
    if not all_exact(copies):
        result.notes.append("NOT EXACT: what arrived was not what was given (see the runs)")
    cpu = [turn.figures["cpu_s_per_gb"] for turn in result.runs if turn.who == "ours (1 KB)"]
    p99_ms = lags.get("ours (lag)", {}).get("p99_ms")
    result.notes.append(f"wanted: CPU s per GB <= {TARGET_CPU} (1 KB: {cpu}), lag p99 < {TARGET_P99_MS:.0f} ms")
    fast = (result.ratio or 0) >= TARGET and bool(cpu) and min(cpu) <= TARGET_CPU
    result.met = fast and all_exact(copies) and p99_ms is not None and p99_ms < TARGET_P99_MS
