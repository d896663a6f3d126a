"""A sink task that takes columns: what it leaves, refuses or asks for again is delivered once, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.files.file_stream_sink import FileStreamSinkConnector
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.testing.sink_harness import SinkHarness

TEXT = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")


class ColumnsTask(SinkTask):
    """Keeps text; ``moods`` says what becomes of each batch, then they are taken."""

    taken: ClassVar[list[tuple[str, Any]]] = []
    moods: ClassVar[list[str]] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        if any(record.value == "bad" for record in records):
            raise DataError("bad")
        self.taken.extend(("record", record.value) for record in records)

    def put_batch(self, batch: SinkBatch) -> bool:
        values = batch.values.to_pylist()
        mood = self.moods.pop(0) if self.moods else "take"
        if mood == "again":
            raise RetriableError("later")
        if mood == "leave":
            return False
        if "bad" in values:
            raise DataError("bad")
        self.taken.extend(("column", value) for value in values)
        return True


class ColumnsSink(SinkConnector):
    """One task."""

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def task_class(self) -> type[Any]:
        return ColumnsTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ColumnsTask.taken.clear()
    ColumnsTask.moods.clear()


def sink(**config: str) -> SinkHarness:
    return SinkHarness(ColumnsSink, {"topics": "t", **{k.replace("_", "."): v for k, v in config.items()}}, TEXT)


def test_every_partition_comes_for_itself_and_is_committed() -> None:
    with sink() as harness:
        for partition, text in ((0, "a"), (1, "b"), (0, "c")):
            harness.send("t", text, partition=partition)
        assert harness.deliver()
        assert ColumnsTask.taken == [("column", "a"), ("column", "c"), ("column", "b")]
        assert harness.commit() == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 1}


def test_retried_records_are_delivered_again_and_taken_records_are_not() -> None:
    ColumnsTask.moods += ["take", "again"]
    with sink() as harness:
        harness.send("t", "a", partition=0)
        harness.send("t", "b", partition=1)
        assert not harness.deliver()
        assert harness.commit() == {TopicPartition("t", 0): 1}
        assert harness.deliver()
        assert ColumnsTask.taken == [("column", "a"), ("column", "b")]
        assert harness.commit() == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1}


def test_batch_left_by_the_column_task_comes_by_records() -> None:
    ColumnsTask.moods += ["leave"]
    with sink() as harness:
        harness.send("t", "a")
        assert harness.deliver()
        assert ColumnsTask.taken == [("record", "a")]


def test_a_task_that_leaves_columns_is_asked_less_and_less_often() -> None:
    ColumnsTask.moods += ["leave"] * 3
    with sink() as harness:
        for number in range(20):
            harness.send("t", str(number))
            assert harness.deliver()
        assert [value for _, value in ColumnsTask.taken] == list(map(str, range(20)))
        by_columns = [int(value) for form, value in ColumnsTask.taken if form == "column"]
        assert by_columns == list(range(10, 20)), "left were 0, 2 and 5"


def test_several_partitions_come_as_records_at_once_where_a_call_costs_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ColumnsTask, "wants_partitions_apart", lambda _: False)
    with sink() as harness:
        harness.send("t", "a", partition=0)
        harness.send("t", "b", partition=1)
        assert harness.deliver()
        harness.send("t", "c", partition=1)
        assert harness.deliver()
        assert ColumnsTask.taken == [("record", "a"), ("record", "b"), ("column", "c")]


@pytest.mark.parametrize(
    ("takes_nested", "transforms", "form"), [(False, "", "record"), (True, "", "column"), (True, "upper", "record")]
)
def test_objects_in_objects_come_as_columns_to_a_task_that_takes_them(
    monkeypatch: pytest.MonkeyPatch, takes_nested: bool, transforms: str, form: str
) -> None:
    monkeypatch.setattr(ColumnsTask, "takes_nested_structs", lambda _: takes_nested)
    json = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
    step = {"transforms": "upper", "transforms.upper.type": "ReplaceField$Value", "transforms.upper.renames": "id:ID"}
    config = {"topics": "t", **json, **(step if transforms else {})}
    value = {"ID" if transforms else "id": 1, "after": {"name": "a"}, "before": None}
    with SinkHarness(ColumnsSink, config, TEXT) as harness:
        harness.send("t", {"id": 1, "after": {"name": "a"}, "before": None})
        assert harness.deliver()
        assert [(found, dict(taken)) for found, taken in ColumnsTask.taken] == [(form, value)]


def test_a_bad_record_is_found_and_the_others_are_delivered() -> None:
    with sink(errors_tolerance="all", errors_deadletterqueue_topic_name="dlq") as harness:
        for text in ("a", "bad", "c"):
            harness.send("t", text)
        assert harness.deliver()
        assert ColumnsTask.taken == [("record", "a"), ("record", "c")]
        assert [row["value"] for row in harness.dead_letters()] == [b"bad"]
        assert harness.commit() == {TopicPartition("t", 0): 3}


def test_without_tolerance_it_fails() -> None:
    with sink() as harness:
        harness.send("t", "bad")
        with pytest.raises(DataError):
            harness.deliver()
        assert harness.commit() == {}


def test_headers_come_by_records() -> None:
    with sink() as harness:
        harness.topics.append([{"topic": "t", "partition": 0, "value": b"a", "headers": [{"key": "h", "value": b"1"}]}])
        assert harness.deliver()
        assert ColumnsTask.taken == [("record", "a")]


def test_a_file_has_the_same_lines_either_way(tmp_path: Path) -> None:
    files = [tmp_path / "columns", tmp_path / "records"]
    for file, header in zip(files, (None, [{"key": "h", "value": b"1"}]), strict=True):
        with SinkHarness(FileStreamSinkConnector, {"topics": "t", "file": str(file)}, TEXT) as harness:
            rows = [
                {"topic": "t", "partition": 0, "value": value} for value in (b"a", None, "é".encode(), b"", b"x\ny")
            ]
            harness.topics.append([{**row, "headers": header} for row in rows])
            assert harness.deliver()
    assert files[0].read_bytes() == files[1].read_bytes() == "a\nnull\né\n\nx\ny\n".encode()
