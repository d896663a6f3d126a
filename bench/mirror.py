"""MirrorMaker 2: one MirrorSource task copies a topic of 8 partitions; ours and warm Java in turn, and a bare loop.

Source and target are one broker, so both sides of every copy share its cost. Records of 100 bytes and of 1 KB; the
rate counts from the first record that is visible in the copy to the last. A run is ``exact`` when every partition of
the copy holds what the source does. ``lag``: at 10,000 records/s, from a timestamp to a consumer of the copy;
``limit (lag)``: to the same consumer, of the source itself.
"""

from __future__ import annotations

import hashlib
import statistics
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.source import watch
from bench.turns import all_exact, note_speed, take_turns
from tests.support.worker_process import WorkerProcess

TARGET = 1.5
PARTITIONS = 8
JAVA = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
LAG_PER_S, LAG_TURN_S = 10_000, 0.01
LIMIT_S = 120.0
LOOK_S = 0.001  # a consumer's wait for more: what it waits counts as lag


@dataclass(frozen=True)
class Given:
    """The topic to copy, and the digest of each of its partitions."""

    topic: str
    records: int
    value_bytes: int
    digests: tuple[str, ...]


def run(lab: Lab, short: bool) -> Result:
    """Copy small records, then large ones, then look at the lag."""
    result = Result("mirror", "records/s of one MirrorSource task, 100 B", "records_per_s", True, f">={TARGET}")
    small = filled(lab, 20_000 if short else 2_000_000, 100)
    take_turns(result, lab, short, lambda who, worker: copied(lab, who, worker, small), lambda: bare_copied(lab, small))
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    note_speed(result, lab)
    lab.delete_topic(small.topic)
    _with_large_records(lab, result, short)
    return result


def _with_large_records(lab: Lab, result: Result, short: bool) -> None:
    large = filled(lab, 5_000 if short else 400_000, 1_024)
    for who, worker in lab.sides():
        for _ in range(1 if short else 3):
            result.runs.append(copied(lab, f"{who} (1 KB)", worker, large))
        result.runs.append(Run(f"{who} (lag)", lag(lab, worker, 1.0 if short else 20.0)))
        lab.done_with(worker)
    result.runs.append(Run("limit (lag)", bare_lag(lab, 1.0 if short else 20.0)))
    lab.delete_topic(large.topic)
    java, ours = result.median("java (1 KB)"), result.median("ours (1 KB)")
    result.note_ratio("records of 1 KB", ours / java if ours and java else None)


