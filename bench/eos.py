"""What exactly-once costs: the file source of ``bench.source`` with and without transactions, ours and Java in turn.

``limit`` is ours at least once, so the share of the limit is what exactly-once leaves; in each turn it is run a second
time, which says what a difference must exceed. Ours gets four times as many lines: a run has to hold many transactions.
``first_s`` is counted from the create request to the first record that a reader of committed data may have. A run is
``exact`` when such readers get the file: same count, same SHA-256.
"""

from __future__ import annotations

import hashlib
import time

from confluent_kafka import Consumer, TopicPartition

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.source import Input, watch, write_input
from tests.support.worker_process import WorkerProcess

TARGET = 1.5  # ours to Java's, both exactly once
CONTROL = "limit (control)"
OURS_TIMES = 4  # as many lines
ENABLED = {"exactly_once_source_support": "enabled"}


def run(lab: Lab, short: bool) -> Result:
    """Warm all four workers, then measure them in turn."""
    lines, times = (20_000, 1) if short else (1_500_000, 3)
    small = write_input(lab.folder / "once.txt", lines)
    large = small if short else write_input(lab.folder / "often.txt", OURS_TIMES * lines)
    result = Result("eos", "records/s of one exactly-once FileStreamSource task", "records_per_s", True, f">={TARGET}")
    plain = {"java": "java at least once", "ours": "limit"}
    sides = [(plain[who], worker) for who, worker in lab.sides()]
    transactional: list[tuple[str, WorkerProcess]] = [("java", lab.java(**ENABLED))]
    if not lab.java_only:
        transactional.append(("ours", lab.ours(**ENABLED)))
    for _, started in transactional:
        started.launch()
    for _, started in transactional:
        started.await_answer("/health")
    sides += transactional
    if not short:
        result.runs += [_move(lab, f"{who} (warm-up)", worker, small) for who, worker in sides]
        sides += [(CONTROL, worker) for who, worker in sides if who == "limit"]
    for _ in range(times):
        for who, worker in sides:
            result.runs.append(_move(lab, who, worker, small if who.startswith("java") else large))
    for _, started in transactional:
        started.stop()
    result.conclude()
    exact = all(turn.figures["exact"] for turn in result.runs)
    result.met = exact and result.ratio is not None and result.ratio >= TARGET
    _note(result, exact, lab)
    return result


def _note(result: Result, exact: bool, lab: Lab) -> None:
    for who, with_it, without in (("ours", "ours", "limit"), ("Java", "java", "java at least once")):
        fast, safe = result.median(without), result.median(with_it)
        if fast and safe:
            result.notes.append(f"exactly-once costs {who} {100 * (1 - safe / fast):.0f} % of the records a second")
        cheap, dear = result.median(without, "cpu_s"), result.median(with_it, "cpu_s")
        if cheap and dear:
            result.notes.append(f"and {100 * (dear / cheap - 1):+.0f} % of the worker's CPU seconds")
        soon, late = result.median(without, "first_s"), result.median(with_it, "first_s")
        if soon and late:
            result.notes.append(f"and {late - soon:.2f} s until the first record")
    for words, figure in (("records a second", "records_per_s"), ("CPU seconds", "cpu_s")):
        median, other = result.median("limit", figure), result.median(CONTROL, figure)
        if median and other:
            result.notes.append(f"A/A, ours at least once beside itself, {words}: ratio {other / median:.2f}")
    if not exact:
        result.notes.append("NOT EXACT: readers of committed data did not get the file (see the runs)")
    result.notes += lab.complaints


def _move(lab: Lab, who: str, worker: WorkerProcess, given: Input) -> Run:
    name, topic = lab.fresh("once"), lab.fresh("once-lines")
    lab.create_topic(topic)
    truth = TopicTruth(lab.bootstrap_servers, topic)
    truth.end()
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(given.file), "topic": topic}
    with CpuMeter(worker.processes) as meter:
        begun = time.monotonic()
        worker.rest.create(name, config)
        figures: dict[str, float] = watch(truth, given.lines, begun)
        digest = _committed(lab.bootstrap_servers, topic, given.lines)
    truth.close()
    worker.rest.delete(name)
    lab.delete_topic(topic)
    return Run(who, {**figures, "cpu_s": round(meter.used_s, 1), "exact": digest == (given.lines, given.sha256)})


def _committed(bootstrap_servers: str, topic: str, lines: int, limit_s: float = 60.0) -> tuple[int, str]:
    """Return count and SHA-256 of what is committed, awaiting ``lines`` records; a transaction's marker is none."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "truth",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 << 20,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    digest, count = hashlib.sha256(), 0
    deadline = time.monotonic() + limit_s
    quiet = False
    while not (count >= lines and quiet) and time.monotonic() < deadline:
        values = [message.value() for message in consumer.consume(10_000, timeout=0.5) if message.error() is None]
        quiet = not values  # nothing came behind the last line
        count += len(values)
        digest.update(b"".join(value + b"\n" for value in values))
    consumer.close()
    return count, digest.hexdigest()
