"""Start: process start to REST answering, empty topics that exist already.

``rest_s`` is the first 200 of ``GET /``; ``healthy_s`` the first 200 of ``GET /health``, which a worker gives
once it has read its topics and joined its group.
"""

from __future__ import annotations

import time

from bench.floor import rest_start_s
from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.errors import StartupError
from tests.support.worker_process import WorkerProcess

TARGET = 0.5


def run(lab: Lab, short: bool) -> Result:
    """One uncounted start each (disk caches), a control of Java, then three each in turn."""
    times = 1 if short else 3
    result = Result("start", "s from process start to REST answering", "rest_s", False, f"<={TARGET}")
    if not short:
        for who in ("java", "ours"):
            _start(lab, result, who, f"{who} (warm-up)")
        for _ in range(2):
            _start(lab, result, "java", "java (control)")
    for _ in range(times):
        _start(lab, result, "java", "java")
        _start(lab, result, "ours", "ours")
        result.runs.append(Run("limit", {"rest_s": round(rest_start_s(free_ports(1)[0]), 2)}))
    result.conclude()
    result.met = result.ratio is not None and result.ratio <= TARGET
    result.note_ratio("until healthy (group joined)", result.ratio_of("healthy_s"))
    result.notes += ["limit is an empty FastAPI application", *lab.complaints]
    return result


def _start(lab: Lab, result: Result, who: str, label: str) -> None:
    if who == "ours" and (lab.java_only or lab.complaints):
        return
    worker = lab.java() if who == "java" else lab.ours()
    _create_topics(lab, worker)
    try:
        begun = time.monotonic()
        worker.launch()
        worker.await_answer("/")
        rest_s = time.monotonic() - begun
        worker.await_answer("/health")
        healthy_s = time.monotonic() - begun
    except StartupError as error:
        lab.complaints.append(f"{who} did not start: {str(error)[-400:]}")
        return
    result.runs.append(Run(label, {"rest_s": round(rest_s, 2), "healthy_s": round(healthy_s, 2)}))
    worker.stop()


def _create_topics(lab: Lab, worker: WorkerProcess) -> None:
    for kind, partitions in (("configs", 1), ("offsets", 25), ("statuses", 5)):
        lab.create_topic(f"{worker.group_id}-{kind}", partitions, cleanup_policy="compact")
