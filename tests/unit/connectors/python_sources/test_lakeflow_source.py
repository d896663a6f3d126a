"""LakeflowSource with classes of the community connectors' interface: kinds of tables, offsets, restarts, values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from spark_connect_rt.connectors.python_sources.lakeflow_source import LakeflowSourceConnector
from spark_connect_rt.connectors.python_sources.lakeflow_table import arrow_type, column_of
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.unit.connectors import lakeflow_samples as samples
from tests.unit.connectors.lakeflow_interface import METHODS

NEXT_PASS_AT_ONCE = {"poll.interval.ms": "0"}


@pytest.fixture(autouse=True)
def _empty() -> None:
    for memory in (samples.ASKED, samples.CHANGES, samples.GONE, samples.FAILURES):
        memory.clear()  # type: ignore[attr-defined]


def harness(name: str = "Memory", tables: str = "orders", **settings: str) -> SourceHarness:
    given = {f"lakeflow.{setting}": value for setting, value in settings.items()}
    config = {"lakeflow.class": f"{samples.__name__}:{name}", "lakeflow.tables": tables, "poll.interval.ms": "0"}
    return SourceHarness(LakeflowSourceConnector, {**config, "lakeflow.retry.backoff.ms": "1", **given})


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": id_, "at": "2026-01-02T03:04:05Z", "price": "1.5", "unknown": 1} for id_ in ids]


def polled(source: SourceHarness, times: int = 8) -> list[ProducedRecord]:
    return [record for _ in range(times) for record in source.poll()]


def ids(records: list[ProducedRecord]) -> list[int]:
    return [json.loads(record.key or b"{}")["id"] for record in records]


def test_changes_then_deletions_each_with_its_own_offset() -> None:
    samples.CHANGES += rows(1, 2, 3)
    samples.GONE += [{"id": 2}]
    with harness() as source:
        found = polled(source)
        assert [(id_, record.value is None) for id_, record in zip(ids(found), found, strict=True)] == [
            (1, False),
            (2, False),
            (3, False),
            (2, True),
        ]
        assert found[0].json() == {"id": 1, "at": 1767323045000, "price": "AJY=", "tags": None, "raw": None}
        assert source.offsets.all() == [
            ({"lakeflow": "Memory", "table": "orders"}, {"offset": '{"given":3}'}),
            ({"lakeflow": "Memory", "table": "orders", "flow": "deletes"}, {"offset": '{"given":1}'}),
        ]
        samples.CHANGES += rows(4)
        samples.GONE += [{"id": 1}]
        source.restart()
        found = polled(source)
        assert [(id_, record.value is None) for id_, record in zip(ids(found), found, strict=True)] == [
            (4, False),
            (1, True),
        ]


@pytest.mark.parametrize("name", ["Memory", "Partitioned"])
def test_only_rows_that_were_not_durable_are_read_again(name: str) -> None:
    samples.CHANGES += rows(*range(10))
    with harness(name, "clicks", **{"table.clicks.step": "4"}) as source:
        taken = source.poll()
        source.poll(durable=False)
        source.restart()
        counts = Counter(ids([*taken, *polled(source)]))
    assert set(counts) == set(range(10))
    assert max(counts.values()) == 1
    assert bool(samples.ASKED["partitions"]) is (name == "Partitioned")


def test_rows_of_one_call_in_several_batches_have_the_offset_behind_the_last_only() -> None:
    samples.CHANGES += rows(*range(5))
    config = {"option.step": "5"}
    source = harness(tables="clicks", **config)
    source.hosted.config["batch.max.rows"] = "2"
    with source:
        assert ids(source.poll()) == [0, 1]
        assert source.offsets.all()[-1][1] == {"offset": "{}"}
        source.restart()
        assert ids(polled(source)) == [0, 1, 2, 3, 4]
        assert source.offsets.all()[-1][1] == {"offset": '{"given":5}'}


@pytest.mark.parametrize("name", ["Memory", "Partitioned"])
def test_a_snapshot_comes_whole_when_it_is_time_also_across_restarts(name: str) -> None:
    samples.CHANGES += rows(1, 2)
    source = harness(name, "countries")
    source.hosted.config["poll.interval.ms"] = "3600000"
    with source:
        assert ids(polled(source)) == [1, 2]
        source.restart()
        assert polled(source) == []
        source.tasks[0].clock = lambda: 4e9  # type: ignore[attr-defined]
        assert ids(polled(source)) == [1, 2]


def test_each_pass_has_its_own_instance_and_options() -> None:
    samples.CHANGES += rows(1)
    with harness(tables="clicks", **{"option.Step": "7", "table.clicks.STEP": "1"}) as source:
        polled(source, 2)
        samples.CHANGES += rows(2, 3)
        assert ids(polled(source)) == [2, 3]
        assert samples.ASKED["clicks {'given': 2} clicks"] >= 1
    assert samples.ASKED["made"] >= 3


@pytest.mark.parametrize(
    ("name", "kind"), [("Memory", "LakeflowConnect"), ("Partitioned", "SupportsPartitionedStream")]
)
def test_calls_are_those_of_the_interface_as_recorded(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positional, as Databricks' reader calls: the argument's names are each connector's own."""
    samples.CHANGES += rows(1, 2, 3)
    samples.GONE += [{"id": 2}]
    seen: dict[str, tuple[Any, ...]] = {}
    base = getattr(samples, name)
    methods = {**METHODS["LakeflowConnect"], **METHODS[kind]}

    def watched(method: str) -> Any:
        real = getattr(base, method)

        def call(self: Any, *given: Any) -> Any:
            seen[method] = given
            assert len(given) == len(methods[method]) or (method, len(given)) == ("get_partitions", 2)
            for argument, value in zip(methods[method], given, strict=False):
                wanted = str if argument == "table_name" else dict
                assert isinstance(value, wanted), (method, argument)
            return real(self, *given)

        return call

    for method in methods:
        if hasattr(base, method):
            monkeypatch.setattr(base, method, watched(method), raising=False)
    with harness(name, tables="") as source:
        polled(source, 20)
    by_partitions = {"read_table"} if name == "Partitioned" else set()
    assert seen.keys() == {known for known in methods if hasattr(base, known)} - by_partitions


