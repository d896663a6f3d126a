"""Memory of one idle Debezium task in a fresh worker: what the worker grew by, and the JVM that hosts it."""

from __future__ import annotations

import time

import psutil

from bench.hosted.captured import Capture, database_server
from bench.lab import Lab
from bench.process_cost import MIB, memory_mib
from bench.report import Result, Run

TARGET_MIB = 250
SETTLE_S = 20.0


def run(lab: Lab, short: bool) -> Result:
    """Measure a worker without and with the task; java's growth is inside its one JVM."""
    result = Result("hosted_idle", "MiB of the host of an idle Debezium task", "host_pss", False, f"<={TARGET_MIB}")
    with database_server() as server:
        for who in ("java", "ours"):
            worker = lab.side(who)
            if worker is None:
                continue
            before = memory_mib(worker.processes())["pss"]
            capture = Capture(lab, server, worker)
            capture.database.fill(1)
            found = capture.measure(who, 1, "create")
            time.sleep(1.0 if short else SETTLE_S)
            after = memory_mib(worker.processes())["pss"]
            host = max(map(_pss, _hosts(worker.processes())), default=after)
            figures = {
                "host_pss": round(host, 1),
                "grew_pss": round(after - before, 1),
                "first_s": found.figures["first_s"],
            }
            result.runs.append(Run(who, figures))
            capture.end()
            lab.done_with(worker)
    result.conclude()
    result.met = result.ours is not None and result.ours <= TARGET_MIB
    result.notes += ["java: its whole worker, which is one JVM", *lab.complaints]
    return result


def _hosts(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the JVMs that host Java tasks: those of our own main class."""
    return [process for process in processes if "org.sparkconnectrt.host.Host" in _command(process)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _pss(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / MIB
    except psutil.Error:
        return 0.0
