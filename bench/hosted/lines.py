"""Java's FileStreamSource, lines of 100 bytes, StringConverter; the limit is this product's own in Python."""

from __future__ import annotations

from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.report import Result, Run
from bench.source import move, write_input
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET = 1.5


def run(lab: Lab, short: bool) -> Result:
    """Have both move the file."""
    given = write_input(lab.folder / "hosted-lines.txt", 20_000 if short else 3_000_000)
    result = Result(
        "hosted_lines", "records/s of Java's FileStreamSource, String", "records_per_s", True, f">={TARGET}"
    )

    workers: dict[str, WorkerProcess] = {}

    def hosted(who: str, worker: WorkerProcess) -> Run:
        workers[who] = worker
        return move(lab, who, worker, given, IN_JAVA)

    def in_python() -> Run:
        return move(lab, "limit", workers["ours"], given)

    take_turns(result, lab, short, hosted, in_python)
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    result.notes.append("limit is FileStreamSource in Python, in the same worker")
    note_speed(result, lab)
    return result
