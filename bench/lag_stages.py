"""Lag, stage by stage: where a record's time goes on its way through a mirror task, record by record and by batches.

10,000 records/s into 8 partitions, as ``lag``; the task runs in a slot without Spark (``lag_slot``), and every fused
task does the same there. A row is the time since the row before it; ``sum`` is from ``produce`` to the consumer.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.lab import Lab
from bench.lag_slot import ACKNOWLEDGED, DURABLE, FETCHED, LANE, POLLED, PRODUCED, REQUESTED
from bench.mirror import LAG_PER_S, LAG_TURN_S, PARTITIONS
from bench.report import Result, Run

STAGES = (FETCHED, POLLED, LANE, PRODUCED, REQUESTED, ACKNOWLEDGED)
WARM_S, TURN_S, START_LIMIT_S = 3.0, 10.0, 90.0
_STAMP = struct.Struct("q")
Seen = tuple[int, int, int, int]  # partition, offset, ns when it was produced, ns when it was seen


def run(lab: Lab, short: bool) -> Result:
    """Trace both ways, one after the other."""
    result = Result("lag_stages", "ms of each stage; p50 and p99", "sum p50", False, "none")
    for way in ("BATCHES", "RECORDS"):
        seen, log = _traced(lab, way, 1.0 if short else TURN_S)
        result.runs.append(Run(way.lower(), _table(seen, log)))
    result.conclude()
    result.met = all(len(turn.figures) > 1 for turn in result.runs)
    return result


def _traced(lab: Lab, way: str, seconds: float) -> tuple[list[Seen], dict[str, dict[int, list[list[int]]]]]:
    alias, topic = lab.fresh("s"), lab.fresh("steady")
    copy, file = f"{alias}.{topic}", Path(lab.folder) / f"{alias}.json"
    for name in (topic, copy):
        lab.create_topic(name, PARTITIONS)
    command = [sys.executable, "-m", "bench.lag_slot", lab.bootstrap_servers, topic, alias, str(PARTITIONS), str(file)]
    slot = subprocess.Popen([*command, way], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(lab.bootstrap_servers, topic, stop))
    writer.start()
    try:
        seen = _seen(lab.bootstrap_servers, copy, seconds)
    finally:
        stop.set()
        writer.join()
        file.with_suffix(".end").touch()
        slot.wait(START_LIMIT_S)
    log = {stage: {int(n): passed for n, passed in of.items()} for stage, of in json.loads(file.read_text()).items()}
    for name in (topic, copy):
        lab.delete_topic(name)
    return seen, log


def _write(servers: str, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    number, rest, begun = 0, b"x" * (100 - _STAMP.size), time.monotonic()
    while not stop.wait(LAG_TURN_S):
        due = int((time.monotonic() - begun) * LAG_PER_S)
        while number < due and len(producer) < LAG_PER_S:
            producer.produce(topic, _STAMP.pack(time.monotonic_ns()) + rest, partition=number % PARTITIONS)
            number += 1
        producer.poll(0)
    producer.flush(10)


def _seen(servers: str, copy: str, seconds: float) -> list[Seen]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(copy, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    until = time.monotonic() + START_LIMIT_S
    while not consumer.consume(1, 0.5) and time.monotonic() < until:
        pass  # the first ones are on their way
    seen: list[Seen] = []
    begin = time.monotonic() + WARM_S
    while (now := time.monotonic()) < begin + seconds:
        messages, now_ns = consumer.consume(500, 0.001), time.monotonic_ns()
        if now >= begin:
            seen += [
                (message.partition(), message.offset(), *_STAMP.unpack_from(message.value()), now_ns)
                for message in messages
                if message.error() is None
            ]
    consumer.close()
    return seen


def _table(seen: list[Seen], log: dict[str, dict[int, list[list[int]]]]) -> dict[str, float]:
    spans: dict[str, list[int]] = {}
    for partition, offset, produced, end in seen:
        before = acknowledged = produced
        for stage in [known for known in STAGES if known in log]:
            if (at := _passed(log, stage, partition, offset)) is None:
                break
            spans.setdefault(stage, []).append(at - before)
            before = acknowledged = at
        else:
            spans.setdefault("seen", []).append(end - before)
            spans.setdefault("sum", []).append(end - produced)
            if (at := _passed(log, DURABLE, partition, offset)) is not None:
                spans.setdefault(f"{DURABLE}, behind the acknowledgement", []).append(at - acknowledged)
    figures: dict[str, float] = {"records": len(spans.get("sum", ()))}
    for stage, times in spans.items():
        times.sort()
        figures[f"{stage} p50"], figures[f"{stage} p99"] = (
            round(times[int(share * len(times))] / 1e6, 2) for share in (0.5, 0.99)
        )
    return figures


def _passed(log: dict[str, dict[int, list[list[int]]]], stage: str, partition: int, offset: int) -> int | None:
    """Return when a record passed a stage: with the first step that ended behind it."""
    steps = log.get(stage, {}).get(partition, [])
    at = bisect_right(steps, offset, key=lambda step: step[0])
    return steps[at][1] if at < len(steps) else None