def filled(lab: Lab, records: int, value_bytes: int, **client: Any) -> Given:
    """Return a topic with so many records; ``client``: more of librdkafka's settings."""
    topic = lab.fresh("upstream")
    lab.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 5, **client})
    filler = b"x" * (value_bytes - 10)
    for number in range(records):
        while True:
            try:
                producer.produce(
                    topic, b"%010d%b" % (number, filler), b"key-%d" % (number % 1_000), number % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    return Given(topic, records, value_bytes, _digests(lab, topic, records))


def copied(lab: Lab, who: str, worker: WorkerProcess, given: Given, **settings: str) -> Run:
    """Copy a topic by one task; ``settings``: more of the connector's, dots as double underscores."""
    alias = lab.fresh("s")
    name, copy = f"mirror-{alias}", f"{alias}.{given.topic}"
    lab.create_topic(copy, PARTITIONS)
    ends = _Ends(lab, copy)
    ends.end()
    measured = Run(who, {})
    with CpuMeter(worker.processes) as meter, CpuMeter(lab.broker) as broker:
        begun = time.monotonic()
        worker.rest.create(name, _config(lab, alias, given.topic, settings))
        measured.figures = watch(ends, given.records, begun)  # type: ignore[arg-type]  # asks only for the end
    rate = measured.figures["records_per_s"]
    measured.figures |= {"mb_per_s": round(rate * given.value_bytes / 1e6, 1), "cpu_s": round(meter.used_s, 2)}
    measured.figures["broker_s"] = round(broker.used_s, 2)
    measured.figures |= {f"{kind}_s": round(used_s, 2) for kind, used_s in meter.used_s_by_kind.items()}
    worker.rest.delete(name)
    measured.figures["exact"] = _digests(lab, copy, given.records) == given.digests
    ends.close()
    lab.delete_topic(copy)
    return measured


def _config(lab: Lab, alias: str, topic: str, settings: Mapping[str, str]) -> dict[str, str]:
    servers = {f"{side}.cluster.bootstrap.servers": lab.bootstrap_servers for side in ("source", "target")}
    return {
        "connector.class": JAVA,
        "source.cluster.alias": alias,
        "target.cluster.alias": "bench",
        **servers,
        "topics": topic,
        "tasks.max": "1",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        **{f"{part}.converter": BYTES for part in ("key", "value", "header")},
        **{name.replace("__", "."): value for name, value in settings.items()},
    }


class _Ends:
    """How many records a topic holds, all partitions together."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._consumer = _consumer(lab)
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def end(self) -> int:
        """Return the sum of the partitions' ends: nothing was ever deleted; 0 while the new topic has no leaders."""
        try:
            ends = [
                self._consumer.get_watermark_offsets(partition, timeout=20, cached=False)
                for partition in self._partitions
            ]
        except KafkaException:
            return 0
        return sum(high for _, high in ends)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def _consumer(lab: Lab) -> Consumer:
    settings = {"bootstrap.servers": lab.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
    return Consumer({**settings, "fetch.queue.backoff.ms": 5})


def _digests(lab: Lab, topic: str, records: int) -> tuple[str, ...]:
    """Return SHA-256 of keys and values of each partition, in order."""
    consumer, digests, seen = _consumer(lab), [hashlib.sha256() for _ in range(PARTITIONS)], 0
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    until = time.monotonic() + LIMIT_S
    while seen < records and time.monotonic() < until:
        for message in consumer.consume(2_000, 0.1):
            if message.error() is None:
                digests[message.partition()].update(b"%b\n%b\n" % (message.key(), message.value()))
                seen += 1
    consumer.close()
    return tuple(digest.hexdigest() for digest in digests)


def bare_copied(lab: Lab, given: Given) -> Run:
    """Consume and produce in one loop, with keys and partitions: no engine, no offsets."""
    copy = lab.fresh("bare")
    lab.create_topic(copy, PARTITIONS)
    consumer = _consumer(lab)
    settings = {"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 5, "batch.size": 1 << 20}
    producer = Producer(settings)
    begun, seen, first_at, first = time.monotonic(), 0, 0.0, 0
    consumer.assign([TopicPartition(given.topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    while seen < given.records and time.monotonic() - begun < LIMIT_S:
        for message in consumer.consume(2_000, 0.1):
            while True:
                try:
                    producer.produce(copy, message.value(), message.key(), message.partition())
                    break
                except BufferError:
                    producer.poll(0.1)
            seen += 1
        if seen and not first:
            first_at, first = time.monotonic(), seen
        producer.poll(0)
    producer.flush(60)
    rate = round((seen - first) / (time.monotonic() - first_at))
    consumer.close()
    exact = _digests(lab, copy, given.records) == given.digests
    lab.delete_topic(copy)
    return Run("limit", {"records_per_s": rate, "mb_per_s": round(rate * given.value_bytes / 1e6, 1), "exact": exact})


def lag(lab: Lab, worker: WorkerProcess, seconds: float, **settings: str) -> dict[str, float | bool]:
    """Return p50 and p99 of (now - timestamp), ms, of records that arrive in the copy while a producer writes on."""
    alias, topic = lab.fresh("s"), lab.fresh("steady")
    name, copy = f"mirror-{alias}", f"{alias}.{topic}"
    for created in (topic, copy):
        lab.create_topic(created, PARTITIONS)
    worker.rest.create(name, _config(lab, alias, topic, settings))
    worker.rest.await_states(name, "RUNNING", ["RUNNING"])
    found = _lags(lab, topic, copy, seconds)
    worker.rest.delete(name)
    return found


def bare_lag(lab: Lab, seconds: float) -> dict[str, float | bool]:
    """Return ``lag`` of the source itself: what the producer, the broker and the consumer take without a copy."""
    topic = lab.fresh("steady")
    lab.create_topic(topic, PARTITIONS)
    return _lags(lab, topic, topic, seconds)


def _lags(lab: Lab, topic: str, copy: str, seconds: float) -> dict[str, float | bool]:
    consumer = _consumer(lab)
    consumer.assign([TopicPartition(copy, number, OFFSET_END) for number in range(PARTITIONS)])
    stop = threading.Event()
    writer = threading.Thread(target=_write_steadily, args=(lab, topic, stop))
    writer.start()
    until = time.monotonic() + LIMIT_S
    while not consumer.consume(1, 0.5) and time.monotonic() < until:
        pass  # the first ones are on their way
    lags, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        messages = consumer.consume(500, LOOK_S)
        now_ms = time.time() * 1000
        lags += [now_ms - message.timestamp()[1] for message in messages if message.error() is None]
    stop.set()
    writer.join()
    consumer.close()
    lags.sort()
    found: dict[str, float | bool] = {"seen_per_s": round(len(lags) / seconds)}
    if lags:
        found |= {"p50_ms": round(statistics.median(lags), 1), "p99_ms": round(lags[int(0.99 * len(lags))], 1)}
    return found


def _write_steadily(lab: Lab, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "linger.ms": 1})
    number, value, begun = 0, b"x" * 100, time.monotonic()
    while not stop.wait(LAG_TURN_S):
        due = int((time.monotonic() - begun) * LAG_PER_S)
        while number < due:
            producer.produce(topic, value, partition=number % PARTITIONS)
            number += 1
        producer.poll(0)
    producer.flush(10)
