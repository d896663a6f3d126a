"""Scale: 1,000 source tasks on one worker: their rate in sum, CPU, memory a task, and what they cost while idle.

As ``tasks`` with many more: each connector has one task and a file of its own; the rate counts from the first request
that creates one to the last record in the topic. Then nothing is written any more, and after a pause the worker is
charged for a window of a minute. Memory is PSS of all processes of the worker, which counts a shared page once; a
task's is what the worker grew by since before the first connector. limit is one bare producer.
"""

from __future__ import annotations

import time
from typing import Any

from bench.caller import Caller
from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter, memory_mib
from bench.report import Result, Run
from bench.sources import write_lines
from bench.tasks import move_file, produce, watch
from tests.support.worker_process import WorkerProcess

RATE_TARGET = 300_000
MEMORY_TARGET_MIB = 3.0
IDLE_TARGET_CPU_S = 6.0  # a minute: a tenth of a core
# What Kafka's connect-distributed.sh gives; with 512 MiB Java only collects garbage from 700 tasks on, and a creation
# takes more than 95 s.
JAVA_HEAP_MB = 2_048


def run(lab: Lab, short: bool) -> Result:
    """Each side in turn, then a bare producer of the same lines."""
    tasks, records, window_s = (4, 400, 3.0) if short else (1_000, 3_000_000, 60.0)
    unit = f"records/s of {tasks} source tasks together"
    result = Result("scale", unit, "records_per_s", True, ">=300k/s,<=3MiB,idle<=10%")
    lab.java_heap_mb = JAVA_HEAP_MB
    for who, worker in lab.sides():
        result.runs.append(Run(who, _measure(lab, worker, tasks, records, window_s)))
        lab.done_with(worker)
    result.runs.append(Run("limit", produce(lab, records)))
    result.conclude()
    ours = next((run.figures for run in result.runs if run.who == "ours"), None)
    result.met = ours is not None and (
        ours["records_per_s"] >= RATE_TARGET
        and ours["pss_mib_a_task"] <= MEMORY_TARGET_MIB
        and ours["idle_cpu_s_per_min"] <= IDLE_TARGET_CPU_S
    )
    result.note_ratio("CPU", result.ratio_of("cpu_s"))
    result.note_ratio("memory a task", result.ratio_of("pss_mib_a_task"))
    result.note_ratio("CPU while idle", result.ratio_of("idle_cpu_s_per_min"))
    result.notes += lab.complaints
    return result


def _measure(lab: Lab, worker: WorkerProcess, tasks: int, records: int, window_s: float) -> dict[str, Any]:
    topic = lab.fresh("scale")
    lab.create_topic(topic)
    move_file(lab, worker, 1, records // 100)  # warm-up: the first slot, the compiler
    before_mib = memory_mib(worker.processes())["pss"]
    names = [lab.fresh("scale") for _ in range(tasks)]
    for name in names:
        write_lines(worker.directory / f"{name}.txt", records // tasks)
    truth = TopicTruth(lab.bootstrap_servers, topic)
    truth.end()
    caller = Caller(worker)
    begun = time.monotonic()
    with CpuMeter(worker.processes) as meter:
        for name in names:
            file = str(worker.directory / f"{name}.txt")
            config = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": topic, "file": file}
            caller.create(name, config)
        created_s = time.monotonic() - begun
        figures = watch(truth, records // tasks * tasks, begun)
    caller.close()
    truth.close()
    after_mib = memory_mib(worker.processes())
    time.sleep(window_s / 3)  # not synchronisation: what is left of the work must not be charged as idling
    begun = time.monotonic()
    with CpuMeter(worker.processes) as idle:
        time.sleep(window_s)  # the window itself
    minutes = (time.monotonic() - begun) / 60
    for name in names if tasks < 100 else ():  # the next short run meets the same worker
        worker.rest.delete(name)
    return {
        "tasks": tasks,
        **figures,
        "created_s": round(created_s, 1),
        "cpu_s": round(meter.used_s, 1),
        "pss_mib_a_task": round((after_mib["pss"] - before_mib) / tasks, 2),
        "pss": after_mib["pss"],
        "pythons": after_mib["pythons"],
        "idle_cpu_s_per_min": round(idle.used_s / minutes, 2),
    }
