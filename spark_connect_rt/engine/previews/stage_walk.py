"""A record's way through a connector's chain, stage by stage, as a preview shows it.

The same plug-ins as the pipelines', one record and one step at a time, and each step's outcome kept. A record that
fails is shown with its error; ``errors.tolerance`` decides whether the task would continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.api.records import ConsumeRow, Header, SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.engine.executor.hosting import text_of
from spark_connect_rt.engine.previews.shown_records import RecordShower, Tree, shown_bytes
from spark_connect_rt.errors import ExternalError, JavaPluginError
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain

R = TypeVar("R", SourceRecord, SinkRecord)
POLLED, READ, CONVERTED, PUT = "polled", "read", "converted", "put"
ERROR_LIMIT = 4_000


def error_text(error: BaseException) -> str:
    """Return what an error says in one paragraph, its class first; without secrets."""
    if isinstance(error, JavaPluginError):  # it says the whole trace
        return text_of(error).partition("\n")[0][:ERROR_LIMIT]
    cause = f" (caused by {type(error.__cause__).__name__}: {text_of(error.__cause__)})" if error.__cause__ else ""
    return f"{type(error).__name__}: {text_of(error)}{cause}"[:ERROR_LIMIT]


def failed(stage: str, error: BaseException) -> Tree:
    """Return the stage at which a record failed."""
    return {"stage": stage, "record": None, "error": error_text(error)}


@dataclass(slots=True)
class Walked:
    """One record's stages, and the record at their end: None when it was dropped or failed."""

    stages: list[Tree]
    record: SourceRecord | SinkRecord | None = None


class StageWalk:
    """The chain and the converters of one connector. One thread."""

    def __init__(
        self,
        config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugin: Callable[[str], type[Any]],
    ) -> None:
        """Make them of resolved settings. Raises BadConfigError."""
        self._aliases = parse_value(Type.LIST, config.get("transforms") or "")
        self._chain = TransformationChain.from_config(config, plugin)
        self._converters = ConnectorConverters.from_config(config, worker_config, plugin)
        for converter in (self._converters.key, self._converters.value):
            converter.leave_nothing_behind()
        self._shower = RecordShower()

    def close(self) -> None:
        """Close the transformations, and converters that have something to close."""
        self._chain.close()
        for converter in (self._converters.key, self._converters.value, self._converters.header):
            close = getattr(converter, "close", None)
            if close is not None:
                close()

    def of_source(self, record: SourceRecord) -> Walked:
        """Return a polled record's stages. Raises ExternalError: no record is to blame."""
        walked = self._transformed(record, [self._stage(POLLED, record)])
        if isinstance(walked.record, SourceRecord):
            walked.stages.append(self._converted(walked.record))
        return walked

    def of_sink(self, row: ConsumeRow) -> Walked:
        """Return a consumed record's stages. Raises ExternalError: no record is to blame."""
        headers = [(header["key"], header["value"]) for header in row[6] or ()]
        data = shown_bytes(row[4], row[5], headers)
        try:
            record = self._read(row)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 - plug-in code: shown
            return Walked([failed(READ, error) | {"bytes": data}])
        return self._transformed(record, [self._stage(READ, record) | {"bytes": data}])

    def _stage(self, name: str, record: SourceRecord | SinkRecord | None) -> Tree:
        return {"stage": name, "record": None if record is None else self._shower.record(record)}

    def put_stage(self, record: SourceRecord | SinkRecord) -> Tree:
        """Return the stage of a record that a sink took."""
        return self._stage(PUT, record)

    def _transformed(self, record: R, stages: list[Tree]) -> Walked:
        for alias, step in zip(self._aliases, self._chain.steps, strict=True):
            name = f"transforms.{alias}"
            try:
                found = step.apply(record)
            except ExternalError:
                raise
            except Exception as error:  # noqa: BLE001 - plug-in code: shown
                stages.append(failed(name, error))
                return Walked(stages)
            stages.append(self._stage(name, found))
            if found is None:
                return Walked(stages)
            record = found
        return Walked(stages, record)

    def _converted(self, record: SourceRecord) -> Tree:
        topic, converters = record.topic, self._converters
        try:
            write = converters.header.from_connect_header
            headers = [(header.key, write(topic, header.key, header.schema, header.value)) for header in record.headers]
            key = converters.key.from_connect_data(topic, record.key_schema, record.key)
            value = converters.value.from_connect_data(topic, record.value_schema, record.value)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 - plug-in code: shown
            return failed(CONVERTED, error)
        return self._stage(CONVERTED, record) | {"bytes": shown_bytes(key, value, headers)}

    def _read(self, row: ConsumeRow) -> SinkRecord:
        topic, partition, offset, timestamp_ms, key_data, value_data, header_data = row
        converters = self._converters
        key_schema, key = converters.key.to_connect_data(topic, key_data)
        value_schema, value = converters.value.to_connect_data(topic, value_data)
        headers = []
        for header in header_data or ():
            schema, read = converters.header.to_connect_header(topic, header["key"], header["value"])
            headers.append(Header(header["key"], read, schema))
        return SinkRecord(
            topic, partition, offset, value, value_schema, key, key_schema, timestamp_ms, headers=tuple(headers)
        )
