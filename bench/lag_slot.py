"""A slot without Spark that hosts one mirror task and notes when its records pass each hand-over.

``python -m bench.lag_slot SERVERS TOPIC ALIAS PARTITIONS FILE.json RECORDS|BATCHES``: runs until FILE.end is there,
then writes {stage: {partition: [[offset behind, ns of the monotonic clock], ...]}}. Source offsets begin at 0. For
``lag_stages``.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import SHARED_CLIENT, source_producer_properties
from spark_connect_rt.connectors.mirror.mirror_source_task import MirrorSourceTask
from spark_connect_rt.engine.executor.control_wire import encode_launch
from spark_connect_rt.engine.executor.frames import BatchHead
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.source_task import SourceTaskRunner
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.kafka.copying.batch_sender import BatchSender
from spark_connect_rt.kafka.reading.fetcher import Fetcher
from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
from spark_connect_rt.kafka.writing.producer_client import ProducerClient
from spark_connect_rt.testing.worker_settings import worker_settings

BYTES = "spark_connect_rt.records.converters.primitive_converters:ByteArrayConverter"
FETCHED, POLLED, LANE, PRODUCED = "fetched", "polled", "handed to the lane", "given to the producer"
REQUESTED, ACKNOWLEDGED, DURABLE = "in a request", "acknowledged", "durable (report)"
Put = Callable[[Any, str, Any], None]
_log: dict[str, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))


def _note(stage: str, partition: int, behind: int) -> None:
    _log[stage][partition].append((behind, time.monotonic_ns()))


def _count(stage: str, partition: int, records: int) -> None:
    passed = _log[stage][partition]
    _note(stage, partition, (passed[-1][0] if passed else 0) + records)


def _after(put: Put, kind: Any, name: str, look: Callable[..., None]) -> None:
    """Have ``look`` called with a method's result and arguments, behind it."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def watched(*arguments: Any, **named: Any) -> Any:
        result = method(*arguments, **named)
        look(result, *arguments, **named)
        return result

    put(kind, name, watched)


def watch(records: bool, put: Put = setattr) -> None:
    """Have each hand-over of one way noted; ``put``: as ``setattr``, of classes."""
    taken = Fetcher._take

    async def take(self: Fetcher, answer: Any, asked: Any) -> None:
        before = len(self.answers)
        await taken(self, answer, asked)
        for partition_answer in list(self.answers)[before:]:
            _note(FETCHED, partition_answer.partition.partition, partition_answer.reading.fetch_at or 0)

    put(Fetcher, "_take", take)

    def heads(stage: str) -> Callable[..., None]:
        def look(_: Any, __: Any, row: Any) -> None:
            offsets = (
                row.source_offsets if hasattr(row, "source_offsets") else BatchHead.decode(row.head).source_offsets
            )
            for partition, offset in offsets:
                _note(stage, partition["partition"], offset["offset"] + 1)

        return look

    _after(put, SourceTaskWriter, "report_durable", _durable)
    if not records:
        _after(
            put, BatchSender, "_content", lambda _, __, piece: _note(REQUESTED, piece.source.partition, piece.last + 1)
        )
        _after(put, BatchSender, "_take", _acknowledged)
        return
    _after(put, MirrorSourceTask, "poll", _polled)
    _after(put, SourceTaskRunner, "send", heads(LANE))
    _after(put, SourceTaskWriter, "_produce", heads(PRODUCED))
    sent = ProducerClient.send

    async def send(self: ProducerClient, place: Any, batch: Any) -> Any:
        batch.requested.add_done_callback(lambda _: _count(REQUESTED, place.partition, batch.record_count()))
        return await sent(self, place, batch)

    put(ProducerClient, "send", send)
    _after(
        put,
        ColumnProducer,
        "_delivered",
        lambda _, __, p, ___, rows: _count(ACKNOWLEDGED, p.partition, len(rows.sizes)),
    )


def _polled(found: Any, _: Any) -> None:
    for batch in found or ():
        _count(POLLED, batch.partition, len(batch.values))


def _acknowledged(_: Any, __: Any, place: Any, piece: Any, outcome: Any) -> None:
    if not outcome.code:
        _note(ACKNOWLEDGED, place.partition, piece.last + 1)


def _durable(_: Any, __: Any, ___: int, **fields: Any) -> None:
    for partition, offset in fields["source_offsets"]:
        _note(DURABLE, partition["partition"], offset["offset"] + 1)


class _Driver:
    """Answers what a driver would: nothing is stored, each durable batch is said."""

    def __init__(self) -> None:
        self.side = ReaderSide(KafkaExecutorClients(), self._take)
        threading.Thread(target=lambda: [None for _ in self.side.rows()], daemon=True).start()

    def _take(self, message: Mapping[str, Any]) -> None:
        if message["op"] == "offsets":
            answer = {"op": "offsets", "id": message["id"], "answer": [None] * len(message["partitions"])}
            threading.Thread(target=self.side.handle, args=(answer,)).start()
        elif message["op"] == "durable":
            delivered = message.get("delivered", ())
            self.side.handle({"op": "durable", "host": 1, "rows": message["rows"], "delivered": delivered})
        elif message["op"] in ("failed", "lost"):
            print(message, file=sys.stderr)


def main(servers: str, topic: str, alias: str, partitions: int, file: Path, records: bool) -> None:
    """Copy until the file's end mark is there, then write what was noted."""
    watch(records)
    ways = {"connectrt.mirror.batches": "never"} if records else {}
    config = {
        "name": f"mirror-{alias}",
        "source.cluster.alias": alias,
        "target.cluster.alias": "bench",
        **{f"{side}.cluster.bootstrap.servers": servers for side in ("source", "target")},
        "offset-syncs.topic.replication.factor": "1",
        "task.assigned.partitions": ",".join(f"{topic}-{number}" for number in range(partitions)),
        **ways,
    }
    producer = source_producer_properties(worker_settings({"bootstrap.servers": servers}), ways, config["name"], 0)
    launch = TaskLaunch(
        ConnectorTaskId(config["name"], 0),
        1,
        1,
        TaskKind.SOURCE,
        f"{MirrorSourceTask.__module__}:{MirrorSourceTask.__qualname__}",
        config,
        config,
        {f"{part}.converter": BYTES for part in ("key", "value", "header")},
        {**producer, **SHARED_CLIENT},
        fused=True,
    )
    _Driver().side.handle({"op": "start", "host": 1, "launch": encode_launch(launch)})
    while not file.with_suffix(".end").exists():
        time.sleep(0.05)
    file.write_text(json.dumps(_log))


if __name__ == "__main__":
    said = sys.argv[1:]
    main(said[0], said[1], said[2], int(said[3]), Path(said[4]), said[5] == "RECORDS")
