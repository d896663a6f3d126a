"""Plug-ins that kill their process in one of their calls, as a fault of a native library or the memory killer would.

Importable on executors. The setting ``kill`` names the call; ``quiet`` is the folder of a task that must survive.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import SchemaAndValue
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import ConfigDef

CALLS_OF_SOURCE = ("task.start", "poll", "idle_wait_ms", "commit", "commit_record", "task.stop")
CALLS_OF_SINK = ("task.start", "open", "put", "pre_commit", "close", "task.stop")
CALLS_OF_CONVERTER = ("converter.configure", "from_connect_data")
CALLS_OF_TRANSFORMATION = ("transform.configure", "apply", "transform.close")


class _Killing:
    _kill = ""

    def _at(self, call: str) -> None:
        if self._kill == call:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingSourceTask(_Killing, SourceTask):
    """Sends four records and then nothing."""

    def start(self, config: Mapping[str, str]) -> None:
        self._kill, self._sent = config["kill"], 0
        self._at("task.start")

    def poll(self) -> Sequence[SourceRecord]:
        self._at("poll")
        self._sent += 1
        record = SourceRecord({"p": "k"}, {"n": self._sent}, "killing", value=f"k{self._sent}")
        return [record] if self._sent <= 4 else []

    def idle_wait_ms(self) -> int:
        self._at("idle_wait_ms")
        return 10

    def commit(self) -> None:
        self._at("commit")

    def commit_record(self, record: SourceRecord, metadata: object) -> None:
        self._at("commit_record")

    def stop(self) -> None:
        self._at("task.stop")


class KillingSinkTask(_Killing, SinkTask):
    """Takes every record."""

    def start(self, config: Mapping[str, str]) -> None:
        self._kill = config["kill"]
        self._at("task.start")

    def open(self, partitions: object) -> None:
        self._at("open")

    def put(self, records: Sequence[Any]) -> None:
        self._at("put")

    def pre_commit(self, offsets: Any) -> Any:
        self._at("pre_commit")
        return offsets

    def close(self, partitions: object) -> None:
        self._at("close")

    def stop(self) -> None:
        self._at("task.stop")


class KillingConverter(_Killing, Converter):
    """Writes one byte."""

    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self._kill = config.get("kill", "")
        self._at("converter.configure")

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        self._at("from_connect_data")
        return b"x"

    def to_connect_data(self, topic: str, data: Any) -> Any:
        return SchemaAndValue(None, "x")


class KillingTransformation(_Killing, Transformation):
    """Changes nothing."""

    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def configure(self, config: Mapping[str, str]) -> None:
        self._kill = config.get("kill", "")
        self._at("transform.configure")

    def apply(self, record: Any) -> Any:
        self._at("apply")
        return record

    def close(self) -> None:
        self._at("transform.close")
