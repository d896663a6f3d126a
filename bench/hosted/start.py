"""From the create request to the first record, with no JVM up for that plug-in: FileStreamSource and Debezium.

``host_s``: from the start of the JVM that hosts Debezium's task until its first record is produced.
"""

from __future__ import annotations

import time

import psutil

from bench.hosted.captured import Capture, database_server
from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.report import Result, Run
from bench.source import Input, move, write_input
from spark_connect_rt.java_host.process import MAIN_CLASS
from tests.support.postgres_server import PostgresServer
from tests.support.worker_process import WorkerProcess

TARGET_S = 2.0
OF_DRIVER = "-XX:TieredStopAtLevel=1"  # the JVM beside the driver has it, those of tasks have not
COLD_AFTER_S = 40.0  # a JVM is kept some seconds after its last task


def run(lab: Lab, short: bool) -> Result:
    """Start each connector a few times, with a pause in which hosts end."""
    result = Result("hosted_start", "s from create to the first record", "first_s", False, f"<={TARGET_S}")
    given = write_input(lab.folder / "hosted-start.txt", 10)
    with database_server() as server:
        for _ in range(1 if short else 3):
            for who, worker in lab.sides():
                if not short:
                    time.sleep(COLD_AFTER_S)
                result.runs += [_lines(lab, who, worker, given), _captured(lab, who, worker, server)]
    result.conclude()
    result.met = result.ours is not None and result.ours <= TARGET_S
    result.notes += ["ours and java: Debezium; (file): FileStreamSource", *lab.complaints]
    if host_s := result.median("ours", "host_s"):
        result.notes.append(f"from the start of its host to Debezium's first record: {host_s:.2f} s")
    return result


def _lines(lab: Lab, who: str, worker: WorkerProcess, given: Input) -> Run:
    return move(lab, f"{who} (file)", worker, given, IN_JAVA)


def _captured(lab: Lab, who: str, worker: WorkerProcess, server: PostgresServer) -> Run:
    capture = Capture(lab, server, worker)
    capture.database.fill(1)
    found = capture.measure(who, 1, "create")
    found.figures.pop("sha256")
    if born_s := [born for one in worker.processes() if (born := _born_s(one))]:
        found.figures["host_s"] = round(capture.first_at_s() - max(born_s), 2)
    capture.end()
    return found


def _born_s(process: psutil.Process) -> float | None:
    """Return when a JVM of tasks was started, s since the epoch; None: it is another process, or has ended."""
    try:
        words = process.cmdline()
        return process.create_time() if MAIN_CLASS in words and OF_DRIVER not in words else None
    except psutil.Error:
        return None
