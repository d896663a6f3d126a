"""Reads of a connector over logs: what filters let be polled, how a limit is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from pyspark_connectrt import DefaultSource
from spark_connect_rt.api.ranges import SourceRange
from spark_connect_rt.engine.datasource.pushed_filters import Comparison
from spark_connect_rt.engine.datasource.range_stream import shared
from spark_connect_rt.engine.datasource.read_options import COLUMNS
from spark_connect_rt.errors import BadConfigError, NotFoundError
from tests.unit.engine.datasource.memory_logs import MemoryLogs, MemoryLogTask

pytestmark = pytest.mark.usefixtures("logs")


def schema() -> StructType:
    found = StructType()
    for name in COLUMNS:
        found = found.add(name, "string")
    return found


def read(*conditions: Comparison, **options: str) -> tuple[list[str], int]:
    """Return what a read with these filters gives, and how many records it polled."""
    MemoryLogTask.polled = 0
    found = filtered(MemoryLogs.options() | {"until": "latest"} | options, conditions)
    return [value.decode() for value in found], MemoryLogTask.polled


def filtered(options: Mapping[str, str], conditions: Sequence[Comparison]) -> list[bytes]:
    """Return the values that a read with these filters gives, in order."""
    reader = DefaultSource(dict(options)).reader(schema())
    reader._conditions = list(conditions)  # type: ignore[attr-defined]
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(value for batch in found for value in batch.column("value").to_pylist())


def test_a_batch_read_of_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLogs, "gone", ['topic "nope" does not exist'])
    with pytest.raises(NotFoundError, match='topic "nope" does not exist'):
        read()


@pytest.mark.parametrize("more", [{}, {"maxBytes": "100"}, {"decode": "string", "valueType": "string"}])
def test_only_the_columns_asked_for_are_made(more: dict[str, str]) -> None:
    options = MemoryLogs.options() | {"until": "latest", "columns": "value,partition"} | more
    source = DefaultSource(options)
    assert source.schema() == f"value {'string' if 'decode' in more else 'binary'}, partition int"
    columns = StructType().add("value", "string").add("partition", "integer")
    reader = source.reader(columns)
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert {tuple(batch.schema.names) for batch in found} == {("value", "partition")}
    assert sum(batch.num_rows for batch in found) == 15
    with pytest.raises(BadConfigError, match=r"the columns are value, partition. Remove .schema"):
        source.reader(schema())
    with pytest.raises(BadConfigError, match="A table always has all of its columns"):
        DefaultSource({"path": "offsets", "columns": "name"}).schema()


def at(number: int) -> datetime:
    return datetime.fromtimestamp(number / 1000, UTC)


def test_filters_bound_what_is_polled() -> None:
    assert read(Comparison("topic", "EqualTo", "b")) == (["b0", "b1", "b2", "b3", "b4"], 5)
    since = Comparison("timestamp", "GreaterThanOrEqual", at(3))
    assert read(Comparison("topic", "In", ("b", "c")), since) == (["b3", "b4"], 2)
    assert read(since, Comparison("timestamp", "LessThan", at(5))) == (["a3", "a4", "b3", "b4"], 9)
    assert read(Comparison("topic", "EqualTo", "c")) == ([], 0)
    assert read(since, until="idle", idleMs="1") == ([*(f"a{n}" for n in range(3, 10)), "b3", "b4"], 9)


def test_filter_on_a_field_that_a_transformation_may_change_bounds_nothing() -> None:
    route = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "a",
        "transforms.route.replacement": "b",
    }
    found, polled = read(Comparison("topic", "EqualTo", "b"), **route)
    assert (len(found), polled) == (15, 15)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 200))
def test_shares_are_beginnings_that_fill_the_limit(lengths: list[int], limit: int) -> None:
    whole = [SourceRange({"log": n}, 7, 7 + length) for n, length in enumerate(lengths)]
    parts = [(source_range.end or 0) - source_range.first for source_range in shared(whole, limit)]
    assert sum(parts) == min(limit, sum(lengths))
    assert all(0 <= part <= length for part, length in zip(parts, lengths, strict=True))
