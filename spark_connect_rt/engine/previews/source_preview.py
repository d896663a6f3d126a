"""A source task started and polled for a preview: the seam of ``source_task.py`` with nothing behind it.

Owns what replaces the slot: an output that keeps records instead of queueing rows, a driver that knows the offsets
already. No commit hook is called, no topic made, no dead letter written. A task in a JVM hands its records over as
they were polled, as JSON with schema; the chain runs here for both kinds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from spark_connect_rt.api.data.schema import NULL
from spark_connect_rt.api.records import Header, Polled, SourceRecord
from spark_connect_rt.config.connector_config import TOPIC_NAME
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.executor.hosting import Switches, load_class
from spark_connect_rt.engine.executor.python_source import PythonSource
from spark_connect_rt.engine.executor.source_task import Durable, HostedSource, SourceParts
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.previews.model import RECORDS_MAX, Ended
from spark_connect_rt.engine.previews.shown_records import Collected, Say
from spark_connect_rt.engine.previews.stage_walk import POLLED, StageWalk, failed
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.records.pipeline.errant_records import FailedRecord
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, errant_polled, rows_of_piece
from spark_connect_rt.records.pipeline.transaction_boundaries import End
from spark_connect_rt.topics.offset_records import partition_key

JSON = "org.apache.kafka.connect.json.JsonConverter"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_CHAIN = ("transforms", "predicates", TOPIC_NAME)
IDLE_S = 5.0  # without a record after the first one: there is nothing more
FIRST_S = 10.0  # the same before the first one, of a task in this process; one in a JVM may need its whole time
STOP_MS = 3_000  # for the task's stop
_NUDGE_S = 0.2
"""How often a host that waits looks at the clock."""


def bare(config: Mapping[str, str], *, crosses: bool) -> dict[str, str]:
    """Return a connector's settings without its chain and dead letters.

    ``crosses``: its converters, too, are others: records come out of a JVM as JSON with schema. Pure.
    """
    gone = (*_CHAIN, *_CONVERTERS) if crosses else _CHAIN
    below = tuple(f"{prefix}." for prefix in gone)
    kept = {name: value for name, value in config.items() if name not in gone and not name.startswith(below)}
    if not crosses:
        return kept
    return kept | dict.fromkeys(_CONVERTERS, JSON) | {f"{name}.schemas.enable": "true" for name in _CONVERTERS}


class KnownOffsets:
    """DriverLink of a preview: the offsets came with the order, and nothing becomes durable."""

    def __init__(self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Take a connector's known (partition, offset) pairs."""
        self._connector = connector
        self._known = {partition_key(connector, partition): offset for partition, offset in offsets}

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the known offset of each source partition, in order; None where there is none."""
        return [self._known.get(partition_key(self._connector, partition)) for partition in partitions]

    def wants_commits(self, host: int) -> None:
        """See DriverLink: there are none."""


class PreviewOutput:
    """SourceOutput of a preview: keeps what was polled until it is taken."""

    def __init__(self) -> None:
        """Start with no polled records."""
        self._polled: list[SourceRecord | FailedRecord] = []
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "true", "replace.null.with.default": "false"})

    def keep(self, polled: Sequence[Polled], errants: Sequence[FailedRecord] = ()) -> None:
        """Keep what a task in this process polled, and what it could not read."""
        self._polled += errants
        for piece in polled:
            room = max(0, RECORDS_MAX - len(self._polled))
            self._polled += [
                record if unreadable is None else errant_polled(record, unreadable)
                for record, _, unreadable in islice(rows_of_piece(piece), room)
            ]

    def take(self) -> list[SourceRecord | FailedRecord]:
        """Return what was kept, once."""
        taken, self._polled = self._polled, []
        return taken

    def send(self, converted: ConvertedBatch) -> None:
        """See SourceOutput: of a task in a JVM; its rows are JSON with schema."""
        self._polled += converted.errants
        stored = converted.source_offsets
        self._polled += self._records(converted, *(stored[0] if len(stored) == 1 else ({}, {})))

    def _records(
        self, converted: ConvertedBatch, source: Mapping[str, Any], offset: Mapping[str, Any]
    ) -> Iterator[SourceRecord]:
        batch = converted.batch.slice(0, min(converted.records, RECORDS_MAX))
        metadata = batch.schema.metadata or {}
        fixed = {"topic": metadata[TOPIC].decode()} if TOPIC in metadata else {}
        number = int(metadata[PARTITION]) if PARTITION in metadata else None
        for row in batch.to_pylist():
            row = {"partition": number, **row, **fixed}
            (key_schema, key), (value_schema, value) = self._read(row.get("key")), self._read(row.get("value"))
            headers = []
            for header in row.get("headers") or ():
                schema, read = self._read(header["value"])
                headers.append(Header(header["key"], read, schema))
            yield SourceRecord(
                source,
                offset,
                row["topic"],
                value,
                value_schema,
                key,
                key_schema,
                row["partition"],
                row.get("timestamp"),
                tuple(headers),
            )

    def _read(self, data: bytes | None) -> Any:
        return NULL if data is None else self._json.to_connect_data("", data)

    def end(self, end: End) -> None:
        """See SourceOutput: nothing is written, so nothing ends."""

    def take_durable(self) -> Sequence[Durable]:
        """See SourceOutput: nothing ever is."""
        return ()


class _PolledOnly(PythonSource):
    """A Python task whose polls go to a preview's output as they are."""

    def _converted(self, polled: Sequence[Polled]) -> Any:
        errants = [errant for batch in self._pipeline.convert([]) for errant in batch.errants]
        assert isinstance(self.parts.output, PreviewOutput)
        self.parts.output.keep(polled, errants)
        return [], []


