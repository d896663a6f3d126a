"""Debezium PostgreSQL: the snapshot of a table, JSON without schema."""

from __future__ import annotations

from bench.hosted.captured import Capture, database_server, mark_exact
from bench.lab import Lab
from bench.report import Result, Run
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET = 1.0
ROWS = 100_000  # of each of nine runs; a million took minutes each


def run(lab: Lab, short: bool) -> Result:
    """Have both take it."""
    rows = 2_000 if short else ROWS
    result = Result("hosted_snapshot", "records/s of a Debezium snapshot", "records_per_s", True, f">={TARGET}")
    with database_server() as server:

        def move(who: str, worker: WorkerProcess) -> Run:
            capture = Capture(lab, server, worker)
            capture.database.fill(rows)
            found = capture.measure(who, rows, "create")
            capture.end()
            return found

        take_turns(result, lab, short, move, None)
    mark_exact(result)
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    note_speed(result, lab)
    return result
