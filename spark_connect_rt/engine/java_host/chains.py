"""Where the chain of a Java task is cut if only Python has some of its parts, and how records cross the cut.

A sink's chain runs in Python up to the last part that Java lacks. Then records cross once, as JSON with schema, and the
rest runs in the JVM. The task sees the topic at the crossing as the original topic of a record.

A source's chain runs in the JVM up to the first part that Java lacks. Then records cross once in the same form, and the
rest of the chain and the connector's converters run in Python.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.plugin_modules import of_runtime, versioned
from spark_connect_rt.api.records import ConsumedRecord, ConsumeRow, Header, SourceRecord
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.hosting import monotonic_ms
from spark_connect_rt.engine.executor.python_sink import SinkParts, converted_and_reported
from spark_connect_rt.engine.java_host.plugin_folders import with_converters
from spark_connect_rt.engine.java_host.stages.rows import RowCodec, json_with_schema, read_all
from spark_connect_rt.engine.java_host.wire import Frame, produce_batches
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters
from spark_connect_rt.records.pipeline.errant_records import RetryWait
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline

JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = ("key.converter", "value.converter", "header.converter")
_APACHE = "org.apache.kafka."
_ORIGINALS = 100_000  # records whose consumed bytes are kept for a dead letter that comes late

Segment = tuple[str, int, int]
"""The topic as the JVM knows it, the number of Kafka records, and the number of the JVM's records that they are."""


@dataclass(frozen=True, slots=True)
class SplitChain:
    """A connector's settings on both sides of the cut."""

    python: Mapping[str, str]
    java: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stays:
    """Which parts of a chain Java has. Pure."""

    config: Mapping[str, str]
    in_java: Callable[[str, str | None], bool]

    def step(self, alias: str) -> bool:
        """Return whether Java has a transformation and its predicate."""
        predicate = self.config.get(f"transforms.{alias}.predicate")
        has = self._has(f"transforms.{alias}.type", f"transforms.{alias}", self.config)
        return has and (
            not predicate or self._has(f"predicates.{predicate}.type", f"predicates.{predicate}", self.config)
        )

    def converters(self, worker_config: Mapping[str, str]) -> bool:
        """Return whether Java has all converters: the connector's, or the worker's if it has none."""
        return all(
            self._has(name, name, self.config if self.config.get(name) else worker_config) for name in CONVERTERS
        )

    def _has(self, setting: str, prefix: str, chosen: Mapping[str, str]) -> bool:
        name = chosen.get(setting)
        return not name or self.in_java(name, chosen.get(f"{prefix}.plugin.version"))


