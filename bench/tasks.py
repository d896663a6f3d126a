"""1, 10 and 100 source tasks on one worker: throughput, CPU and memory a task; ours beside warm Java.

The same number of lines each time, dealt to so many connectors of one task. The rate counts from the first
request that creates a connector to the last record in the topic: that is what a user waits for. Memory a task is
what the worker's processes (PSS) grew by since before the first connector.
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter, memory_mib
from bench.report import Result, Run
from bench.sources import write_lines
from tests.support.worker_process import WorkerProcess

LIMIT_S = 300.0
RATE_TARGET, CPU_TARGET, MEMORY_TARGET_MIB = 2.0, 0.7, 3.0


def run(lab: Lab, short: bool) -> Result:
    """Each side in turn, few tasks first; then a bare producer of the same lines."""
    counts, records = ((1, 2, 3), 600) if short else ((1, 10, 100), 1_000_000)
    unit = f"records/s of {counts[-1]} source tasks together"
    result = Result("tasks", unit, "records_per_s", True, ">=2,CPU<=0.7,<=3MiB")
    for who, worker in lab.sides():
        move_file(lab, worker, 1, records // 10)  # warm-up
        before_mib = memory_mib(worker.processes())["pss"]
        for count in counts:
            label = who if count == counts[-1] else f"{who} ({count})"
            result.runs.append(Run(label, move_file(lab, worker, count, records, before_mib)))
        lab.done_with(worker)
    result.runs.append(Run("limit", produce(lab, records)))
    result.conclude()
    ours = next((run.figures for run in result.runs if run.who == "ours"), None)
    result.met = (
        ours is not None
        and (result.ratio or 0) >= RATE_TARGET
        and (result.ratio_of("cpu_s") or CPU_TARGET) <= CPU_TARGET
        and ours["pss_mib_a_task"] <= MEMORY_TARGET_MIB
    )
    result.note_ratio("CPU", result.ratio_of("cpu_s"))
    result.note_ratio("memory a task", result.ratio_of("pss_mib_a_task"))
    result.notes += ["limit is one bare producer", *lab.complaints]
    return result


def move_file(lab: Lab, worker: WorkerProcess, count: int, records: int, before_mib: float = 0.0) -> dict[str, float]:
    """Have ``count`` new connectors move ``records`` lines together; they are deleted afterwards."""
    topic = lab.fresh("tasks")
    lab.create_topic(topic)
    files = {lab.fresh("task"): records // count for _ in range(count)}
    for name, lines in files.items():
        write_lines(_file(worker, name), lines)
    truth = TopicTruth(lab.bootstrap_servers, topic)
    truth.end()
    begun = time.monotonic()
    with CpuMeter(worker.processes) as meter:
        for name in files:
            config = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": topic}
            worker.rest.create(name, config | {"file": str(_file(worker, name))})
        figures = watch(truth, sum(files.values()), begun)
    after_mib = memory_mib(worker.processes())["pss"]
    truth.close()
    for name in files:
        worker.rest.delete(name)
        _file(worker, name).unlink()
    lab.delete_topic(topic)
    a_task = round((after_mib - before_mib) / count, 1)
    return {"tasks": count, **figures, "cpu_s": round(meter.used_s, 1), "pss_mib_a_task": a_task}


def _file(worker: WorkerProcess, name: str) -> Path:
    return worker.directory / f"{name}.txt"


def watch(truth: TopicTruth, records: int, begun: float) -> dict[str, float]:
    """Wait for so many records; return rate and time since ``begun``, monotonic clock, and whether all came."""
    count = 0
    while count < records and time.monotonic() - begun < LIMIT_S:
        count = truth.end()
        time.sleep(0.02)
    whole_s = time.monotonic() - begun
    return {"records_per_s": round(count / whole_s), "whole_s": round(whole_s, 2), "exact": count == records}


def produce(lab: Lab, records: int) -> dict[str, float]:
    """Return how fast a bare producer is with as many lines."""
    topic = lab.fresh("bare")
    lab.create_topic(topic)
    settings = {"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 5, "batch.size": 1 << 20}
    producer = Producer(settings)
    begun = time.monotonic()
    for number in range(records):
        line = b"%0100d" % number
        try:
            producer.produce(topic, line)
        except BufferError:
            producer.poll(0.5)
            producer.produce(topic, line)
    producer.flush()
    took_s = time.monotonic() - begun
    lab.delete_topic(topic)
    return {"tasks": 1, "records_per_s": round(records / took_s), "whole_s": round(took_s, 2)}