class _Ticking(threading.Thread):
    """Wakes a host that waits, so that limits are looked at. Ends with ``close``."""

    def __init__(self, switches: Switches) -> None:
        super().__init__(name="preview-clock", daemon=True)
        self._switches = switches
        self._closed = threading.Event()

    def run(self) -> None:
        """Nudge the switches regularly, until closed; the thread's body."""
        while not self._closed.wait(_NUDGE_S):
            self._switches.nudge()

    def close(self) -> None:
        """End the thread at its next wait."""
        self._closed.set()


def preview_source(
    launch: TaskLaunch,
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    clients: ExecutorClients,
    collected: Collected,
    say: Say,
) -> Ended:
    """Start, poll and stop one source task; return why it ended. Raises what its start or a poll raises."""
    ended: Ended | None = None
    config = clients.resolve(launch.connector_config, launch.worker_config)
    walk = StageWalk(config, clients.resolve(launch.worker_config, launch.worker_config), clients.plugin)
    output, switches = PreviewOutput(), Switches(paused=False)
    driver = KnownOffsets(launch.task.connector, offsets)
    task_class = load_class(launch.task_class)
    hosted = issubclass(task_class, HostedSource)
    launch = replace(launch, connector_config=StoredConfig(launch.connector_config.resolved(bare, crosses=hosted)))
    parts = SourceParts(0, launch, clients, driver, switches, TaskMeter("reader"), output, previewed=True)
    source: HostedSource = task_class(parts) if hosted else _PolledOnly(parts, task_class)
    ticking = _Ticking(switches)
    ticking.start()
    try:
        say("starting the task")
        source.prepare()
        source.start(None)
        say("polling")
        ended = _poll(source, output, walk, collected, math.inf if hosted else FIRST_S)
        return ended
    finally:
        say("stopping the task", ended)
        switches.stop(STOP_MS)
        source.stop()
        ticking.close()
        walk.close()


def is_over(has_more: bool | None, idle_s: float, patience_s: float) -> bool:
    """Return whether a source has nothing more after an empty poll.

    Args:
        has_more: the task's answer, None: it does not know.
        idle_s: seconds since the last record, or since the first poll.
        patience_s: how long a task that does not know may return nothing. Infinite: for as long as the preview lasts.
    """
    return not has_more if has_more is not None else idle_s >= patience_s


def _poll(
    source: HostedSource, output: PreviewOutput, walk: StageWalk, collected: Collected, patience_s: float
) -> Ended:
    active_s = time.monotonic()
    while (ended := collected.full) is None:
        source.poll()
        found = output.take()
        if found:
            active_s, patience_s = time.monotonic(), IDLE_S
        elif is_over(source.has_more(), time.monotonic() - active_s, patience_s):
            return Ended.NOTHING_MORE
        for errant in found:
            if collected.full is not None:
                break
            if isinstance(errant, FailedRecord):
                collected.add([failed(POLLED, errant.error)])
            else:
                collected.add(walk.of_source(errant).stages)
    return ended
