"""What PostgreSQL reads as text: the same for lists and Arrow columns, refused where the column is for other values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from spark_connect_rt.api.data.schema import BYTES, INT32, STRING, Schema, struct_of
from spark_connect_rt.api.data.schema import Type as ConnectType
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.connectors.sql.sql_target import column_type
from spark_connect_rt.connectors.sql.sql_texts import text_column
from spark_connect_rt.connectors.sql.sql_values import VARIABLE_SCALE_DECIMAL, conversion, variable_scale_decimal
from spark_connect_rt.errors import DataError

BIGINT, NUMERIC, TEXT = sa.BigInteger(), sa.Numeric(), sa.Text()
JSONB = postgresql.JSONB()


def texts(values: Any, kind: Any) -> list[Any]:
    return text_column(values, kind).cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([1.75, 2.0, None, 2.0**53, 1e15], BIGINT, ["1.75", "2", None, str(2**53), "1000000000000000"]),
        ([2.0, -(2.0**63)], BIGINT, ["2", "-9.223372036854776e+18"]),
        ([Decimal("2.00"), Decimal("1.75"), Decimal("1E+5")], BIGINT, ["2", "1.75", "100000"]),
        ([1 / 3, 0.1, 1e300], NUMERIC, ["0.3333333333333333", "0.1", "1e+300"]),
        ([Decimal("1E+5"), Decimal("NaN"), 1, 2.5], NUMERIC, ["100000", "NaN", "1", "2.5"]),
        ([2**70, 1], NUMERIC, [str(2**70), "1"]),
        ([True, None], sa.Boolean(), ["true", None]),
        ([b"\x00\xff"], sa.LargeBinary(), ["\\x00ff"]),
        ([dt.datetime(2024, 7, 1, 10, 0, 0, 500_000)], TEXT, ["2024-07-01 10:00:00.500"]),
        ([dt.time(1, 2, 3, 4), dt.date(44, 3, 15)], TEXT, ["01:02:03.000004", "0044-03-15"]),
        ([[1, None, 2.5], [], [[1], [2]]], sa.ARRAY(NUMERIC), ['{"1",NULL,"2.5"}', "{}", '{{"1"},{"2"}}']),
        ([['a"\\', "{}"]], sa.ARRAY(TEXT), ['{"a\\"\\\\","{}"}']),
        (['{"a": 1}'], JSONB, ['{"a": 1}']),
        ([None, None], BIGINT, [None, None]),
    ],
)  # fmt: skip
def test_a_value_has_one_text(values: list[Any], kind: Any, wanted: list[Any]) -> None:
    found = texts(values, kind)
    assert found == wanted


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1], sa.Boolean()), ([True], BIGINT), ([1], JSONB), ([1.5], JSONB), ([True], JSONB), ([1], sa.LargeBinary()),
        ([1.5], postgresql.MONEY()), ([b"1"], BIGINT), ([1], sa.Date()), ([1], sa.DateTime()), ([101112], sa.Time()),
        ([1], postgresql.BIT()), ([1], postgresql.INTERVAL()), ([1], sa.ARRAY(BIGINT)), ([[True]], sa.ARRAY(BIGINT)),
        ([1], postgresql.ENUM("1", name="e")), ([dt.date(2024, 1, 1)], BIGINT), (["\ud800"], TEXT),
        ([1], postgresql.DOMAIN("d", sa.Boolean())), ([object()], sa.types.NullType()),
    ],
    ids=lambda part: "object" if type(part) is list and type(part[0]) is object else str(part),
)  # fmt: skip
def test_a_value_that_the_column_is_not_for_is_refused(values: list[Any], kind: Any) -> None:
    with pytest.raises(DataError, match=r"cannot be written into a column of type|no database text has"):
        text_column(values, kind)
    if not isinstance(values[0], list | str) and type(values[0]) in (int, float, bool):
        with pytest.raises(DataError):
            text_column(pa.array(values), kind)


def test_numbers_of_two_kinds_keep_all_of_their_digits() -> None:
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([2**53 + 1, None, None]), pa.array([None, 0.1, None])]
    )
    assert texts(union, NUMERIC) == [str(2**53 + 1), "0.1", None]


def test_nested_bytes_are_base64_and_a_variable_decimal_is_a_number() -> None:
    zone = ZoneInfo("UTC")
    inner = struct_of({"raw": BYTES})
    convert = conversion(inner, TEXT, zone, "postgresql")
    assert convert is not None
    assert convert(Struct(inner, {"raw": b"\x00"})) == '{"raw":"AA=="}'
    lists = conversion(SchemaBuilder.array(BYTES).build(), JSONB, zone, "postgresql")
    assert lists is not None
    assert lists([b"\x00", b"\xff"]) == '["AA==","/w=="]'
    variable = Schema(
        ConnectType.STRUCT, name=VARIABLE_SCALE_DECIMAL, fields=struct_of({"scale": INT32, "value": BYTES}).fields
    )
    number = conversion(variable, NUMERIC, zone, "postgresql")
    assert number is not None
    for text in ("-1.50", "0.0012", "12345678901234567890123456789012345678901234567890.1"):
        digits, scale = int(text.replace(".", "")), len(text.partition(".")[2])
        value = {"scale": scale, "value": digits.to_bytes(30, "big", signed=True)}
        assert number(Struct(variable, value)) == Decimal(text)
    assert isinstance(column_type(variable), sa.Numeric)
    with pytest.raises(DataError, match="needs an integer 'scale' and bytes 'value'"):
        variable_scale_decimal({"scale": "x"})


def test_times_in_arrays_are_those_of_the_columns_zone() -> None:
    convert = conversion(
        SchemaBuilder.array(STRING).build(), sa.ARRAY(sa.DateTime()), ZoneInfo("Europe/Berlin"), "postgresql"
    )
    assert convert is not None
    assert convert([dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC), None]) == [dt.datetime(2024, 7, 1, 12), None]
