"""One process that hosts an exactly-once source task over a real Kafka, and dies or freezes where it is told.

The engine, hosts and lanes are the real ones, on threads instead of Spark's processes; the signal comes from inside
the producer, at a numbered step of its n-th transaction (docs/decisions/0008). Exit codes: 0 the file is read to its
end and committed, 3 the task FAILED (its trace is printed).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import exactly_once_producer_properties, log_client_properties
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.engine.task_runner import BatchDurable, Start, TaskEvent, TaskFailed, TaskKind, TaskLaunch
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import TransactionalProducer
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.offset_store import OffsetStore

FENCED_EXIT = 3


class _Producer:
    """A producer that signals its own process at one step of one transaction."""

    def __init__(self, producer: TransactionalProducer, plan: Mapping[str, Any]) -> None:
        self._producer = producer
        self._plan = plan
        self._number = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def begin(self) -> None:
        self._number += 1
        self._at("before begin")
        self._producer.begin()

    def produce(self, batch: pa.RecordBatch) -> None:
        self._producer.produce(batch)
        to_offsets = (batch.schema.metadata or {}).get(TOPIC) == self._plan["offsets"].encode()
        self._producer.flush(60_000)  # the broker has them: what is left behind is really there
        self._at("offsets sent" if to_offsets else "records sent")

    def commit(self, timeout_ms: int) -> None:
        if self._is_now("in commit"):
            threading.Timer(self._plan["delay_s"], self._signal).start()
        self._producer.commit(timeout_ms)
        self._at("committed")

    def _at(self, step: str) -> None:
        if self._is_now(step):
            self._signal()

    def _is_now(self, step: str) -> bool:
        return (step, self._number) == (self._plan["step"], self._plan["nth"])

    def _signal(self) -> None:
        os.kill(os.getpid(), self._plan["signal"])


class _Clients(KafkaExecutorClients):
    def __init__(self, plan: Mapping[str, Any]) -> None:
        super().__init__()
        self._plan = plan

    def transactional_producer(self, config: Mapping[str, str]) -> Any:
        kinds = {"columns": ColumnTransactionalProducer, "records": KafkaTransactionalProducer}
        producer = super().transactional_producer(config)
        assert isinstance(producer, kinds[self._plan["kind"]])
        return _Producer(producer, self._plan)


def main(plan: Mapping[str, Any]) -> int:
    """Run until the file is read, the task has failed, or the process is killed."""
    worker = {
        "bootstrap.servers": plan["servers"],
        "group.id": plan["group"],
        "exactly.once.source.support": "enabled",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    clients = log_client_properties(worker_settings(worker), "offsets")
    log = KafkaCompactedLog(
        TopicSpec(plan["offsets"], 2, 1), KafkaAdmin({"bootstrap.servers": plan["servers"]}), clients, load=LatestLoad()
    )
    store = OffsetStore(log)
    store.start()
    over, size = threading.Event(), os.path.getsize(plan["file"])
    codes: list[int] = []

    def on_event(event: TaskEvent) -> None:
        if isinstance(event, TaskFailed):
            print(event.trace, flush=True)
            codes.append(FENCED_EXIT)
            over.set()
        elif isinstance(event, BatchDurable) and any((o or {})["position"] == size for _, o in event.source_offsets):
            codes.append(0)
            over.set()

    def read_offsets(task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return list(store.read(task.connector, partitions))

    launch = TaskLaunch(
        ConnectorTaskId("c", 0),
        1,
        1,
        TaskKind.SOURCE,
        "spark_connect_rt.connectors.files.file_stream_source:FileStreamSourceTask",
        {"file": plan["file"], "topic": plan["topic"], "batch.size": "1000"},
        plan["connector"],
        worker,
        exactly_once_producer_properties(worker_settings(worker), plan["connector"], "c", 0),
        offsets_topic=plan["offsets"],
    )
    runner = MemoryTaskRunner(_Clients(plan))
    runner.open(on_event, read_offsets)
    runner.do(Start(launch))
    over.wait()
    runner.close(10_000)
    store.stop()
    return codes[0]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    sys.exit(main({"step": "", "nth": 0, "delay_s": 0.0, "signal": signal.SIGKILL, **given}))
