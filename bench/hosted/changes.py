"""Debezium PostgreSQL: changes that wait in the write-ahead log, from the first record to the last."""

from __future__ import annotations

from bench.hosted.captured import Capture, database_server, mark_exact
from bench.lab import Lab
from bench.report import Result, Run
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET = 1.0
RECORDS_OF_TEN = 13  # ten changes: a delete writes a tombstone, too, and a moved key two records more


def run(lab: Lab, short: bool) -> Result:
    """Have both catch up."""
    changes = 500 if short else 200_000
    result = Result("hosted_changes", "records/s of Debezium catching up", "records_per_s", True, f">={TARGET}")
    with database_server() as server:

        def move(who: str, worker: WorkerProcess) -> Run:
            capture = Capture(lab, server, worker, snapshot_mode="no_data")
            worker.rest.create(capture.name, capture.config)
            capture.await_slot()
            worker.rest.settled("PUT", f"/connectors/{capture.name}/stop")
            worker.rest.await_states(capture.name, "STOPPED", [])
            capture.database.change(changes)
            found = capture.measure(who, changes // 10 * RECORDS_OF_TEN, "resume")
            capture.end()
            return found

        take_turns(result, lab, short, move, None)
    mark_exact(result)
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    note_speed(result, lab)
    return result
