"""A source and a sink that need nothing but memory, with faults to order: for tests of everything above them.

``MemorySource`` counts: task n of connector c emits ``c-n:0``, ``c-n:1`` ... up to ``records``. ``MemorySink`` keeps
what it was given in ``delivered``. ``Faults`` makes any of their methods raise or block, by connector and method.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type

BLOCK_LIMIT_S = 30.0


class ConnectorFaults:
    """What goes wrong, by ``connector.method``; shared by every memory connector of the process."""

    def __init__(self) -> None:
        self._errors: dict[str, Exception] = {}
        self._blocks: dict[str, threading.Event] = {}
        self.calls: dict[str, int] = defaultdict(int)

    def raises(self, where: str, error: Exception | None) -> None:
        """Make ``where`` (``a.start``, ``a-0.poll``) raise until it is set to None."""
        if error is None:
            self._errors.pop(where, None)
        else:
            self._errors[where] = error

    def blocks(self, where: str) -> threading.Event:
        """Make ``where`` wait for the returned event."""
        return self._blocks.setdefault(where, threading.Event())

    def clear(self) -> None:
        """Let everything go on."""
        for event in self._blocks.values():
            event.set()
        self._errors.clear()
        self._blocks.clear()
        self.calls.clear()

    def at(self, where: str) -> None:
        """Count the call; raise or block as ordered."""
        self.calls[where] += 1
        if where in self._blocks:
            self._blocks[where].wait(BLOCK_LIMIT_S)
        if where in self._errors:
            raise self._errors[where]


faults = ConnectorFaults()
delivered: dict[str, list[SinkRecord]] = defaultdict(list)
"""Connector -> records its sink tasks were given."""

_NAME = ConfigKey("name", Type.STRING, REQUIRED, Importance.HIGH, "Name of the connector.")
_TOPIC = ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic to write to.")
_TOPICS = ConfigKey("topics", Type.STRING, "", Importance.HIGH, "Topics to read, with commas; or a pattern.")
_RECORDS = ConfigKey("records", Type.LONG, 0, Importance.MEDIUM, "Records each task emits.")
_SPLIT = ConfigKey("split", Type.INT, -1, Importance.LOW, "Task configurations to make; -1: tasks.max.")


class MemorySource(SourceConnector):
    """Counts, ``tasks.max`` times."""

    def config_def(self) -> ConfigDef:
        """See Connector."""
        return ConfigDef((_NAME, _TOPIC, _RECORDS, _SPLIT))

    def task_class(self) -> type[SourceTask]:
        """See Connector."""
        return MemorySourceTask

    def start(self, config: Mapping[str, str]) -> None:
        """See Connector."""
        super().start(config)
        faults.at(f"{config['name']}.start")

    def stop(self) -> None:
        """See Connector."""
        faults.at(f"{self.config['name']}.stop")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """See Connector."""
        name = self.config["name"]
        faults.at(f"{name}.task_configs")
        wanted = int(self.config.get("split", "-1"))
        shared: dict[str, str] = {key: self.config[key] for key in ("topic", "records") if key in self.config}
        count = max_tasks if wanted < 0 else wanted
        return [{"task": f"{name}-{number}", **shared} for number in range(count)]


class MemorySourceTask(SourceTask):
    """Emits up to 100 records a poll, from the stored offset on."""

    def start(self, config: Mapping[str, str]) -> None:
        """See Task."""
        self._id, self._topic, self._end = config["task"], config["topic"], int(config.get("records", "0"))
        faults.at(f"{self._id}.start")
        stored = self.context.offset_reader.offsets([self._partition])[0]
        self._next = int(stored["position"]) if stored else 0

    @property
    def _partition(self) -> dict[str, str]:
        return {"task": self._id}

    def poll(self) -> Sequence[SourceRecord]:
        """See SourceTask."""
        faults.at(f"{self._id}.poll")
        last = min(self._end, self._next + 100)
        records = [
            SourceRecord(self._partition, {"position": n + 1}, self._topic, f"{self._id}:{n}")
            for n in range(self._next, last)
        ]
        self._next = last
        return records

    def idle_wait_ms(self) -> int:
        """See SourceTask."""
        return 10

    def stop(self) -> None:
        """See Task."""
        faults.at(f"{self._id}.stop_task")


class MemorySink(SinkConnector):
    """Keeps everything."""

    def config_def(self) -> ConfigDef:
        """See Connector."""
        return ConfigDef((_NAME, _TOPICS))

    def task_class(self) -> type[SinkTask]:
        """See Connector."""
        return MemorySinkTask

    def start(self, config: Mapping[str, str]) -> None:
        """See Connector."""
        super().start(config)
        faults.at(f"{config['name']}.start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """See Connector."""
        return [{"connector": self.config["name"]} for _ in range(max_tasks)]


class MemorySinkTask(SinkTask):
    """Appends to ``delivered``."""

    def start(self, config: Mapping[str, str]) -> None:
        """See Task."""
        self._connector = config["connector"]
        faults.at(f"{self._connector}.start_task")

    def put(self, records: Sequence[SinkRecord]) -> None:
        """See SinkTask."""
        faults.at(f"{self._connector}.put")
        delivered[self._connector].extend(records)

    def stop(self) -> None:
        """See Task."""
