"""A stream of micro-batches: where each ends, what a repeated one holds, what executors are sent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from pyspark_connectrt import DefaultSource
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.engine.datasource import stream_reader
from spark_connect_rt.engine.datasource.connectrt import FormatSource
from spark_connect_rt.engine.datasource.named_connector import NamedConnector
from spark_connect_rt.engine.datasource.open_task import OpenTask, ReadContext
from spark_connect_rt.engine.datasource.read_options import SourceOffset
from spark_connect_rt.engine.datasource.stream_limits import ReadAllAvailable, ReadMaxRows
from spark_connect_rt.engine.datasource.stream_position import (
    advanced,
    first_rows,
    offsets_of,
    position_at,
    rows_between,
)
from spark_connect_rt.engine.datasource.stream_reader import StreamPlan, StreamReader
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

STRINGS = {"key.converter": "String", "value.converter": "String", "header.converter": "Header"}
PLUGINS = {"String": StringConverter, "Header": SimpleHeaderConverter}
ALL = ReadAllAvailable()


class Log(SourceTask):
    """Polls what stands in a list, some records at a time, from its stored offset on."""

    def __init__(self, name: str, values: list[str], at_a_time: list[int]) -> None:
        self._name, self._values, self._at_a_time = name, values, at_a_time
        self.stopped = False

    def start(self, config: object) -> None:
        """Resume."""
        (stored,) = self.context.offset_reader.offsets([{"log": self._name}])
        self._at = stored["next"] if stored else 0

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next records."""
        first, count = self._at, self._at_a_time[0]
        self._at = min(len(self._values), first + count)
        partition = {"log": self._name}
        return [SourceRecord(partition, {"next": n + 1}, "t", self._values[n]) for n in range(first, self._at)]

    def stop(self) -> None:
        """Note it."""
        self.stopped = True

    def idle_wait_ms(self) -> int:
        """Hardly."""
        return 1


