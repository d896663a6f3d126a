"""Three clusters, A <-> B -> C, mirrored by one MirrorMaker at a time, Java's or ours, while numbers flow into A."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from tests.support.mirror_maker_process import JavaMirrorMaker, SparkMirrorMaker
from tests.topics import CommittedReader

FEED = "mirrored-feed"  # one partition at A; a number each record
ORDERS = "mirrored-orders"  # two partitions at A, the second one empty
BACK = "mirrored-back"  # at B
FAILOVER, CHECKED = "mirrored-failover", "mirrored-checked"  # at A
GROUP = "mirrored-shop"
ONE_COPY = (
    *("replication.factor", "heartbeats.topic.replication.factor", "checkpoints.topic.replication.factor"),
    *("offset-syncs.topic.replication.factor", "offset.storage.replication.factor"),
    *("config.storage.replication.factor", "status.storage.replication.factor"),
)
EVERY_SECOND = ("refresh.topics", "refresh.groups", "emit.checkpoints", "sync.group.offsets")


def mirror_settings(bootstrap_servers: Mapping[str, str]) -> dict[str, str]:
    """Return the file. B -> C delivers exactly once, the others at least once."""
    settings = {
        "clusters": ", ".join(bootstrap_servers),
        "A->B.enabled": "true",
        "B->A.enabled": "true",
        "B->C.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "B->A.emit.heartbeats.enabled": "true",
        "topics": ".*mirrored-.*",
        "groups": "mirrored-.*",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "5",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "C.exactly.once.source.support": "enabled",
        "B.consumer.isolation.level": "read_committed",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        "rest.advertised.host.name": "127.0.0.1",
        "plugin.discovery": "service_load",  # as JavaMirrorMaker: so both make the same configurations
        **dict.fromkeys(ONE_COPY, "1"),
        **{f"{name}.interval.seconds": "1" for name in EVERY_SECOND},
    }
    for alias, address in bootstrap_servers.items():
        settings |= {
            f"{alias}.bootstrap.servers": address,
            f"{alias}.session.timeout.ms": "6000",
            f"{alias}.heartbeat.interval.ms": "2000",
            f"{alias}.scheduled.rebalance.max.delay.ms": "0",
            f"{alias}.offset.flush.interval.ms": "500",
            f"{alias}.plugin.discovery": "service_load",
        }
    return settings


class SubmittedMirrorMaker(SparkMirrorMaker):
    """Ours, started as the README says."""

    def command(self, properties_file: Path) -> list[str]:
        """Return ``spark-submit.sh --mirror FILE``."""
        script = Path(__file__).resolve().parents[3] / "spark-submit.sh"
        return [str(script), "--mirror", *self._words(properties_file)]


class MirroredClusters:
    """The clusters, the feed, and who mirrors."""

    def __init__(self, folder: Path, clusters: Mapping[str, EmbeddedKafka]) -> None:
        """Create the topics; nobody mirrors yet."""
        self._folder = folder
        self.addresses = {alias: cluster.bootstrap_servers for alias, cluster in clusters.items()}
        self.settings = mirror_settings(self.addresses)
        self.file = folder / "mirror.properties"
        self.file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        self._admins = {alias: AdminClient({"bootstrap.servers": at}) for alias, at in self.addresses.items()}
        # All from the beginning: each new one would make the connectors configure their tasks anew.
        for alias, topic, partitions in (
            ("A", FEED, 1),
            ("A", ORDERS, 2),
            ("B", BACK, 1),
            ("A", FAILOVER, 1),
            ("A", CHECKED, 1),
        ):
            self._admins[alias].create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        self.mirror: JavaMirrorMaker | SparkMirrorMaker | None = None
        self.feed = Feed(self.addresses["A"])
        self._at_c: CommittedReader | None = None  # once the topic is there

    def topics(self, alias: str) -> set[str]:
        """Return the names of a cluster's topics."""
        return set(self._admins[alias].list_topics(timeout=20).topics)

    def produce(self, alias: str, topic: str, values: list[str]) -> None:
        """Write records with these values to partition 0, each with a key, headers and a time of its own."""
        producer = Producer({"bootstrap.servers": self.addresses[alias], "enable.idempotence": True})
        hour_ago_ms = int(time.time() * 1_000) - 3_600_000  # what is older than a week would be cleaned up
        for number, value in enumerate(values):
            headers = [("n", str(number).encode()), ("none", None)]
            producer.produce(topic, value, f"k{number}", 0, headers=headers, timestamp=hour_ago_ms + number)
        assert producer.flush(60) == 0

    def committed(self, alias: str, topic: str) -> int:
        """Return where the group is in partition 0; below 0: nowhere."""
        with_group = {"bootstrap.servers": self.addresses[alias], "group.id": GROUP}
        consumer = Consumer(with_group)
        try:
            return int(consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset)
        finally:
            consumer.close()

    def consume(self, alias: str, topic: str, count: int) -> list[str]:
        """Let the group read on so far in partition 0, and commit."""
        settings = {"bootstrap.servers": self.addresses[alias], "group.id": GROUP, "enable.auto.commit": False}
        consumer = Consumer(settings)
        values: list[str] = []
        try:
            begin = max(0, self.committed(alias, topic))
            consumer.assign([TopicPartition(topic, 0, begin)])
            while len(values) < count:
                values += [(message.value() or b"").decode() for message in consumer.consume(count - len(values), 1.0)]
            consumer.commit(offsets=[TopicPartition(topic, 0, begin + count)], asynchronous=False)
        finally:
            consumer.close()
        return values

    def fed_to_c(self) -> list[bytes]:
        """Return what a reader of committed data has got of the feed at C so far."""
        if self._at_c is None:
            topic = f"B.A.{FEED}"
            if topic not in self.topics("C"):
                return []
            self._at_c = CommittedReader(self.addresses["C"], topic)
        return [value for _, value in self._at_c.more()]

    def newest_at_c(self) -> int:
        """Return the number that came to C last; -1: none did."""
        return int((self.fed_to_c() or [b"-1"])[-1])

    def until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Await a fact; it costs a client to look, so not too often."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {limit_s} s: {what}; last said: {self.log()}")
            time.sleep(0.5)

    def start_java(self) -> None:
        """Let Java's MirrorMaker mirror."""
        self.mirror = JavaMirrorMaker(self._folder / "java", self.settings)
        self.mirror.start()

    def start_ours(self) -> None:
        """Let ours mirror."""
        self.mirror = SubmittedMirrorMaker(self._folder / "ours", {**self.settings, "spark.master": "local[*]"})
        self.mirror.start()

    def stop(self) -> int | None:
        """Stop whoever mirrors, in order; return the exit code."""
        assert self.mirror is not None
        return self.mirror.stop(90.0)

    def log(self) -> str:
        """Return the end of what whoever mirrors says."""
        assert self.mirror is not None
        return self.mirror.log_file.read_text(encoding="utf-8", errors="replace")[-3000:]

    def ask(self, *words: str) -> tuple[int, Any]:
        """Run ``connectrt mirror ... --json``; return exit code and answer."""
        done = CliRunner().invoke(cli, ["mirror", *words, "--json"])
        return done.exit_code, json.loads(done.stdout) if done.stdout else done.output

    def close(self) -> None:
        """End everything but the clusters."""
        self.feed.stop()
        if self._at_c is not None:
            self._at_c.close()
        if self.mirror is not None:
            self.mirror.stop()


class Feed:
    """Writes numbers into the feed, some a second, until stopped."""

    def __init__(self, bootstrap_servers: str, every_s: float = 0.02) -> None:
        self.written = 0
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Write no more; return how many numbers there are."""
        self._stopped.set()
        self._thread.join(60)
        return self.written

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._producer.produce(FEED, str(self.written), str(self.written), 0)
            self.written += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
