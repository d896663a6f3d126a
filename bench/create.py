"""Creation: 5,000 connectors in a row by REST, and how long reads take meanwhile.

One client creates, one request after the other, as a script does; another reads all the while, in turn the names of
all connectors and one's status. As in ``rest``, the connectors are STOPPED: 5,000 tasks do not run on a small machine,
neither as Java's threads nor as Spark's slots, and what a creation costs a worker (the config topic, the group, the
herder) is the same. Every side begins empty. Java takes a rebalance for each, so it creates for a minute only;
``create_ms`` and ``cpu_ms`` are of one creation (``cpu_first_ms`` and ``cpu_last_ms``: of the first and the last tenth,
which shows what grows with the count), and ``in_all_s`` is what 5,000 take at that pace. ``settled_s``: from the first
request until all of them say that they are STOPPED. limit is one transaction of two records each, by a bare producer.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from itertools import pairwise
from typing import Any, Self

import orjson
import psutil
from confluent_kafka import Producer

from bench.caller import Caller
from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.rest import CONFIG
from spark_connect_rt.topics import config_records
from tests.support.connect_rest import ConnectRest
from tests.support.worker_process import WorkerProcess

TARGET_S, READ_TARGET_MS = 30.0, 50.0
FULL, SMALL, CONTROL = 5_000, 10, 100
JAVA_LIMIT_S = 60.0
SETTLED_LIMIT_S = 120.0
READ_EACH_S = 0.02
STOPPED = b'"connector":{"state":"STOPPED"'


def run(lab: Lab, short: bool) -> Result:
    """Java beside itself, then Java and ours."""
    result = Result("create", "s to create 5,000 connectors", "in_all_s", False, f"<={TARGET_S:.0f}s,reads<50ms")
    count = SMALL if short else FULL
    for who, worker in lab.sides():
        if who == "java" and not short:
            result.runs += [Run("java (control)", _measure(lab, worker, CONTROL, JAVA_LIMIT_S)) for _ in range(2)]
        limit_s = JAVA_LIMIT_S if who == "java" else 20 * TARGET_S
        result.runs.append(Run(who, _measure(lab, worker, count, limit_s)))
        lab.done_with(worker)
    result.runs.append(Run("limit", _produce(lab, count)))
    result.conclude()
    reads = result.median("ours", "read_p99_ms")
    result.met = result.ours is not None and result.ours <= TARGET_S and reads is not None and reads < READ_TARGET_MS
    result.note_ratio("CPU of a creation", result.ratio_of("cpu_ms"))
    result.note_ratio("p99 of a read meanwhile", result.ratio_of("read_p99_ms"))
    result.notes += lab.complaints
    return result


def _measure(lab: Lab, worker: WorkerProcess, count: int, limit_s: float) -> dict[str, Any]:
    """Create ``count``, or as many as the time allows; few are deleted again: a short run shares its workers."""
    names, create_ms, caller = list[str](), list[float](), Caller(worker)
    before = worker.rest.request("GET", "/connectors?expand=status").body.count(STOPPED)
    begun, tenths = time.monotonic(), {0: _cpu_s(worker)}
    with CpuMeter(worker.processes) as meter:
        with _Reads(worker) as reads:
            while len(names) < count and time.monotonic() - begun < limit_s:
                names.append(lab.fresh("created"))
                create_ms.append(caller.create(names[-1], CONFIG, initial_state="STOPPED"))
                if len(names) % max(1, count // 10) == 0:
                    tenths[len(names)] = _cpu_s(worker)
        created_s = time.monotonic() - begun
        stopped = _await_stopped(worker.rest, before + len(names)) - before
        settled_s = time.monotonic() - begun
    caller.close()
    for name in names if count < FULL else ():
        worker.rest.delete(name)
    return {
        "created": len(names),
        "in_all_s": round(created_s * FULL / len(names), 1),
        "create_ms": round(statistics.median(create_ms), 1),
        "create_p99_ms": round(_p99(create_ms), 1),
        "cpu_ms": round(1000 * meter.used_s / len(names), 1),
        **_of_tenths(tenths),
        "settled_s": round(settled_s, 1),
        "read_ms": round(statistics.median(reads.took_ms), 1),
        "read_p99_ms": round(_p99(reads.took_ms), 1),
        "reads": len(reads.took_ms),
        "exact": stopped == len(names) and not reads.refused,
    }


def _cpu_s(worker: WorkerProcess) -> float:
    used_s = 0.0
    for process in worker.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            used_s += sum(process.cpu_times()[:2])
    return used_s


def _of_tenths(cpu_s: dict[int, float]) -> dict[str, float]:
    """Return what a creation cost in the first and in the last whole tenth; ``cpu_s`` is by the number created."""
    steps = [1000 * (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(cpu_s.items())]
    return {"cpu_first_ms": round(steps[0], 1), "cpu_last_ms": round(steps[-1], 1)} if steps else {}


def _await_stopped(rest: ConnectRest, at_least: int) -> int:
    end_s = time.monotonic() + SETTLED_LIMIT_S
    while (stopped := rest.request("GET", "/connectors?expand=status").body.count(STOPPED)) < at_least:
        if time.monotonic() > end_s:
            break
        time.sleep(0.2)
    return stopped


class _Reads:
    """``with _Reads(worker) as reads: ...; reads.took_ms``: reads on a thread of its own, at an even pace."""

    def __init__(self, worker: WorkerProcess) -> None:
        self.took_ms: list[float] = []
        self.refused = 0
        self._caller = Caller(worker)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reads", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._caller.close()

    def _run(self) -> None:
        name = ""
        while not self._done.wait(READ_EACH_S) or not self.took_ms:
            path = f"/connectors/{name}/status" if name and len(self.took_ms) % 2 else "/connectors"
            begun = time.monotonic()
            status, body = self._caller.call("GET", path)
            self.took_ms.append((time.monotonic() - begun) * 1000)
            # 404: a connector that was created a moment ago has no status yet
            self.refused += status not in ((200,) if path == "/connectors" else (200, 404))
            if path == "/connectors" and (names := orjson.loads(body)):
                name = names[-1]


def _produce(lab: Lab, count: int) -> dict[str, Any]:
    topic = lab.fresh("bare")
    lab.create_topic(topic)
    producer = Producer(
        {"bootstrap.servers": lab.bootstrap_servers, "transactional.id": topic, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(30)
    begun = time.monotonic()
    some = min(count, 200)
    for number in range(some):
        name = f"connector-{number:04d}"
        producer.begin_transaction()
        producer.produce(topic, config_records.encode_target_state("STOPPED"), config_records.target_state_key(name))
        producer.produce(
            topic, config_records.encode_properties({**CONFIG, "name": name}), config_records.connector_key(name)
        )
        producer.commit_transaction(30)
    took_s = time.monotonic() - begun
    lab.delete_topic(topic)
    return {"created": some, "in_all_s": round(took_s * FULL / some, 1), "create_ms": round(took_s * 1000 / some, 1)}


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, -(-len(values) * 99 // 100) - 1)]