class Coarse(Log):
    """Its offset is that of the last three rows that are complete, as of rows that have a time and no number."""

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next records."""
        at_end = {"next": len(self._values)}
        return [
            SourceRecord(
                record.source_partition,
                at_end if place == at_end else {"next": place["next"] // 3 * 3},
                "t",
                record.value,
            )
            for record in super().poll()
            for place in [dict(record.source_offset or {})]
        ]


class Book:
    """Stored offsets."""

    def __init__(self) -> None:
        self.stored: list[SourceOffset] = []
        self.closed = False

    def read(self) -> Sequence[SourceOffset]:
        """Return them."""
        return self.stored

    def write(self, offsets: Sequence[SourceOffset]) -> None:
        """Replace them."""
        self.stored = list(offsets)

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Source:
    """Two logs, and queries on them, one after the other."""

    def __init__(self) -> None:
        self.logs: dict[str, list[str]] = {"a": [], "b": []}
        self.at_a_time = [2]
        self.tasks: list[Log] = []
        self.book = Book()
        self.task_class: type[Log] = Log

    def query(
        self, max_records: int | None = None, starting: Sequence[SourceOffset] = (), max_wait_ms: int | None = None
    ) -> StreamReader:
        exact = self.task_class is Log
        plan = StreamPlan(self._open, lambda: starting, max_records, 50, exact, lambda: self.book)
        return StreamReader(replace(plan, max_wait_ms=max_wait_ms))

    def _open(self, starting: Sequence[SourceOffset]) -> list[OpenTask]:
        opened = []
        for name, values in self.logs.items():
            task = self.task_class(name, values, self.at_a_time)
            context = task.context = ReadContext(starting)
            context.pipeline = SourcePipeline.from_config(STRINGS, {}, PLUGINS.__getitem__)
            task.start({})
            self.tasks.append(task)
            opened.append(OpenTask(task, context.pipeline))
        return opened


def values(query: StreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    executor = pickle.loads(pickle.dumps(query))
    found = [row for part in query.partitions(dict(start), dict(end)) for row in executor.read(part)]
    return [value.decode() for batch in found for value in batch.column("value").to_pylist()]


def kept(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Return an offset as it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def test_batches_follow_one_another_and_end_where_nothing_more_comes() -> None:
    source = Source()
    source.logs["a"] += ["a1", "a2", "a3"]
    query = source.query()
    first = query.initialOffset()
    assert first == {}
    second = query.latestOffset(first, ALL)
    assert values(query, first, second) == ["a1", "a2", "a3"]
    assert source.book.stored == []
    assert query.latestOffset(second, ALL) == second
    assert source.book.stored == [({"log": "a"}, {"next": 3})]
    assert values(query, second, second) == []
    source.logs["b"] += ["b1"]
    third = query.latestOffset(kept(second), ALL)
    assert values(query, second, third) == ["b1"]
    assert third == {
        '{"log":"a"}': {"offset": '{"next":3}', "rows": 3},
        '{"log":"b"}': {"offset": '{"next":1}', "rows": 1},
    }
    assert query.reportLatestOffset() == third
    query.commit(third)
    assert source.book.stored == [({"log": "a"}, {"next": 3}), ({"log": "b"}, {"next": 1})]
    assert len(source.tasks) == 2  # they ran all the time
    query.stop()
    assert all(task.stopped for task in source.tasks)
    assert source.book.closed


def test_a_limit_ends_a_batch_behind_the_poll_that_reaches_it() -> None:
    source = Source()
    source.logs["a"] += [f"a{n}" for n in range(10)]
    query = source.query(max_records=3)
    limit = query.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert limit.max_rows == 3
    end = query.latestOffset({}, limit)
    assert values(query, {}, end) == ["a0", "a1", "a2", "a3"]
    assert values(query, end, query.latestOffset(end, ALL)) == [f"a{n}" for n in range(4, 10)]


def test_a_batch_ends_when_its_time_is_up_and_it_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter(range(1_000))  # each look at the clock is a second later
    clock = SimpleNamespace(monotonic=lambda: next(now_s), sleep=lambda _: None)
    monkeypatch.setattr(stream_reader, "time", clock)
    source = Source()
    source.logs["a"] += [f"a{n}" for n in range(100)]
    query = source.query(max_wait_ms=3_000)
    end = query.latestOffset({}, ALL)
    assert values(query, {}, end) == [f"a{n}" for n in range(6)]  # three polls of two rows
    behind = query.latestOffset(end, ALL)
    assert values(query, end, behind) == [f"a{n}" for n in range(6, 12)]
    source.logs["a"].clear()
    assert query.latestOffset(behind, ALL) == behind


def test_small_batches_take_little_more_memory_than_their_rows() -> None:
    source = Source()
    source.logs["a"] += [f"a{n}" for n in range(4_000)]
    query = source.query()
    end = query.latestOffset({}, ALL)
    assert query._polled is not None
    assert len(query._polled.batches) < 10
    assert sum(batch.get_total_buffer_size() for batch in query._polled.batches) < 2 * sum(
        batch.nbytes for batch in query._polled.batches
    )
    assert values(query, {}, end) == source.logs["a"]
    assert end['{"log":"a"}']["rows"] == 4_000


def test_a_batch_in_flight_is_repeated_as_it_was_in_any_cut() -> None:
    source = Source()
    source.logs["a"] += ["a1", "a2", "a3"]
    source.logs["b"] += ["b1"]
    end = source.query().latestOffset({}, ALL)
    source.logs["a"] += ["a4", "a5"]
    source.logs["b"] += ["b2"]
    source.at_a_time[0] = 50
    again = source.query()
    assert sorted(values(again, {}, kept(end))) == ["a1", "a2", "a3", "b1"]
    assert sorted(values(again, end, again.latestOffset(kept(end), ALL))) == ["a4", "a5", "b2"]


def test_a_batch_that_the_source_cannot_repeat_is_an_error() -> None:
    source = Source()
    source.logs["a"] += ["a1", "a2", "a3"]
    end = source.query().latestOffset({}, ALL)
    del source.logs["a"][1:]
    with pytest.raises(DataError, match=r'cannot be repeated, because the source lacks rows: 2 of {"log":"a"}'):
        values(source.query(), {}, kept(end))


@pytest.mark.parametrize("at_a_time", [1, 2, 5, 50])
def test_a_repeated_batch_loses_no_row_where_offsets_are_not_exact(at_a_time: int) -> None:
    source = Source()
    source.task_class = Coarse
    source.logs["a"] += [f"a{n}" for n in range(8)]
    source.at_a_time[0] = 5
    query = source.query(max_records=5)
    first = query.latestOffset({}, query.getDefaultReadLimit())
    given = values(query, {}, first)
    second = query.latestOffset(first, ALL)
    assert (given, values(query, first, second)) == (["a0", "a1", "a2", "a3", "a4"], ["a5", "a6", "a7"])
    source.logs["b"] += ["b0"]  # of a later batch
    source.at_a_time[0] = at_a_time
    again = source.query()
    repeated = values(again, kept(first), kept(second))
    assert repeated == ["a3", "a4", "a5", "a6", "a7"]
    assert values(again, second, again.latestOffset(kept(second), ALL)) == ["b0"]


@pytest.mark.parametrize(("mode", "exact"), [("incrementing", True), ("timestamp", False)])
def test_a_connector_says_whether_its_offsets_are_exact(mode: str, exact: bool) -> None:
    columns = {"incrementing.column.name": "id", "timestamp.column.name": "at"}
    sql = {
        "connector.class": "SqlSource",
        "connection.url": "sqlite:///rows.db",
        "topic.prefix": "t-",
        "mode": mode,
        **columns,
    }
    assert NamedConnector(sql, FormatSource.clients, FormatSource.deployed).exact_offsets is exact


def test_rows_that_came_between_have_other_offsets_and_join_the_repeated_batch() -> None:
    source = Source()
    source.task_class = Coarse
    source.logs["a"] += ["a0", "a1", "a2", "a3"]
    end = source.query().latestOffset({}, ALL)
    source.logs["a"] += ["a4"]
    source.at_a_time[0] = 50
    assert values(source.query(), {}, kept(end)) == ["a0", "a1", "a2", "a3", "a4"]
    del source.logs["a"][2:]
    with pytest.raises(DataError, match=r'lacks rows: 2 of {"log":"a"}'):
        values(source.query(), {}, kept(end))


def test_a_query_without_a_checkpoint_begins_at_stored_offsets() -> None:
    source = Source()
    source.logs["a"] += ["a1", "a2", "a3"]
    query = source.query(starting=[({"log": "a"}, {"next": 2})])
    start = query.initialOffset()
    assert values(query, start, query.latestOffset(start, ALL)) == ["a3"]


def batches(rows: list[tuple[str, int]], cuts: list[int]) -> list[pa.RecordBatch]:
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    pieces = [rows[first:last] for first, last in pairwise(edges)]
    return [
        pa.RecordBatch.from_pydict(
            {
                "source_partition": [json.dumps({"p": name}, separators=(",", ":")) for name, _ in piece],
                "source_offset": [json.dumps({"n": number}, separators=(",", ":")) for _, number in piece],
            }
        )
        for piece in pieces
    ]


@given(
    st.lists(st.sampled_from("xyz"), max_size=30),
    st.lists(st.integers(0, 30)),
    st.lists(st.integers(0, 30)),
    st.integers(0, 30),
)
def test_any_cutting_of_the_same_rows_gives_the_same_batch(
    names: list[str], cuts: list[int], others: list[int], length: int
) -> None:
    rows = [(name, names[: at + 1].count(name)) for at, name in enumerate(names)]
    start = position_at([({"p": "x"}, {"n": 0})])
    end = start
    for batch in batches(rows[:length], cuts):
        end = advanced(end, batch)
    wanted = rows_between(start, end)
    repeated = [first_rows(batch, wanted) for batch in batches(rows, others)]
    places = [row for batch in repeated for row in zip(*batch.to_pydict().values(), strict=True)]
    assert places == [
        row for batch in batches(rows[:length], []) for row in zip(*batch.to_pydict().values(), strict=True)
    ]
    assert not any(wanted.values())
    last = dict(rows[:length])
    assert {p["p"]: o["n"] for p, o in offsets_of(end)} == {"x": 0} | last


def test_tables_are_not_streams() -> None:
    source = DefaultSource({"path": "offsets"})
    with pytest.raises(BadConfigError, match=r"tables can only be read with spark.read"):
        source.streamReader(StructType())
