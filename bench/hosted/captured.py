"""Debezium's source on a database of each run: created, watched in its topic, compared by a digest, taken away."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.source import watch
from tests.support.captured_database import WAL, CapturedDatabase, postgres_source
from tests.support.postgres_server import PostgresServer
from tests.support.topic_content import TopicReader, placeless
from tests.support.worker_process import WorkerProcess

TABLE = "db.public.items"
SLOT_LIMIT_S = 60.0


@contextlib.contextmanager
def database_server() -> Iterator[PostgresServer]:
    """A PostgreSQL whose log can be captured."""
    with PostgresServer(**WAL, max_wal_size="8GB") as server:
        yield server


class Capture:
    """One run: a database, a connector of one side, a topic of one partition."""

    def __init__(self, lab: Lab, server: PostgresServer, worker: WorkerProcess, **more: str) -> None:
        self._lab, self._worker = lab, worker
        self.database = CapturedDatabase(server)
        self.name = lab.fresh("captured")
        self.topic = f"{self.name}.{TABLE}"
        self.config = postgres_source(self.database, self.name.replace("-", "_"), **more)
        self.config |= {"transforms.side.replacement": f"{self.name}.$1"}
        lab.create_topic(self.topic)

    def measure(self, who: str, records: int, begin: str) -> Run:
        """Create (or resume) the connector, wait for so many records; return rate, CPU seconds and their digest."""
        truth = TopicTruth(self._lab.bootstrap_servers, self.topic)
        truth.end()
        with CpuMeter(self._worker.processes) as meter:
            begun = time.monotonic()
            if begin == "create":
                self._worker.rest.create(self.name, self.config)
            else:
                self._worker.rest.settled("PUT", f"/connectors/{self.name}/resume")
            figures = watch(truth, records, begun)
        truth.close()
        return Run(who, {**figures, "cpu_s": round(meter.used_s, 1), "sha256": self._digest()})

    def first_at_s(self) -> float:
        """Return when the first record was produced, s since the epoch."""
        consumer = Consumer({"bootstrap.servers": self._lab.bootstrap_servers, "group.id": self.name})
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        first = consumer.poll(SLOT_LIMIT_S)
        consumer.close()
        if first is None or first.error() is not None:
            raise TimeoutError(f"no record of {self.topic}")
        return float(first.timestamp()[1]) / 1000

    def await_slot(self) -> None:
        """Wait until the connector streams."""
        deadline = time.monotonic() + SLOT_LIMIT_S
        while not self.database.run(
            "SELECT 1 FROM pg_replication_slots WHERE active AND database = %s", (self.database.name,)
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} opened no replication slot in {SLOT_LIMIT_S:.0f} s")
            time.sleep(0.1)

    def end(self) -> None:
        """Delete connector, slot and topic."""
        self._worker.rest.delete(self.name)
        deadline = time.monotonic() + SLOT_LIMIT_S
        free = "SELECT slot_name FROM pg_replication_slots WHERE database = %s AND active"
        while self.database.run(free, (self.database.name,)) and time.monotonic() < deadline:
            time.sleep(0.1)
        drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s AND NOT active"
        self.database.run(drop, (self.database.name,))
        self.database.close()
        self._lab.delete_topic(self.topic)

    def _digest(self) -> str:
        reader, digest = TopicReader(self._lab.bootstrap_servers), hashlib.sha256()
        for content in reader.read(self.topic):
            digest.update((content.key or b"") + b"\n" + placeless(content.value or b"", self.database.name) + b"\n")
        reader.close()
        return digest.hexdigest()


def mark_exact(result: Result) -> None:
    """Say of each run whether its topic is byte for byte (but for clocks and places) what Java's first one is."""
    truth = next(run.figures["sha256"] for run in result.runs if run.who.startswith("java"))
    for run in result.runs:
        run.figures["exact"] = run.figures.pop("sha256") == truth
