"""DatagenSource: the same records whatever the batches, rate, end, keys, offsets."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data.schema import Type
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.connectors.samples.datagen_source import (
    CONFIG,
    QUICKSTARTS,
    DatagenSourceConnector,
    DatagenSourceTask,
    parse_fields,
    row_schema,
    rows,
)
from spark_connect_rt.errors import BadConfigError, ConnectError
from tests.unit.connectors.task_context import Context, poll_all, values_of

ALL_KINDS = {
    "n": {"kind": "sequence", "start": 5, "step": 2},
    "i": {"kind": "int", "min": -3, "max": 3},
    "l": {"kind": "long"},
    "d": {"kind": "double", "min": -1, "max": 1, "digits": 2},
    "c": {"kind": "choice", "of": ["a", "b"], "null_per_mille": 300},
    "t": {"kind": "text", "prefix": "x-", "distinct": 50},
    "b": {"kind": "boolean"},
    "at": {"kind": "timestamp"},
}


def task(offset: dict[str, Any] | None = None, **settings: Any) -> DatagenSourceTask:
    made = DatagenSourceTask()
    made.context = Context(offset)  # type: ignore[assignment]
    made.start(
        {"topic": "t", **{f"datagen.{name}".replace("_", "."): str(setting) for name, setting in settings.items()}}
    )
    return made


def test_record_n_is_the_same_whatever_batch_it_comes_in() -> None:
    fields = parse_fields(json.dumps(ALL_KINDS))
    whole = rows(fields, 7, 0, 500).to_pylist()
    assert [row for first in range(0, 500, 50) for row in rows(fields, 7, first, 50).to_pylist()] == whole
    assert rows(fields, 7, 123, 1).to_pylist() == [whole[123]]
    assert rows(fields, 8, 0, 500).to_pylist() != whole


def test_the_first_records_are_these_on_every_machine() -> None:
    """Recorded once: a seed names its records for good."""
    fields = parse_fields("users")
    assert rows(fields, 1, 0, 2).to_pylist() == [FIRST, SECOND]


FIRST = {"registertime": 1512527724491, "userid": "User_4", "regionid": "Region_2", "gender": "OTHER"}
SECOND = {"registertime": 1503813630862, "userid": "User_2", "regionid": "Region_3", "gender": "FEMALE"}


def test_values_are_what_the_schema_and_the_limits_say() -> None:
    fields = parse_fields(json.dumps(ALL_KINDS))
    schema = row_schema(fields, "x.Row")
    values = rows(fields, 1, 0, 2_000).to_pylist()
    for value in values:
        check_value(schema, Struct.from_mapping(schema, value))
    assert [row["n"] for row in values[:3]] == [5, 7, 9]
    assert {row["i"] for row in values} == set(range(-3, 4))
    assert {row["c"] for row in values} == {"a", "b", None}
    assert 450 < sum(row["c"] is None for row in values) < 750
    assert len({row["t"] for row in values}) == 50
    assert all(-1 <= row["d"] <= 1 and round(row["d"], 2) == row["d"] for row in values)
    assert 800 < sum(row["b"] for row in values) < 1_200
    assert (schema.name, schema.fields[4].schema.optional, schema.fields[5].schema.optional) == ("x.Row", True, False)


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_every_quickstart_has_flat_rows(name: str) -> None:
    fields = parse_fields(name)
    assert rows(fields, 0, 0, 3).type.num_fields == len(fields)
    assert row_schema(fields, None).type is Type.STRUCT


def test_a_task_resumes_after_its_offset_and_ends() -> None:
    first = poll_all(task(max_records=25, batch_records=10, schema="orders"))
    assert [len(batch.values) for batch in first] == [10, 10, 5]
    assert [batch.source_offset for batch in first] == [{"n": 10}, {"n": 20}, {"n": 25}]
    assert first[0].source_partition == {"task": 0}
    again = poll_all(task({"n": 20}, max_records=25, schema="orders"))
    assert values_of(again) == values_of(first)[20:]
    assert poll_all(task({"n": 25}, max_records=25)) == []


def test_keys_are_the_text_of_a_field() -> None:
    (batch,) = poll_all(task(max_records=3, key_field="orderid"))
    assert batch.keys is not None
    assert batch.keys == pa.array(["0", "1", "2"])


def test_tasks_have_their_own_records() -> None:
    connector = DatagenSourceConnector()
    connector.start({"topic": "t", "datagen.schema": "users"})
    configs = connector.task_configs(2)
    made = []
    for config in configs:
        datagen_source_task = DatagenSourceTask()
        datagen_source_task.context = Context()  # type: ignore[assignment]
        datagen_source_task.start({**config, "datagen.max.records": "5"})
        made.append(poll_all(datagen_source_task))
    assert [polled[0].source_partition for polled in made] == [{"task": 0}, {"task": 1}]
    assert values_of(made[0]) != values_of(made[1])


def handovers(source: DatagenSourceTask, until_ms: int) -> list[tuple[int, int]]:
    """Poll as the engine does until a time has passed: return (ms since the start, records) of polls with records."""
    began, now = source._began_ms, 0
    source.clock = lambda: began + now  # type: ignore[method-assign]
    found = []
    while now <= until_ms:
        if batches := source.poll():
            found.append((now, len(values_of(batches))))
        else:
            now += source.idle_wait_ms()
    return found


@pytest.mark.parametrize(
    ("rate", "apart_ms"), [(1, 500), (7, 500), (50, 500), (1_000, 500), (5_000, 200), (33_333, 100)]
)
def test_records_are_handed_over_twice_a_second_or_sooner_by_the_thousand(rate: int, apart_ms: int) -> None:
    polled = handovers(task(rate=rate, schema="pageviews"), 10_000)
    assert len(polled) <= min(10_000 // apart_ms, 10 * rate) + 1
    sent, latency_ms = 0, 0.0
    for at_ms, count in polled:
        assert sent + count == 1 + rate * at_ms // 1000, "every record that is due, and no other"
        latency_ms = max(latency_ms, at_ms - sent * 1000 / rate)
        sent += count
    assert polled[0] == (0, 1)
    assert latency_ms <= apart_ms + 1


def test_a_full_batch_is_handed_over_as_soon_as_it_is_due() -> None:
    assert handovers(task(rate=100, batch_records=2, schema="pageviews"), 50) == [(0, 1), (20, 2), (40, 2)]
    fast = handovers(task(rate=1_000_000, schema="pageviews"), 100)
    assert sum(count for _, count in fast) == 100_001
    assert handovers(task(rate=10, max_records=2, schema="pageviews"), 1_000) == [(0, 1), (100, 1)]
    assert handovers(task(rate=0, schema="pageviews"), 1_000) == [(0, 1)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("nope", "must be one of orders"),
        ("[]", "object"),
        ('{"a": {"kind": "date"}}', "field a: kind"),
        ('{"a": {"kind": "int", "from": 1}}', "does not take from"),
        ('{"a": {"kind": "int", "min": 2, "max": 1}}', "field a: min"),
        ('{"a": {"kind": "choice"}}', "of must list texts"),
        ('{"a": {"kind": "text", "distinct": 0}}', "at least 1"),
        ('{"a": {"kind": "int", "null_per_mille": 2000}}', "null_per_mille"),
    ],
)
def test_a_schema_that_is_invalid_is_refused(schema: str, words: str) -> None:
    with pytest.raises(BadConfigError, match=words):
        CONFIG.parse({"topic": "t", "datagen.schema": schema})


def test_a_key_that_is_not_a_field_and_offsets_of_others_are_refused() -> None:
    connector = DatagenSourceConnector()
    (problem,) = connector.validate({"datagen.key.field": "x"})["datagen.key.field"]
    assert problem.startswith("x is not a field of datagen.schema. Use one of ordertime, orderid")
    assert not connector.validate({"datagen.key.field": "orderid"})
    assert connector.alter_offsets({}, [({"task": 1}, {"n": 5}), ({"any": 1}, None)])
    for partition, offset in (({"task": 1}, {"n": -1}), ({"task": "a"}, {"n": 1}), ({"x": 1}, {"n": 1})):
        with pytest.raises(ConnectError):
            connector.alter_offsets({}, [(partition, offset)])
