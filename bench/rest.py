"""REST: 2,000 connectors in one worker. ``list_ms``: ``GET`` of all with status and info; ``create_ms``: one more.

2,000 tasks cannot run on a small machine, neither as Java's threads nor as Spark's slots, so both workers hold
connectors that are STOPPED (configured, assigned, started as such, without tasks). All but the created ones are in the
config topic before a worker starts, as after a hand-over: Java would take half an hour to create them.
"ours (1 task each)" is the list of 2,000 RUNNING connectors with a task each: stores, herder and server alone.
limit is the same server with the same bytes ready. Milliseconds are medians; create_ms ends with the answer 201, and
the rebalance that a create causes is part of the next one's wait. ``..._cpu_ms`` is what a request costs all processes
of the worker (reads alone and limit: server and client), on the average; a busy machine changes it least.
"""

from __future__ import annotations

import statistics
import time

from confluent_kafka import Producer

from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.rest_reads import running_connectors, those_bytes
from spark_connect_rt.errors import ConnectError, StartupError
from spark_connect_rt.topics import config_records
from tests.support.connect_rest import ConnectRest
from tests.support.worker_process import WorkerProcess

LIST_TARGET_MS, CREATE_TARGET_MS = 150.0, 100.0
FULL, SMALL = 2_000, 5
READS = 30
CREATES = {"java": 10, "ours": 50}
LIST = "/connectors?expand=status&expand=info"
SETTLED_LIMIT_S = 300.0

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "file": "none.txt",
    "topic": "none",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "errors.tolerance": "none",
}


def run(lab: Lab, short: bool) -> Result:
    """The reads alone and the limit; then Java and ours on topics of the same content."""
    targets = f"list<{LIST_TARGET_MS:.0f}ms,create<{CREATE_TARGET_MS:.0f}ms"
    result = Result("rest", "ms a request, 2,000 connectors", "list_ms", False, targets)
    count = SMALL if short else FULL
    _reads_alone(result, count)
    for who in ("java", "ours"):
        worker = lab.side(who) if short else _handed_over(lab, who, count - CREATES[who])
        if worker is not None:
            _measure(lab, result, who, worker, SMALL if short else CREATES[who], count)
            lab.done_with(worker)
    result.conclude()
    _notes(lab, result)
    create = result.median("ours", "create_ms")
    fast = result.ours is not None and result.ours < LIST_TARGET_MS
    result.met = fast and create is not None and create < CREATE_TARGET_MS
    return result


def _handed_over(lab: Lab, who: str, count: int) -> WorkerProcess | None:
    """Start a worker on a config topic that holds ``count`` stopped connectors."""
    if who == "ours" and lab.java_only:
        return None
    worker = lab.java() if who == "java" else lab.ours()
    for kind, partitions in (("configs", 1), ("statuses", 5), ("offsets", 25)):
        lab.create_topic(f"{worker.group_id}-{kind}", partitions, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "queue.buffering.max.messages": 100_000})
    topic, stopped = f"{worker.group_id}-configs", config_records.encode_target_state("STOPPED")
    for number in range(count):
        name = f"connector-{number:04d}"
        producer.produce(topic, stopped, config_records.target_state_key(name))
        producer.produce(
            topic, config_records.encode_properties({**CONFIG, "name": name}), config_records.connector_key(name)
        )
    assert producer.flush(60) == 0
    try:
        worker.launch()
        worker.await_answer("/health", SETTLED_LIMIT_S)
        _await_stopped(worker.rest, count)
    except (StartupError, ConnectError) as error:
        lab.complaints.append(f"{who}: {str(error)[-400:]}")
        return None
    return worker


def _measure(lab: Lab, result: Result, who: str, worker: WorkerProcess, creates: int, count: int) -> None:
    rest = worker.rest
    mine = [lab.fresh("created") for _ in range(creates)]
    create_ms = []
    with CpuMeter(worker.processes) as creating:
        for name in mine:
            body = {"name": name, "config": CONFIG, "initial_state": "STOPPED"}
            create_ms.append(_timed_ms(lambda body=body: rest.settled("POST", "/connectors", body).status == 201))
        listed = _await_stopped(rest, count)
    with CpuMeter(worker.processes) as reading:
        list_ms = [_timed_ms(lambda: rest.request("GET", LIST).status == 200) for _ in range(READS)]
    names_ms = [_timed_ms(lambda: rest.request("GET", "/connectors").status == 200) for _ in range(READS)]
    figures = {
        "list_ms": round(statistics.median(list_ms), 1),
        "list_worst_ms": round(max(list_ms), 1),
        "names_ms": round(statistics.median(names_ms), 1),
        "list_cpu_ms": round(reading.used_s * 1000 / READS, 1),
        "create_cpu_ms": round(creating.used_s * 1000 / creates, 1),
        "create_ms": round(statistics.median(create_ms), 1),
        "create_worst_ms": round(max(create_ms), 1),
        "created": creates,
        "connectors": listed,
        "exact": listed == count,
    }
    result.runs.append(Run(who, figures))
    for name in mine if count == SMALL else ():  # the next benchmark meets the same worker
        rest.delete(name)


def _reads_alone(result: Result, count: int) -> None:
    with running_connectors(count, CONFIG) as url, ConnectRest(url) as rest:
        body = rest.request("GET", LIST).body
        exact = body.count(b'"tasks":[{"id":0') == count
        result.runs.append(Run("ours (1 task each)", {**_listed(rest), "connectors": count, "exact": exact}))
    with those_bytes(body) as url, ConnectRest(url) as rest:
        result.runs.append(Run("limit", {**_listed(rest), "connectors": count}))
    result.notes.append(f"the list with a task each is {len(body) / 1e6:.2f} MB")


def _listed(rest: ConnectRest) -> dict[str, float]:
    """Return what lists take from a server of this process."""
    cpu_s = time.process_time()
    list_ms = [_timed_ms(lambda: rest.request("GET", LIST).status == 200) for _ in range(READS)]
    cpu_ms = (time.process_time() - cpu_s) * 1000 / READS
    return {
        "list_ms": round(statistics.median(list_ms), 1),
        "list_worst_ms": round(max(list_ms), 1),
        "list_cpu_ms": round(cpu_ms, 1),
    }


def _await_stopped(rest: ConnectRest, at_least: int) -> int:
    """Wait until so many connectors say that they are STOPPED; return how many there are."""
    end_s = time.monotonic() + SETTLED_LIMIT_S
    while True:
        answer = rest.request("GET", LIST)
        stopped = answer.body.count(b'"connector":{"state":"STOPPED"') if answer.status == 200 else 0
        if stopped >= at_least or time.monotonic() > end_s:
            return stopped
        time.sleep(0.2)


def _notes(lab: Lab, result: Result) -> None:
    result.note_ratio("create", result.ratio_of("create_ms"))
    result.note_ratio("CPU of a create", result.ratio_of("create_cpu_ms"))
    result.note_ratio("CPU of a list", result.ratio_of("list_cpu_ms"))
    with_tasks = result.median("ours (1 task each)")
    if with_tasks is not None:
        result.notes.append(f"ours with a task each: {with_tasks:.0f} ms (target {LIST_TARGET_MS:.0f})")
    result.notes += lab.complaints


def _timed_ms(ask: object) -> float:
    """Return how long a request took. Raises ConnectError when it was not answered as it should be."""
    assert callable(ask)
    begun = time.monotonic()
    if not ask():
        raise ConnectError("a request was refused")
    return (time.monotonic() - begun) * 1000
