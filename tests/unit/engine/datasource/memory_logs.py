"""A connector over logs in memory, for reads and streams of ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from spark_connect_rt.api.connector import SourceOffset
from spark_connect_rt.api.ranges import RangeSourceConnector, SourceRange
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef

STRING = "org.apache.kafka.connect.storage.StringConverter"


class MemoryLogs(RangeSourceConnector):
    """``logs``: name -> number -> value. Each log is a source partition, and the topic of its records."""

    logs: ClassVar[dict[str, dict[int, str]]] = {}
    gone: ClassVar[list[str]] = []
    ids: ClassVar[dict[str, str]] = {}
    loses: ClassVar[set[bool]] = set()
    started: ClassVar[list[MemoryLogs]] = []

    @classmethod
    def options(cls) -> dict[str, str]:
        """Return the options of a read."""
        return {"connector.class": f"{cls.__module__}.{cls.__name__}", "value.converter": STRING, "tasks.max": "2"}

    def config_def(self) -> ConfigDef:
        """Nothing."""
        return ConfigDef()

    def task_class(self) -> type[Any]:
        """Return the task."""
        return MemoryLogTask

    def start(self, config: Mapping[str, str]) -> None:
        """Note it."""
        super().start(config)
        self.started.append(self)

    def stop(self) -> None:
        """Note it."""
        self.started.remove(self)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Not used."""
        raise NotImplementedError

    def ranges(self, stored: Sequence[SourceOffset], since_ms: int | None = None) -> list[SourceRange]:
        """See RangeSourceConnector; a number is its record's time."""
        numbers = {place["log"]: self.number_behind(offset) for place, offset in stored if place and offset}
        found = []
        for name, log in self.logs.items():
            first = max(numbers.get(name, 0), min(log, default=0), since_ms or 0)
            found.append(SourceRange({"log": name}, first, max(log, default=-1) + 1, name, log_id=self.ids.get(name)))
        return found

    def absent(self) -> list[str]:
        """Return what a test says."""
        return self.gone

    def may_lose(self, *, recreated: bool) -> bool:
        """See RangeSourceConnector."""
        return recreated in self.loses

    def range_tasks(self, ranges: Sequence[SourceRange], max_tasks: int) -> list[dict[str, str]]:
        """See RangeSourceConnector."""
        shares = [ranges[first::max_tasks] for first in range(min(max_tasks, len(ranges)))]
        return [
            {
                "ranges": json.dumps(
                    [[source_range.topic, source_range.first, source_range.end] for source_range in share]
                )
            }
            for share in shares
        ]

    def number_behind(self, offset: Mapping[str, Any]) -> int:
        """See RangeSourceConnector."""
        return int(offset["last"]) + 1

    def offset_before(self, number: int) -> Mapping[str, Any] | None:
        """See RangeSourceConnector."""
        return {"last": number - 1} if number else None


class MemoryLogTask(SourceTask):
    """Polls a range at a time."""

    polled = 0  # records, of all tasks

    def start(self, config: Mapping[str, str]) -> None:
        """Take the ranges."""
        self._left = json.loads(config["ranges"])

    def has_more(self) -> bool:
        """Tell whether a range is left."""
        return bool(self._left)

    def poll(self) -> Sequence[SourceRecord]:
        """Return the records of the next range."""
        if not self._left:
            return ()
        name, first, end = self._left.pop()
        log = MemoryLogs.logs[name]
        numbers = [n for n in log if n >= first and (end is None or n < end)]
        MemoryLogTask.polled += len(numbers)
        return [SourceRecord({"log": name}, {"last": n}, name, log[n], timestamp_ms=n) for n in numbers]

    def stop(self) -> None:
        """Nothing."""
