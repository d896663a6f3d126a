"""The projects of ``connectrt new``: code, tests, configuration and records of a source and of a sink.

The source numbers entries, and the sink appends lines to a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectTemplate:
    """Texts of one kind of project, with placeholders of ``string.Template``; ``files``: file name -> content."""

    code: str
    tests: str
    files: Mapping[str, str]


_SOURCE_CODE = '''
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

_SOURCE_TESTS = '''
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

_SOURCE_FILES = {
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

_SINK_CODE = '''
"""$class_name: records of topics become lines of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.errors import DataError

CONFIG = ConfigDef([ConfigKey("file", Type.STRING, REQUIRED, Importance.HIGH, "File that the lines are appended to.")])


def line_of(record: SinkRecord) -> str:
    """Return the line of a record. Raises DataError: the record cannot be written."""
    if not isinstance(record.value, dict) or "text" not in record.value:
        raise DataError("the value is not an object with a text")
    return f"{record.topic}-{record.partition}@{record.offset} {record.value['text']}\\n"


class $class_name(SinkConnector):
    """Appends lines to a file."""

    def config_def(self) -> ConfigDef:
        return CONFIG

    def task_class(self) -> type[SinkTask]:
        return $task_name

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class $task_name(SinkTask):
    """Writes all lines of a ``put``, or none of them."""

    def start(self, config: Mapping[str, str]) -> None:
        self.file = Path(CONFIG.parse(config)["file"]).open("a", encoding="utf-8")

    def put(self, records: Sequence[SinkRecord]) -> None:
        lines = [line_of(record) for record in records]  # raises before anything is written
        self.file.writelines(lines)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.file.flush()  # these offsets are committed when this returns

    def stop(self) -> None:
        self.file.close()
'''

_SINK_TESTS = '''
"""Tests of $class_name, without Kafka and Spark."""

from __future__ import annotations

from pathlib import Path

from $module import $class_name
from spark_connect_rt.testing.sink_harness import SinkHarness

TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def test_records_become_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    with SinkHarness($class_name, {"topics": "$name", "file": str(file)}) as sink:
        sink.send("$name", {"text": "hello"})
        assert sink.deliver()
        assert list(sink.commit().values()) == [1]
        assert file.read_text() == "$name-0@0 hello\\n"


def test_a_bad_record_becomes_a_dead_letter(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    with SinkHarness($class_name, {"topics": "$name", "file": str(file), **TOLERANT}) as sink:
        sink.send("$name", {"text": "hello"})
        sink.send("$name", {"no text": 1})
        assert sink.deliver()
        sink.commit()
        assert file.read_text() == "$name-0@0 hello\\n"
        assert [letter["value"] for letter in sink.dead_letters()] == [b'{"no text":1}']
'''

_SINK_FILES = {
    "connector.json": """
{
  "name": "$name",
  "config": {
    "connector.class": "$class_name",
    "tasks.max": "1",
    "topics": "$name",
    "file": "$name.txt",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "$name-errors",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true"
  }
}
""",
    "records.jsonl": """
{"text": "hello"}
{"key": "1", "value": {"text": "with a key"}, "headers": {"trace": "abc"}}
{"no text": "this one becomes a dead letter"}
""",
}

SOURCE = ProjectTemplate(_SOURCE_CODE, _SOURCE_TESTS, _SOURCE_FILES)
SINK = ProjectTemplate(_SINK_CODE, _SINK_TESTS, _SINK_FILES)
