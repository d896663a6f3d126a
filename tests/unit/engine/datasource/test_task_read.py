"""One task polled to its limits: rows, their offsets, the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.engine.datasource.open_task import OpenTask, ReadContext, poll_rows
from spark_connect_rt.engine.datasource.read_options import ReadLimits
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

STRINGS = {"key.converter": "String", "value.converter": "String", "header.converter": "Header"}


class Refuses(Transformation):
    """Refuses the second line."""

    def config_def(self) -> ConfigDef:
        """Nothing."""
        return ConfigDef()

    def apply(self, record: Any) -> Any:
        """Return the record, unless it is the second."""
        if record.source_offset == {"line": 2}:
            raise DataError("not this one")
        return record


PLUGINS = {"Refuses": Refuses, "String": StringConverter, "Header": SimpleHeaderConverter}
AT_ONCE = ReadLimits(until="latest")


class Script(SourceTask):
    """Polls what it was given."""

    def __init__(self, *polls: Sequence[SourceRecord | SourceBatch] | Exception) -> None:
        self._polls = list(polls)

    def start(self, config: object) -> None:
        """Nothing."""

    def poll(self) -> Sequence[SourceRecord | SourceBatch]:
        """Return the next, raise it when it is an error, then nothing for ever."""
        if not self._polls:
            return ()
        polled = self._polls.pop(0)
        if isinstance(polled, Exception):
            raise polled
        return polled

    def stop(self) -> None:
        """Nothing."""

    def idle_wait_ms(self) -> int:
        """Hardly."""
        return 1


def record(number: int, **more: object) -> SourceRecord:
    return SourceRecord({"file": "f"}, {"line": number}, "t", f"value {number}", **more)  # type: ignore[arg-type]


def rows(task: SourceTask, limits: ReadLimits = AT_ONCE, **config: str) -> list[dict[str, object]]:
    pipeline = SourcePipeline.from_config(STRINGS | config, {}, PLUGINS.__getitem__)
    context = task.context = ReadContext(())
    context.pipeline = pipeline
    return [row for batch in poll_rows(OpenTask(task, pipeline), limits) for row in batch.to_pylist()]


def test_each_record_has_its_own_offset() -> None:
    found = rows(Script([record(1), record(2, key="k", timestamp_ms=1_500)], [record(3, partition=4)]))
    assert [row["value"] for row in found] == [b"value 1", b"value 2", b"value 3"]
    assert [row["source_offset"] for row in found] == ['{"line":1}', '{"line":2}', '{"line":3}']
    assert {row["source_partition"] for row in found} == {'{"file":"f"}'}
    assert (found[1]["key"], found[1]["topic"], found[2]["partition"]) == (b"k", "t", 4)
    assert found[1]["timestamp"].timestamp() == 1.5  # type: ignore[attr-defined]
    assert found[0]["timestamp"] is None


def test_rows_of_a_batch_have_the_offset_behind_it() -> None:
    batch = SourceBatch({"file": "f"}, {"line": 2}, "t", pa.array(["a", "b"]))
    found = rows(Script([record(1), batch, record(3)]))
    assert [(row["value"], row["source_offset"]) for row in found] == [
        (b"value 1", '{"line":1}'),
        (b"a", '{"line":2}'),
        (b"b", '{"line":2}'),
        (b"value 3", '{"line":3}'),
    ]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        (ReadLimits(max_records=0), 0),
        (ReadLimits(max_records=3), 3),
        (ReadLimits("latest", max_records=99), 6),
        (ReadLimits(max_bytes=1), 1),  # there is room: at least one
        (ReadLimits(max_bytes=15), 2),
        (ReadLimits(max_bytes=14), 2),
        (ReadLimits(max_bytes=13), 1),
        (ReadLimits(max_bytes=28), 4),
        (ReadLimits(max_bytes=99, max_records=5), 5),
    ],
)
def test_a_read_ends_at_its_limits(limits: ReadLimits, count: int) -> None:
    polls = [[record(1), record(2), record(3)], [record(4), record(5), record(6)]]
    assert [row["source_offset"] for row in rows(Script(*polls), limits)] == [
        f'{{"line":{number}}}' for number in range(1, count + 1)
    ]


def test_until_latest_ends_at_the_first_poll_that_brings_nothing() -> None:
    assert len(rows(Script([record(1)], [], [record(2)]))) == 1


def test_a_read_continues_while_the_task_has_more() -> None:
    class Fetching(Script):
        def has_more(self) -> bool:
            return bool(self._polls)

    assert len(rows(Fetching([], [record(1)], [], [record(2)]))) == 2


def test_rows_of_a_batch_have_its_partition() -> None:
    batch = SourceBatch({"file": "f"}, {"line": 1}, "t", pa.array(["a"]), partition=3)
    assert [row["partition"] for row in rows(Script([batch]))] == [3]


def test_until_idle_bears_empty_polls_and_trouble_that_passes() -> None:
    polls = ([record(1)], [], RetriableError("soon"), [], [record(2)])
    found = rows(Script(*polls), ReadLimits("idle", idle_ms=60_000, max_records=2))
    assert [row["value"] for row in found] == [b"value 1", b"value 2"]


def test_until_idle_ends_when_nothing_came_for_so_long() -> None:
    assert len(rows(Script([record(1)]), ReadLimits("idle", idle_ms=20))) == 1


def test_an_errant_record_ends_the_read_or_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    refuses = {"transforms": "x", "transforms.x.type": "Refuses"}
    polls = [record(1), record(2), record(3)]
    with pytest.raises(DataError, match="not this one"):
        rows(Script(polls), **refuses)
    found = rows(Script(polls), **refuses, **{"errors.tolerance": "all"})
    assert [row["source_offset"] for row in found] == ['{"line":1}', '{"line":3}']
    assert "skipped record for topic t" in caplog.text
