"""Keys and values as typed columns: found types, said types, values that do not fit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.engine.datasource.open_task import open_task, poll_rows
from spark_connect_rt.engine.datasource.read_columns import columns_ddl
from spark_connect_rt.engine.datasource.read_options import Decode, ReadLimits, parse_options
from spark_connect_rt.engine.datasource.sampling import sampled_kinds
from spark_connect_rt.engine.datasource.stream_position import TaskPartition
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.errors import BadConfigError, DataError

STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Script(SourceTask):
    """Polls what a test put here, once."""

    polls: ClassVar[list[SourceRecord | SourceBatch]] = []

    def start(self, config: Mapping[str, str]) -> None:
        """Take the polls."""
        self._left = list(self.polls)

    def poll(self) -> Sequence[SourceRecord | SourceBatch]:
        """Return all, then nothing."""
        polled, self._left = self._left, []
        return polled

    def stop(self) -> None:
        """Nothing."""


def given(*polls: SourceRecord | SourceBatch) -> None:
    Script.polls = list(polls)


def record(value: Any, schema: Schema | None = None, key: Any = None) -> SourceRecord:
    return SourceRecord({"file": "f"}, {"line": 1}, "t", value, schema, key)


def partition(decodes: Sequence[Decode], **config: str) -> TaskPartition:
    converters = {"key.converter": STRING, "value.converter": JSON}
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    limits = ReadLimits(until="latest")
    return TaskPartition(f"{__name__}:Script", {}, converters | dotted, FACTORY, limits, (), tuple(decodes))


def rows(decode: Decode, kinds: Mapping[str, pa.DataType] | None = None, **config: str) -> list[Any]:
    made = partition([decode], **config)
    kinds = kinds or sampled_kinds([made], [decode])
    task = open_task(TaskPartition(made.task_class, {}, made.config, FACTORY, made.limits, (), (decode,), kinds))
    return [row[decode.column] for batch in poll_rows(task, made.limits) for row in batch.to_pylist()]


def decode(text: str, column: str = "value", **settings: str) -> Decode:
    return Decode(column, text, {name.replace("_", "."): value for name, value in settings.items()})


NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
ORDER = struct_of(
    {
        "id": schemas.INT64,
        "price": logical.decimal_schema(2),
        "day": logical.date_schema(),
        "at": logical.timestamp_schema(),
        "o'clock": logical.time_schema(),
        "share": schemas.FLOAT64,
        "tags": Schema(Type.ARRAY, value_schema=schemas.STRING),
        "counts": Schema(Type.MAP, key_schema=schemas.STRING, value_schema=schemas.INT32),
        "buyer": struct_of({"name": schemas.OPTIONAL_STRING}, optional=True),
    }
)
VALUES = {
    "id": 7,
    "price": Decimal("1.50"),
    "day": NOON.date(),
    "at": NOON,
    "o'clock": dt.time(0, 0, 1),
    "share": float("inf"),
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "buyer": None,
}


def test_a_sources_own_schema_makes_the_columns() -> None:
    given(record(Struct(ORDER, VALUES), ORDER), record(None))
    wanted = VALUES | {"o'clock": 1_000, "counts": [("x", 1)]}
    assert rows(decode("schema")) == [wanted, None]
    kinds = sampled_kinds([partition([decode("schema")])], [decode("schema")])
    assert columns_ddl([decode("schema")], kinds).split("value ", 1)[1].split(", headers")[0] == (
        "struct<`id`: bigint, `price`: decimal(38, 2), `day`: date, `at`: timestamp, `o'clock`: int, `share`: double, "
        "`tags`: array<string>, `counts`: map<string, int>, `buyer`: struct<`name`: string>>"
    )


def test_columns_of_a_source_stay_columns_and_rows_that_are_transformed_are_the_same() -> None:
    values = pa.array([{"id": 1, "at": NOON}, None], pa.struct([("id", pa.int32()), ("at", pa.timestamp("ms", "UTC"))]))
    schema = struct_of({"id": schemas.INT32, "at": logical.timestamp_schema()}, optional=True)
    given(SourceBatch({"file": "f"}, {"line": 2}, "t", values, schema))
    chain = {
        "transforms": "x",
        "transforms_x_type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms_x_static_field": "by",
        "transforms_x_static_value": "me",
    }
    assert rows(decode("schema")) == [{"id": 1, "at": NOON}, None]
    assert rows(decode("schema"), **chain) == [{"id": 1, "at": NOON, "by": "me"}, None]


def test_json_is_read_bare_and_in_its_envelope() -> None:
    texts = ['{"id":1,"at":"2024-02-29"}', '{"id":2.5,"more":[{"x":null}],"empty":{}}']
    given(*(record(text, schemas.STRING) for text in texts))
    assert rows(decode("json"), value_converter=STRING) == [
        {"id": 1.0, "at": "2024-02-29", "more": None},
        {"id": 2.5, "at": None, "more": [{"x": None}]},
    ]
    given(record(Struct(ORDER, VALUES), ORDER))
    assert rows(decode("json"))[0]["price"] == Decimal("1.50")


def test_a_configured_type_wins_over_the_existing_one() -> None:
    given(record('{"id":1,"at":"2024-02-29T12:00:00Z","price":1.5,"other":1}', schemas.STRING), record(None))
    kind = pa.struct([("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2)), ("none", pa.string())])
    assert rows(decode("json"), {"value": kind}, value_converter=STRING) == [
        {"at": NOON, "price": Decimal("1.50"), "none": None},
        None,
    ]
    counts = pa.map_(pa.string(), pa.int64())
    given(record('{"a":1}', schemas.STRING))
    assert rows(decode("json"), {"value": counts}, value_converter=STRING) == [[("a", 1)]]


def test_keys_are_decoded_by_any_converter() -> None:
    key = (7).to_bytes(8, "big")
    given(record(None, key=key))
    longs = decode("org.apache.kafka.connect.converters.LongConverter", "key")
    assert rows(longs, key_converter=BYTES) == [7]
    given(record(None, key="k"))
    assert rows(decode("string", "key")) == ["k"]


def test_a_value_that_does_not_fit_ends_the_read_or_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    given(*(record(text, schemas.STRING) for text in ('{"id":1}', '{"id":"x"}', "{")))
    kinds = {"value": pa.struct([("id", pa.int64())])}
    named = r'the value of the record of topic t, source_partition {"file":"f"}, source_offset {"line":1}: does not fit'
    with pytest.raises(DataError, match=named):
        rows(decode("json"), kinds, value_converter=STRING)
    assert rows(decode("json"), kinds, value_converter=STRING, errors_tolerance="all") == [{"id": 1}]
    assert caplog.text.count("skipped the record of topic t") == 2


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), "no record shows the type of the value. Set the type with valueType"),
        (("null",), "no record shows"),
        (("1", '"a"'), "the values are of different kinds: .*. Set the type with valueType"),
        (("{}",), "an object without fields has no column. Set the type"),
    ],
)
def test_an_inconclusive_sample_is_an_error(texts: tuple[str, ...], said: str) -> None:
    given(*(record(text, schemas.STRING) for text in texts))
    with pytest.raises(BadConfigError, match=said):
        rows(decode("json"), value_converter=STRING)


def test_a_format_and_its_settings_are_checked() -> None:
    given(record(1, schemas.INT32))
    with pytest.raises(BadConfigError, match="decode: 'xml' is neither one of json, schema, avro, protobuf"):
        rows(decode("xml"))
    with pytest.raises(BadConfigError, match=r"decode\.schema\.registry\.url"):
        rows(decode("avro"))


def test_options_of_both_columns() -> None:
    options = {"decode": "Avro", "decode.schema.registry.url": "http://r", "decodeKey": "json", "keyType": "bigint"}
    found = parse_options({"connector.class": "X", **options})
    assert found.decodes == (
        Decode("value", "avro", {"schema.registry.url": "http://r"}),
        Decode("key", "json", {}, "bigint"),
    )
    assert dict(found.config) == {"connector.class": "X"}
    assert "key bigint, value binary" in columns_ddl(found.decodes[1:], {})
