"""A source and a sink that need only memory, with faults on demand: for tests of all layers above them.

``MemorySource`` counts: task n of connector c emits ``c-n:0``, ``c-n:1`` ... up to ``records``. ``MemorySink`` keeps
its records in ``delivered``. ``Faults`` makes any of their methods raise or block, by connector and method.
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
    """The injected errors and delays, by ``connector.method``. All memory connectors of the process share them."""

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
        """Remove all errors and release every blocked call."""
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
    """A source whose tasks count up to ``records``. It has ``tasks.max`` tasks, or ``split`` if set."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of ``name``, ``topic``, ``records`` and ``split``."""
        return ConfigDef((_NAME, _TOPIC, _RECORDS, _SPLIT))

    def task_class(self) -> type[SourceTask]:
        """Return the class of its tasks."""
        return MemorySourceTask

    def start(self, config: Mapping[str, str]) -> None:
        """Start, unless an error is injected at ``NAME.start``."""
        super().start(config)
        faults.at(f"{config['name']}.start")

    def stop(self) -> None:
        """Stop, unless an error is injected at ``NAME.stop``."""
        faults.at(f"{self.config['name']}.stop")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration for each task, unless an error is injected at ``NAME.task_configs``."""
        name = self.config["name"]
        faults.at(f"{name}.task_configs")
        wanted = int(self.config.get("split", "-1"))
        shared: dict[str, str] = {key: self.config[key] for key in ("topic", "records") if key in self.config}
        count = max_tasks if wanted < 0 else wanted
        return [{"task": f"{name}-{number}", **shared} for number in range(count)]


class MemorySourceTask(SourceTask):
    """Emits up to 100 records a poll, from the stored offset on."""

    def start(self, config: Mapping[str, str]) -> None:
        """Resume from the stored position. Errors can be injected at ``TASK.start``."""
        self._id, self._topic, self._end = config["task"], config["topic"], int(config.get("records", "0"))
        faults.at(f"{self._id}.start")
        stored = self.context.offset_reader.offsets([self._partition])[0]
        self._next = int(stored["position"]) if stored else 0

    @property
    def _partition(self) -> dict[str, str]:
        return {"task": self._id}

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next records, at most 100. Errors can be injected at ``TASK.poll``."""
        faults.at(f"{self._id}.poll")
        last = min(self._end, self._next + 100)
        records = [
            SourceRecord(self._partition, {"position": n + 1}, self._topic, f"{self._id}:{n}")
            for n in range(self._next, last)
        ]
        self._next = last
        return records

    def idle_wait_ms(self) -> int:
        """Return a short wait, ms, which keeps tests fast."""
        return 10

    def stop(self) -> None:
        """Stop, unless an error is injected at ``TASK.stop_task``."""
        faults.at(f"{self._id}.stop_task")


class MemorySink(SinkConnector):
    """A sink that keeps every record in ``delivered``."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of ``name`` and ``topics``."""
        return ConfigDef((_NAME, _TOPICS))

    def task_class(self) -> type[SinkTask]:
        """Return the class of its tasks."""
        return MemorySinkTask

    def start(self, config: Mapping[str, str]) -> None:
        """Start, unless an error is injected at ``NAME.start``."""
        super().start(config)
        faults.at(f"{config['name']}.start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for each of ``max_tasks`` tasks."""
        return [{"connector": self.config["name"]} for _ in range(max_tasks)]


class MemorySinkTask(SinkTask):
    """Appends the records that it gets to ``delivered``."""

    def start(self, config: Mapping[str, str]) -> None:
        """Start, unless an error is injected at ``CONNECTOR.start_task``."""
        self._connector = config["connector"]
        faults.at(f"{self._connector}.start_task")

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Keep the records. Errors can be injected at ``CONNECTOR.put``."""
        faults.at(f"{self._connector}.put")
        delivered[self._connector].extend(records)

    def stop(self) -> None:
        """Stop, unless an error is injected at ``CONNECTOR.stop_task``."""