def crossing(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration whose records cross as JSON with schema. Pure."""
    others = {name: value for name, value in config.items() if not name.startswith(CONVERTERS)}
    return others | dict.fromkeys(CONVERTERS, JSON) | {f"{name}.schemas.enable": "true" for name in CONVERTERS}


def cut_chain(
    config: Mapping[str, str], worker_config: Mapping[str, str], in_java: Callable[[str, str | None], bool]
) -> SplitChain | None:
    """Return where a sink's chain is cut; None: Java has all of it, and nothing runs in Python.

    ``in_java``: whether Java has the plug-in of this name and version. Pure.
    """

    stays = Stays(config, in_java)
    transforms = parse_value(Type.LIST, config.get("transforms") or "")
    cut = max((number for number, alias in enumerate(transforms, 1) if not stays.step(alias)), default=0)
    if not cut and stays.converters(worker_config):
        return None
    return SplitChain(with_chain(config, transforms[:cut]), crossing(with_chain(config, transforms[cut:])))


def with_chain(config: Mapping[str, str], transforms: Sequence[str]) -> dict[str, str]:
    """Return the configuration with these transformations, and the predicates that they need, only."""
    used = dict.fromkeys(filter(None, (config.get(f"transforms.{alias}.predicate") for alias in transforms)))
    kept = [f"transforms.{alias}." for alias in transforms] + [f"predicates.{alias}." for alias in used]
    chain = ("transforms", "predicates")
    rest = {
        name: value
        for name, value in config.items()
        if not name.startswith(("transforms.", "predicates.")) or name.startswith(tuple(kept))
    }
    lists = {"transforms": ",".join(transforms), "predicates": ",".join(used)}
    return {name: value for name, value in rest.items() if name not in chain} | {k: v for k, v in lists.items() if v}


def java_has(clients: ExecutorClients) -> Callable[[str, str | None], bool]:
    """Return a function from a plug-in's name and version to whether Java has it."""

    def in_java(name: str, version: str | None) -> bool:
        with contextlib.suppress(ConnectError):
            if hasattr(clients.plugin(versioned(of_runtime(name, "java"), version)), "java_class"):
                return True  # of a jar, also where Python has one of that name
        try:
            found = clients.plugin(versioned(name, version))
        except ConnectError:
            return True  # it is not Python's: the JVM finds it, or says what is wrong
        own = clients.name_of(found).startswith(_APACHE)  # in Connect's own jars
        return own and (name.startswith(_APACHE) or "." not in name)

    return in_java


def cut_of(parts: SinkParts) -> SplitChain | None:
    """Return where the chain of a launch is cut."""
    return cut_chain(parts.connector_config, parts.worker_config, java_has(parts.clients))


class PythonPart:
    """The part of a sink's chain that runs in Python. The task's thread."""

    def __init__(self, cut: SplitChain, parts: SinkParts, *, keeps_originals: bool) -> None:
        """Make converters and transformations. Raises BadConfigError."""
        waiting = RetryWait(monotonic_ms, parts.wait_ms)
        self._pipeline = SinkPipeline.from_config(
            cut.python, parts.worker_config, parts.clients.plugin, waiting, keeps_originals=keeps_originals
        )
        self._flush_timeout_ms = parts.launch.flush.offset_flush_timeout_ms
        self._rows = RowCodec()
        self._originals: dict[tuple[Any, ...], ConsumeRow] = {}
        self.skipped = 0  # of the last batch

    def cross(self, batch: pa.RecordBatch, reports: ErrantReports) -> pa.RecordBatch | None:
        """Return a batch as the JVM reads it; None: something could not wait. Raises DataError as ``convert``."""
        converted = converted_and_reported(self._pipeline, batch, reports, self._flush_timeout_ms)
        if converted is None:
            return None
        self.skipped = converted.skipped
        records = converted.records
        for record in records:
            if isinstance(record, ConsumedRecord) and record.original is not None:
                self._originals[record.topic, record.partition, record.offset] = record.original
        while len(self._originals) > _ORIGINALS:
            del self._originals[next(iter(self._originals))]
        crossing = self._rows.batch(records)
        at = crossing.schema.get_field_index("offset")
        return crossing.set_column(at, "offset", pa.array([record.offset for record in records], pa.int64()))

    def original(self, row: ConsumeRow) -> ConsumeRow:
        """Return what was consumed for a record that crossed."""
        return self._originals.get(row[:3], row)

    def close(self) -> None:
        """Close the transformations of this part."""
        self._pipeline.close()


def cut_source_chain(
    config: Mapping[str, str], worker_config: Mapping[str, str], in_java: Callable[[str, str | None], bool]
) -> SplitChain | None:
    """Return where a source's chain is cut; None: Java has all of it, and nothing runs in Python.

    ``in_java``: whether Java has the plug-in of this name and version. Pure.
    """
    stays = Stays(config, in_java)
    transforms = parse_value(Type.LIST, config.get("transforms") or "")
    cut = next((number for number, alias in enumerate(transforms) if not stays.step(alias)), len(transforms))
    if cut == len(transforms) and stays.converters(worker_config):
        return None
    return SplitChain(with_chain(config, transforms[cut:]), crossing(with_chain(config, transforms[:cut])))


class SourceChain:
    """A source's chain: its settings for the JVM, and its part in Python. The task's thread."""

    def __init__(
        self,
        config: Mapping[str, str],
        worker_config: Mapping[str, str],
        clients: ExecutorClients,
        waiting: RetryWait,
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
        """Close the transformations of this part."""
        if self.pipeline is not None:
            self.pipeline.close()
