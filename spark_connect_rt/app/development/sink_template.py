"""The project of ``connectrt new sink``: a sink that appends lines to a file, its tests, configuration and records."""

from __future__ import annotations

CODE = '''
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

TESTS = '''
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

FILES = {
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
