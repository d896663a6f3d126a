"""Streams of a connector over logs: what each batch is made of, what is repeated, where a query ends."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pyspark_connectrt import DefaultSource
from spark_connect_rt.engine.datasource.range_stream import RangeStreamReader
from spark_connect_rt.engine.datasource.stream_limits import OlderStreamReader, ReadAllAvailable, ReadMaxRows
from spark_connect_rt.errors import DataError
from tests.unit.engine.datasource.memory_logs import MemoryLogs, MemoryLogTask
from tests.unit.engine.datasource.test_ranges import schema

pytestmark = pytest.mark.usefixtures("logs")
ALL = ReadAllAvailable()


@pytest.fixture
def query() -> Iterator[RangeStreamReader]:
    reader = new_query()
    yield reader
    reader.stop()


def new_query(**options: str) -> RangeStreamReader:
    reader = DefaultSource(MemoryLogs.options() | options).streamReader(schema())
    reader = reader.reader if isinstance(reader, OlderStreamReader) else reader
    assert isinstance(reader, RangeStreamReader)
    return reader


def values(query: RangeStreamReader | OlderStreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    executor = pickle.loads(pickle.dumps(query))
    partitions = pickle.loads(pickle.dumps(query.partitions(dict(start), dict(end))))
    batches = [batch for part in partitions for batch in executor.read(part)]
    return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())


def test_batches_are_planned_without_polling_and_hold_their_share_of_each_log(query: RangeStreamReader) -> None:
    assert query.getDefaultReadLimit() == ALL
    first = query.latestOffset(query.initialOffset(), ReadMaxRows(6))
    assert MemoryLogTask.polled == 0
    assert first == {
        '{"log":"a"}': {"offset": '{"last":3}', "rows": 0},
        '{"log":"b"}': {"offset": '{"last":1}', "rows": 0},
    }
    assert values(query, {}, first) == ["a0", "a1", "a2", "a3", "b0", "b1"]
    second = query.latestOffset(json.loads(json.dumps(first)), ALL)
    assert values(query, first, second) == [f"a{n}" for n in range(4, 10)] + ["b2", "b3", "b4"]
    assert query.latestOffset(second, ALL) == second == query.reportLatestOffset()
    assert query.partitions(second, second) == []


def test_a_batch_is_repeated_after_a_restart_and_lost_records_are_reported(
    query: RangeStreamReader, logs: dict[str, dict[int, str]]
) -> None:
    first = query.latestOffset({}, ReadMaxRows(6))
    second = query.latestOffset(first, ReadMaxRows(3))
    wanted = values(query, first, second)
    logs["a"][10], logs["c"] = "a10", {0: "c0"}
    again = new_query()
    assert values(again, first, second) == wanted == ["a4", "a5", "b2"]
    for number in range(5):
        del logs["a"][number]
    with pytest.raises(
        DataError, match=r'records are lost: {"log":"a"} would continue at 4, its source begins at 5 now'
    ):
        again.partitions(first, second)
    with pytest.raises(DataError, match="records are lost"):
        again.latestOffset(first, ALL)
    del logs["a"]
    with pytest.raises(DataError, match=r'the source no longer has {"log":"a"}'):
        again.partitions(first, second)
    assert (
        again.latestOffset(first, ALL)['{"log":"a"}'] == first['{"log":"a"}']
    )  # not read any more, on purpose perhaps
    again.stop()


def test_a_log_that_is_another_one_now_is_an_error_or_read_from_its_beginning(
    logs: dict[str, dict[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryLogs, "ids", {"a": "first"})
    query = new_query()
    end = query.latestOffset({}, ReadMaxRows(6))
    assert end['{"log":"a"}'] == {"offset": '{"last":3}', "rows": 0, "log": "first"}
    query.stop()
    logs["a"] = {n: f"A{n}" for n in range(6)}
    monkeypatch.setattr(MemoryLogs, "ids", {"a": "second"})
    again = new_query()
    with pytest.raises(DataError, match=r'records are lost: .* {"log":"a"} was deleted and created again'):
        again.latestOffset(end, ALL)
    monkeypatch.setattr(MemoryLogs, "loses", {True})
    behind = again.latestOffset(end, ALL)
    assert values(again, end, behind) == [f"A{n}" for n in range(6)] + ["b2", "b3", "b4"]
    assert again.latestOffset(behind, ALL) == behind
    again.stop()


def test_records_that_are_gone_are_passed_over_where_the_source_lets_that_be(
    logs: dict[str, dict[int, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = new_query()
    end = query.latestOffset({}, ReadMaxRows(6))
    for number in range(7):
        del logs["a"][number]
    monkeypatch.setattr(MemoryLogs, "loses", {False})
    behind = query.latestOffset(end, ALL)
    assert values(query, end, behind) == ["a7", "a8", "a9", "b2", "b3", "b4"]
    assert 'records are lost: {"log":"a"} would continue at 4, its source begins at 7 now' in caplog.text
    query.stop()


def test_a_query_of_what_is_there_now_ends_there(query: RangeStreamReader, logs: dict[str, dict[int, str]]) -> None:
    query.prepareForTriggerAvailableNow()
    logs["a"][10], logs["c"] = "a10", {0: "c0"}
    end = query.latestOffset({}, ALL)
    assert len(values(query, {}, end)) == 15
    assert query.latestOffset(end, ALL) == end


def test_a_query_without_a_checkpoint_begins_behind_stored_offsets_in_any_form() -> None:
    starting = {"offsets": [{"partition": {"log": "a"}, "offset": {"last": 8}}]}
    query = new_query(startingOffsets=json.dumps(starting), maxRecords="100")
    assert query.getDefaultReadLimit() == ReadMaxRows(100)
    start = query.initialOffset()
    assert start == {'{"log":"a"}': {"offset": '{"last":8}', "rows": 0}}
    assert values(query, start, query.latestOffset(start, ALL)) == ["a9", "b0", "b1", "b2", "b3", "b4"]
    query.stop()


def test_spark_4_1_has_no_limits_and_a_resumed_query_begins_with_an_empty_batch() -> None:
    query = OlderStreamReader(new_query(maxRecords="6"))
    first, second, start = query.latestOffset(), query.latestOffset(), query.initialOffset()
    assert values(query, start, first) == ["a0", "a1", "a2", "a3", "b0", "b1"]
    assert len(values(query, first, second)) == 6
    query.stop()
    query = OlderStreamReader(new_query(maxRecords="6"))
    assert query.partitions(second, second) == []
    assert values(query, second, query.latestOffset()) == ["a8", "a9", "b4"]
    query.stop()


def test_imports_of_a_reading_process_are_frozen_for_its_collector(query: RangeStreamReader) -> None:
    assert values(query, {}, query.latestOffset(query.initialOffset(), ALL))
    assert gc.get_freeze_count() > 10_000  # Spark's Python collects behind each task
