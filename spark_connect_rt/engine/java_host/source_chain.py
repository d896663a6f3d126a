"""A source chain with parts that only Python has: what runs here after records crossed from their Java task.

Owns where such a chain is cut, and the crossing. Up to the first element that Java does not have everything runs
beside the task; then records cross once, as JSON with schema, and the rest of the chain and the connector's converters
run in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from spark_connect_rt.api.records import Header, SourceRecord
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.engine.java_host.chains import CutChain, Stays, crossing, java_has, with_chain
from spark_connect_rt.engine.java_host.columns import produce_batches
from spark_connect_rt.engine.java_host.plugin_folders import with_converters
from spark_connect_rt.engine.java_host.sent_frames import Segment
from spark_connect_rt.engine.java_host.stages.rows import json_with_schema, read_all
from spark_connect_rt.engine.java_host.wire import Frame
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters
from spark_connect_rt.records.pipeline.retry_tolerance import Waiting
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline


def cut_source_chain(
    config: Mapping[str, str], worker_config: Mapping[str, str], in_java: Callable[[str, str | None], bool]
) -> CutChain | None:
    """Return where a source's chain is cut; None: Java has all of it, and nothing runs in Python.

    ``in_java``: whether Java has the plug-in of this name and version. Pure.
    """
    stays = Stays(config, in_java)
    transforms = parse_value(Type.LIST, config.get("transforms") or "")
    cut = next((number for number, alias in enumerate(transforms) if not stays.step(alias)), len(transforms))
    if cut == len(transforms) and stays.converters(worker_config):
        return None
    return CutChain(with_chain(config, transforms[cut:]), crossing(with_chain(config, transforms[:cut])))


class SourceChain:
    """What of a task's chain runs where. The task's thread."""

    def __init__(
        self,
        config: Mapping[str, str],
        worker_config: Mapping[str, str],
        clients: ExecutorClients,
        waiting: Waiting,
        letters: DeadLetters | None,
    ) -> None:
        """Take resolved settings. Raises BadConfigError: of the part in Python."""
        cut = cut_source_chain(config, worker_config, java_has(clients))
        self.java = with_converters(config, worker_config) if cut is None else cut.java
        self.pipeline = (
            None
            if cut is None
            else SourcePipeline.from_config(cut.python, worker_config, clients.plugin, waiting, letters)
        )
        self._keys, self._values, self._headers = json_with_schema(), json_with_schema(), json_with_schema()

    def converted(self, frame: Frame) -> tuple[list[ConvertedBatch], list[Segment]]:
        """Return the records of a BATCH frame after the part in Python, and which of the JVM's they are.

        Raises DataError, RetryInterrupted as ``SourcePipeline.convert``.
        """
        assert self.pipeline is not None
        records = self._records(frame)
        if not records:
            return [], []
        batches = self.pipeline.convert(records)
        of_each = self.pipeline.rows_of_each
        segments = [(record.topic, rows, 1) for record, rows in zip(records, of_each, strict=True)]
        offsets = tuple((partition, offset) for partition, offset in frame.head["offsets"])
        last = len(batches) - 1
        return [
            replace(batch, source_offsets=offsets if at == last else ()) for at, batch in enumerate(batches)
        ], segments

    def _records(self, frame: Frame) -> list[SourceRecord]:
        """Return what crossed; source partition and offset are known of the whole frame only."""
        stored = frame.head["offsets"]
        partition, offset = stored[0] if len(stored) == 1 else ({}, {})
        records: list[SourceRecord] = []
        for batch in produce_batches(frame.head["sections"], frame.data):
            topic, nothing = batch.schema.metadata[TOPIC].decode(), [None] * batch.num_rows
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            keys = read_all(self._keys, columns.get("key", nothing))
            values = read_all(self._values, columns.get("value", nothing))
            rows = zip(*(columns.get(name, nothing) for name in ("partition", "timestamp", "headers")), strict=True)
            for (key_schema, key), (value_schema, value), (number, timestamp_ms, headers) in zip(
                keys, values, rows, strict=True
            ):
                records.append(
                    SourceRecord(
                        partition,
                        offset,
                        topic,
                        partition=number,
                        key_schema=key_schema,
                        key=key,
                        value_schema=value_schema,
                        value=value,
                        timestamp_ms=timestamp_ms,
                        headers=tuple(map(self._header, headers or ())),
                    )
                )
        return records

    def _header(self, header: Mapping[str, object]) -> Header:
        ((schema, value),) = read_all(self._headers, [header["value"]])  # type: ignore[list-item]
        return Header(str(header["key"]), value, schema)

    def close(self) -> None:
        """Close the transformations."""
        if self.pipeline is not None:
            self.pipeline.close()
