"""Offsets: what a long offset topic costs a start. 2,000,000 records of 1,000 keys in 25 partitions, never compacted.

``answered_s``: process start to the first right answer of ``GET /connectors/NAME/offsets``, which waits for that topic;
"(empty)" is the same with nothing in it, "(10 M)" with 10,000,000 records, "(warm)" a second start beside the snapshot
that the first one left. ``load_s``: only our store, in this process, cold and from its snapshot;
limit is a bare consumer that counts the same records and keeps none: ``answered_s`` of its process, ``load_s`` alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.floor import bare_read, consume_start_s
from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.errors import StartupError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.log_snapshot import LogCache
from spark_connect_rt.topics.offset_store import OffsetStore
from tests.support.worker_process import WorkerProcess

TARGET, LONGER_TARGET, LOAD_TARGET_S, WARM_TARGET_S = 0.5, 0.3, 3.0, 0.5
FULL, LONGER, SMALL = 2_000_000, 10_000_000, 20_000
KEYS, CONNECTORS, PARTITIONS = 1_000, 100, 25
CONNECTOR = "connector-000"
ANSWER_LIMIT_S = 120.0


def run(lab: Lab, short: bool) -> Result:
    """The store alone, then whole workers in turn: Java and ours, long topic and empty, ours once more warm."""
    count, times = (SMALL, 1) if short else (FULL, 3)
    result = Result("offsets", "s from process start to offsets answered", "answered_s", False, f"<={TARGET}")
    topic = _filled(lab, count)
    for _ in range(times):
        _limit(lab, topic, count)  # once unseen: the broker's first read is from the disk
        result.runs.append(Run("limit", _limit(lab, topic, count)))
        _store_alone(lab, result, topic)
    for _ in range(times):
        for who in ("java", "ours"):
            _start(lab, result, who, topic)
            if not short:
                _start(lab, result, who, None)
    lab.delete_topic(topic)
    if not short:
        longer = _filled(lab, LONGER)
        result.runs.append(Run("limit (10 M)", _limit(lab, longer, LONGER)))
        for who in ("java", "ours"):
            _start(lab, result, who, longer, " (10 M)")
        lab.delete_topic(longer)
    result.conclude()
    _notes(lab, result, count)
    ratios = [result.ratio] if short else [result.ratio, _longer_ratio(result)]
    targets = (TARGET, LONGER_TARGET)
    result.met = all(ratio is not None and ratio <= target for ratio, target in zip(ratios, targets, strict=False))
    return result


def _longer_ratio(result: Result) -> float | None:
    ours, java = result.median("ours (10 M)"), result.median("java (10 M)")
    return None if ours is None or java is None else ours / java


def _notes(lab: Lab, result: Result, count: int) -> None:
    cold, warm = result.median("store cold", "load_s"), result.median("store warm", "load_s")
    bare = result.median("limit", "load_s")
    if cold is not None and warm is not None and bare is not None:
        met = (
            f"cold {'met' if cold <= LOAD_TARGET_S else 'missed'}, warm {'met' if warm <= WARM_TARGET_S else 'missed'}"
        )
        result.notes.append(
            f"{count:,} records loaded in {cold:.2f} s (target {LOAD_TARGET_S:.0f}), from a snapshot in {warm:.2f} s "
            f"(target {WARM_TARGET_S}); a bare consumer needs {bare:.2f} s: {met}"
        )
    for who in ("java", "ours"):
        long, empty = result.median(who), result.median(f"{who} (empty)")
        if long is not None and empty is not None:
            result.notes.append(f"{who}: the long topic costs {long - empty:+.2f} s beside an empty one")
    if (ratio := _longer_ratio(result)) is not None:
        result.notes.append(f"{LONGER:,} records: ratio {ratio:.2f} (target {LONGER_TARGET})")
    result.notes += lab.complaints


def _filled(lab: Lab, count: int) -> str:
    topic = lab.fresh("long-offsets")
    lab.create_topic(topic, PARTITIONS, cleanup_policy="compact")
    _fill(lab.bootstrap_servers, topic, count)
    return topic


def _fill(servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    keys = [
        json.dumps([f"connector-{n % CONNECTORS:03d}", {"filename": f"/data/file-{n:05d}.txt"}], separators=(",", ":"))
        for n in range(KEYS)
    ]
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b'{"position":%d}' % number, keys[number % KEYS])
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def _limit(lab: Lab, topic: str, count: int) -> dict[str, float]:
    begun = time.monotonic()
    bare_read(lab.bootstrap_servers, topic, PARTITIONS, count)
    load_s = time.monotonic() - begun
    answered_s = consume_start_s(lab.bootstrap_servers, topic, PARTITIONS, count)
    return {"answered_s": round(answered_s, 2), "load_s": round(load_s, 2)}


def _store_alone(lab: Lab, result: Result, topic: str) -> None:
    cache = LogCache(lab.folder / lab.fresh("snapshots"), lambda: time.time_ns() // 1_000_000)
    for who in ("store cold", "store warm"):
        admin = KafkaAdmin({"bootstrap.servers": lab.bootstrap_servers})
        clients = log_client_properties(
            worker_settings({"bootstrap.servers": lab.bootstrap_servers, "group.id": "store"}), "offsets"
        )
        log = KafkaCompactedLog(TopicSpec(topic, PARTITIONS, 1), admin, clients, load=LatestLoad(cache))
        store = OffsetStore(log)
        begun, cpu = time.monotonic(), time.process_time()
        store.start()
        found = len(store.connector_offsets(CONNECTOR))
        took_s, cpu_s = time.monotonic() - begun, time.process_time() - cpu
        exact = found == KEYS // CONNECTORS
        result.runs.append(Run(who, {"load_s": round(took_s, 2), "load_cpu_s": round(cpu_s, 2), "exact": exact}))
        store.stop()
        admin.close()


def _start(lab: Lab, result: Result, who: str, topic: str | None, suffix: str = "") -> None:
    if who == "ours" and (lab.java_only or lab.complaints):
        return
    given = {} if topic is None else {"offset_storage_topic": topic}
    worker = lab.java(**given) if who == "java" else lab.ours(**given)
    _prepare(lab, worker, topic is None)
    label = f"{who}{suffix}" if topic else f"{who} (empty)"
    wanted = KEYS // CONNECTORS if topic else 0
    try:
        result.runs.append(Run(label, {"answered_s": _answered_s(worker, wanted), "exact": True}))
        if who == "ours" and topic:
            worker.stop()
            result.runs.append(Run(f"ours (warm){suffix}", {"answered_s": _answered_s(worker, wanted), "exact": True}))
    except StartupError as error:
        lab.complaints.append(f"{who} did not start: {str(error)[-400:]}")
    worker.stop()


def _prepare(lab: Lab, worker: WorkerProcess, with_offsets: bool) -> None:
    """Create the topics, with one stopped connector in the first."""
    kinds = (("configs", 1), ("statuses", 5), *((("offsets", PARTITIONS),) if with_offsets else ()))
    for kind, partitions in kinds:
        lab.create_topic(f"{worker.group_id}-{kind}", partitions, cleanup_policy="compact")
    config = {
        "name": CONNECTOR,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(Path(worker.directory) / "none.txt"),
        "topic": "none",
    }
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers})
    topic = f"{worker.group_id}-configs"
    producer.produce(topic, b'{"state":"PAUSED","state.v2":"STOPPED"}', f"target-state-{CONNECTOR}")
    producer.produce(topic, json.dumps({"properties": config}), f"connector-{CONNECTOR}")
    producer.produce(topic, b'{"tasks":0}', f"commit-{CONNECTOR}")
    assert producer.flush(30) == 0


def _answered_s(worker: WorkerProcess, wanted: int) -> float:
    begun = time.monotonic()
    worker.launch()
    worker.await_answer("/")
    path = f"/connectors/{CONNECTOR}/offsets"
    while time.monotonic() - begun < ANSWER_LIMIT_S:
        answer = worker.rest.request("GET", path)
        if answer.status == 200 and len(answer.json()["offsets"]) == wanted:
            return round(time.monotonic() - begun, 2)
        time.sleep(0.02)
    raise StartupError(f"no right answer of {path} in {ANSWER_LIMIT_S:.0f} s: {answer.body!r}", exit_code=17)
