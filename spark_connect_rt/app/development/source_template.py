"""The project of ``connectrt new source``: a source that numbers entries, its tests and its configuration."""

from __future__ import annotations

CODE = '''
"""$class_name: entries of your system become records of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type

CONFIG = ConfigDef(
    [
        ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic the entries go to."),
        ConfigKey("greeting", Type.STRING, "hello", Importance.MEDIUM, "First word of every entry."),
    ]
)
PARTITION = {"source": "main"}
LAST = 3


def read_entries(greeting: str, position: int) -> list[dict[str, Any]]:
    """Return the entries from a position on. Replace this with a call of your system."""
    return [{"number": number, "text": f"{greeting} {number}"} for number in range(position, LAST)]


class $class_name(SourceConnector):
    """Reads entries in one task."""

    def config_def(self) -> ConfigDef:
        return CONFIG

    def task_class(self) -> type[SourceTask]:
        return $task_name

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]  # a system of several parts: one configuration for each, at most max_tasks


class $task_name(SourceTask):
    """Returns new entries. Its offset is the number of the next entry."""

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG.parse(config)
        self.topic, self.greeting = settings["topic"], settings["greeting"]
        (stored,) = self.context.offset_reader.offsets([PARTITION])
        self.position = stored["position"] if stored else 0

    def poll(self) -> Sequence[SourceRecord]:
        records = []
        for entry in read_entries(self.greeting, self.position):
            self.position = entry["number"] + 1
            offset = {"position": self.position}  # where to continue behind this record
            records.append(SourceRecord(PARTITION, offset, self.topic, key=str(entry["number"]), value=entry))
        return records

    def stop(self) -> None:
        """Close the client that ``start`` opened."""
'''

TESTS = '''
"""Tests of $class_name, without Kafka and Spark."""

from __future__ import annotations

import pytest

from $module import $class_name
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.testing.connector_harness import SourceHarness

CONFIGURATION = {"topic": "$name"}


def test_entries_become_records() -> None:
    with SourceHarness($class_name, CONFIGURATION) as source:
        first, *others = source.poll()
        assert first.json() == {"number": 0, "text": "hello 0"}
        assert len(others) == 2


def test_a_restart_continues_behind_the_last_record() -> None:
    with SourceHarness($class_name, CONFIGURATION) as source:
        source.poll()
        source.restart()
        assert source.poll() == []
        assert source.offsets.all() == [({"source": "main"}, {"position": 3})]


def test_a_topic_is_required() -> None:
    with pytest.raises(BadConfigError):
        SourceHarness($class_name, {}).start()
'''

FILES = {
    "connector.json": """
{
  "name": "$name",
  "config": {
    "connector.class": "$class_name",
    "tasks.max": "1",
    "topic": "$name"
  }
}
"""
}
