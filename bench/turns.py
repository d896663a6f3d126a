"""Two sides that move the same data in turn, and the limit beside them; what is said of their speed."""

from __future__ import annotations

from collections.abc import Callable

from bench.lab import Lab
from bench.report import Result, Run
from tests.support.worker_process import WorkerProcess


def take_turns(
    result: Result, lab: Lab, short: bool, move: Callable[[str, WorkerProcess], Run], limit: Callable[[], Run] | None
) -> None:
    """Warm both, control Java against itself, then three runs each in turn (a short run: one each); conclude."""
    sides = lab.sides()
    if not short:
        result.runs += [move(f"{who} (warm-up)", worker) for who, worker in sides]
        result.runs += [move("java (control)", sides[0][1]) for _ in range(2)]
    for _ in range(1 if short else 3):
        result.runs += [move(who, worker) for who, worker in sides]
        result.runs += [limit()] if limit else []
    result.conclude()


def all_exact(result: Result) -> bool:
    """Tell whether every run moved what it was given."""
    return all(run.figures["exact"] for run in result.runs)


def note_speed(result: Result, lab: Lab) -> None:
    """Note what the rate alone does not say."""
    result.note_ratio("counted from the create request", result.ratio_of("with_start"))
    cpu = result.ratio_of("cpu_s")
    result.note_ratio("records a CPU second of the worker, which load of others hardly moves", 1 / cpu if cpu else None)
    if not all_exact(result):
        result.notes.append("NOT EXACT: what arrived was not what was given (see the runs)")
    result.notes += lab.complaints
