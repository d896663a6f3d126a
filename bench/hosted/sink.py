"""Java's FileStreamSink, records of 100 bytes; the limit is this product's own in Python."""

from __future__ import annotations

from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.report import Result, Run
from bench.sink import fill_topic, move
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET = 1.0


def run(lab: Lab, short: bool) -> Result:
    """Have both fill a file."""
    given = fill_topic(lab, 20_000 if short else 3_000_000)
    result = Result("hosted_sink", "records/s of Java's FileStreamSink", "records_per_s", True, f">={TARGET}")

    workers: dict[str, WorkerProcess] = {}

    def hosted(who: str, worker: WorkerProcess) -> Run:
        workers[who] = worker
        return move(lab, who, worker, given, IN_JAVA)

    def in_python() -> Run:
        return move(lab, "limit", workers["ours"], given)

    take_turns(result, lab, short, hosted, in_python)
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    result.notes.append("limit is FileStreamSink in Python, in the same worker")
    note_speed(result, lab)
    lab.delete_topic(given.topic)
    return result
