"""One encoder of trees into JSON text: bytes as JsonConverter writes them, nothing as Python shows it."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from uuid import UUID

import orjson
import pyarrow as pa
import pytest

from spark_connect_rt.api.data.json_text import json_text, readable_json
from spark_connect_rt.api.data.schema import BYTES, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.connectors.python_sources.lakeflow_table import batch_of
from spark_connect_rt.connectors.python_sources.page_columns import columns_of_rows
from spark_connect_rt.connectors.python_sources.table_pages import TableHints, TablePages
from spark_connect_rt.errors import DataError

RAW = b"\x00\xff'"
BASE64 = base64.b64encode(RAW).decode()
FORMS = [
    (RAW, BASE64),
    (bytearray(RAW), BASE64),
    (memoryview(RAW), BASE64),
    (Struct(struct_of({"raw": BYTES}), {"raw": RAW}), {"raw": BASE64}),
    (Decimal("1.50"), "1.50"),
    (dt.date(2024, 2, 29), "2024-02-29"),
    (dt.time(1, 2, 3), "01:02:03"),
    (dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "2024-02-29T00:00:00+00:00"),
    (dt.timedelta(days=1, microseconds=500_000), "PT86400.5S"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ({1}, [1]),
    ((1, None), [1, None]),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=lambda sample: type(sample).__name__)
def test_a_nested_value_has_a_form_that_other_programs_read(value: object, form: object) -> None:
    assert orjson.loads(json_text({"a": [value]})) == {"a": [form]}


@pytest.mark.parametrize("value", [object(), 2**70, "\ud800"], ids=["object", "70 bits", "surrogate"])
def test_a_value_without_a_form_is_refused_and_can_still_be_shown(value: object) -> None:
    with pytest.raises(DataError, match="cannot be written as JSON"):
        json_text({"a": value})
    shown = orjson.loads(readable_json({"a": value, "b": [RAW]}))
    assert shown["b"] == [BASE64]
    assert "object at" not in shown["a"]


def test_pages_of_other_programs_write_bytes_in_texts_as_base64() -> None:
    rows = [{"a": {"raw": RAW}}, {"a": 1}]
    assert columns_of_rows(rows)["a"].to_pylist() == [f'{{"raw":"{BASE64}"}}', "1"]
    schema = pa.schema([("a", pa.string())])
    assert batch_of([{"a": {"raw": RAW}}, {"a": True}], schema).column("a").to_pylist() == [
        f'{{"raw":"{BASE64}"}}',
        "True",
    ]


def test_a_row_that_json_has_no_form_for_is_given_up_and_the_others_come() -> None:
    lost: list[tuple[str, Exception, bytes | None]] = []
    pages = TablePages("t", "t", TableHints(), lambda *row: lost.append(row), schemaless=True)
    records = pages.pieces([{"a": RAW}, {"a": object()}, {"a": 2}], {}, {})
    assert [record.value for record in records] == [{"a": BASE64}, {"a": 2}]  # type: ignore[union-attr]
    assert [(place, data) for place, _, data in lost] == [("a row of t", b'{"a":"(object)"}')]