def test_tables_are_dealt_to_tasks() -> None:
    source = harness(tables="")
    source.hosted.config["tasks.max"] = "2"
    with source:
        shares = [json.loads(config["lakeflow.task.tables"]) for config in source.hosted.task_configs()]
    assert shares == [["orders", "clicks"], ["countries"]]


def test_a_failure_is_tried_again_and_then_fails_the_task() -> None:
    samples.CHANGES += rows(1, 2)
    samples.FAILURES.append(OSError("the line is down"))
    with harness(tables="clicks", **{"retries.max": "1"}) as source:
        clock = [1e9]
        source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
        assert source.poll() == []
        clock[0] += 1.3  # of 1 ms, with 20 % of jitter
        assert ids(polled(source, 2)) == [1, 2]
        samples.CHANGES += rows(3)
        samples.FAILURES += [OSError("the line is down")] * 2
        assert polled(source, 2) == []
        clock[0] += 1.3  # of 1 ms, with 20 % of jitter
        with pytest.raises(ConnectError, match=r"table clicks failed 2 times in a row: the line is down"):
            source.poll()


def test_a_row_that_does_not_fit_the_schema_is_errant() -> None:
    samples.CHANGES += [*rows(1), {"id": 2, "price": "much"}, {"id": None}]
    source = harness(tables="countries")
    source.hosted.config["errors.tolerance"] = "all"
    with source:
        assert ids(source.poll()) == [1]
        assert len(source.errants) == 2
    with harness(tables="countries") as source, pytest.raises(DataError):
        source.poll()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lakeflow.class": f"{samples.__name__}:Half"}, "has no get_table_schema, read_table_metadata, read_table"),
        ({"lakeflow.class": "os:system"}, "is not a Lakeflow connector"),
        ({"lakeflow.class": "no.such:Thing"}, "No module named 'no'"),
        ({"lakeflow.class": "nothing"}, "cannot be found"),
    ],
)
def test_a_bad_class_is_refused(settings: Mapping[str, str], words: str) -> None:
    with pytest.raises(BadConfigError, match=words):
        SourceHarness(LakeflowSourceConnector, settings).start()


def test_an_unknown_ingestion_type_fails() -> None:
    with (
        harness(**{"option.kind": "magic"}) as source,
        pytest.raises(ConnectError, match=r"magic is not supported. Supported are snapshot"),
    ):
        source.poll()


def test_offsets_are_checked() -> None:
    connector = LakeflowSourceConnector()
    assert connector.alter_offsets({}, [({"lakeflow": "A", "table": "b"}, {"offset": '{"x": 1}'})])
    for partition, offset in (({"table": "b"}, {"offset": "{}"}), ({"lakeflow": "A", "table": "b"}, {"offset": "[]"})):
        with pytest.raises(ConnectError):
            connector.alter_offsets({}, [(partition, offset)])


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        (spark.IntegerType(), ["12", 12, 12.0, "12.7", None], [12, 12, 12, 12, None]),
        (spark.StringType(), ["a", 1, {"b": [1]}, True], ["a", "1", '{"b":[1]}', "True"]),
        (spark.BooleanType(), ["yes", "F", 1, True], [True, False, True, True]),
        (spark.DoubleType(), ["1.5", 2], [1.5, 2.0]),
        (spark.DateType(), ["2026-01-02", "01/02/2026", "2026-01-02T00:00:00"], ["2026-01-02"] * 3),
        (
            spark.TimestampType(),
            ["2026-01-02T00:00:00Z", "2026-01-02 00:00:00", 1767312000],
            ["2026-01-02 00:00:00+00:00"] * 3,
        ),
        (spark.BinaryType(), ["AQI=", "zz", b"c"], [b"\x01\x02", b"zz", b"c"]),
        (
            spark.StructType().add("a", "timestamp").add("b", "integer"),
            [{"a": 1767312000, "c": 1}],
            [{"a": "2026-01-02 00:00:00+00:00", "b": None}],
        ),
        (spark.ArrayType(spark.IntegerType()), [["1", 2], 3], [[1, 2], [3]]),
        (spark.MapType(spark.StringType(), spark.IntegerType()), [{"a": "1"}], [[("a", 1)]]),
    ],
)
def test_values_are_read_as_databricks_reads_them(kind: spark.DataType, values: list[Any], found: list[Any]) -> None:
    column = column_of(values, arrow_type(kind), "x")

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shown(part) for name, part in value.items()}
        return str(value) if hasattr(value, "isoformat") else value

    assert [shown(value) for value in column.to_pylist()] == found


def test_a_type_that_only_spark_has_is_text() -> None:
    assert arrow_type(spark.CalendarIntervalType()) == pa.string()
