"""From the create request to the first record, with no JVM up for that plug-in's tasks: FileStreamSource and Debezium.

The JVM beside our driver is up for Debezium: the file source has asked it just before, and it is kept for minutes.

``host_s``: from the start of the JVM that hosts Debezium's task until its first record is produced.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from bench.hosted.captured import Capture, database_server
from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.report import Result, Run
from bench.source import Input, move, write_input
from spark_connect_rt.engine.java_host.process import MAIN_CLASS
from tests.support.postgres_server import PostgresServer
from tests.support.worker_process import WorkerProcess

TARGET_S = 2.0
OF_DRIVER = "-XX:TieredStopAtLevel=1"  # the JVM beside the driver has it, those of tasks have not
COLD_AFTER_S = 40.0  # a JVM is kept some seconds after its last task
GONE_AFTER_S = 3.0  # Java's file source sleeps a second in its poll: until then no group takes up anything new


def run(lab: Lab, short: bool) -> Result:
    """Start each connector a few times, with a pause in which hosts end."""
    result = Result("hosted_start", "s from create to the first record", "first_s", False, f"<={TARGET_S}")
    given = write_input(lab.folder / "hosted-start.txt", 10)
    with database_server() as server:
        for _ in range(1 if short else 3):
            for who, worker in lab.sides():
                time.sleep(0 if short else COLD_AFTER_S)
                result.runs.append(_lines(lab, who, worker, given))
                time.sleep(0 if short else GONE_AFTER_S)
                result.runs.append(_captured(lab, who, worker, server))
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
    if born_s := [born for process in worker.processes() if (born := _born_s(process))]:
        found.figures["host_s"] = round(capture.first_at_s() - max(born_s), 2)
    capture.end()
    return found


def _born_s(process: psutil.Process) -> float | None:
    """Return when a JVM of tasks was started, s since the epoch; None: it is another process, or has ended.

    By its age: psutil's own time counts from the machine's start, which the kernel says in whole seconds.
    """
    try:
        words = process.cmdline()
        if MAIN_CLASS not in words or OF_DRIVER in words:
            return None
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (OSError, psutil.Error):
        return None
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
