"""Values from text: any text has a value, written values are read back, dates come back to the ms."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_calendar import days_of, fields_of
from spark_connect_rt.api.data.simple_date_format import format_ms, pattern_parts
from spark_connect_rt.api.data.simple_date_parse import parse_prefix
from spark_connect_rt.api.data.struct import check_value
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.data.values_text import values_text
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter

slow_machine = settings(deadline=None, max_examples=150)
MS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
PIECES = st.lists(st.sampled_from(["[", "]", "{", "}", ",", ":", '"', "\\", " ", "1", "-2.5", "null", "true", "a", "2020-01-02", "12:34:56.789Z"]), max_size=12)  # fmt: skip  # noqa: E501


@slow_machine
@given(st.text(max_size=30) | PIECES.map("".join))
def test_any_text_has_a_value_that_fits_its_schema(text: str) -> None:
    found = parse_string(text)
    if found.schema is not None and found.schema.type.is_primitive:
        check_value(found.schema, found.value)
    assert found.schema is not None or found.value is None


@slow_machine
@given(st.binary(max_size=20))
def test_any_header_is_read(data: bytes) -> None:
    SimpleHeaderConverter().to_connect_header("t", "h", data)


def test_brackets_without_end_are_handed_on_as_bytes() -> None:
    schema, value = SimpleHeaderConverter().to_connect_header("t", "h", b"[" * 100_000)
    assert value in (b"[" * 100_000, "[" * 100_000)
    assert schema is not None


plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("abc \u00e9", min_size=1, max_size=5)


@slow_machine
@given(st.lists(st.text("abc\u00e9", min_size=1, max_size=5), min_size=1, max_size=4) | st.lists(st.integers(0, 9), min_size=1) | st.integers(-(2**63), 2**63 - 1) | st.booleans())  # fmt: skip  # noqa: E501
def test_value_survives_a_round_trip(value: Any) -> None:
    text = values_text(None, value)
    assert parse_string(text).value == value


@slow_machine
@given(MS)
def test_a_moment_comes_back_from_its_text(ms: int) -> None:
    parts = pattern_parts("G yyyy-MM-dd'T'HH:mm:ss.SSSX")
    assert parse_prefix(parts, format_ms(parts, ms), (1970, 1, 1)) == (ms, len(format_ms(parts, ms)))


@slow_machine
@given(st.integers(-(2**45), 2**45))
def test_the_calendar_is_its_own_inverse(ms: int) -> None:
    fields = fields_of(ms)
    assert days_of(fields.year, fields.month, fields.day) == ms // 86_400_000


@slow_machine
@given(st.dates(dt.date(1583, 1, 1)))
def test_the_calendar_is_pythons_where_both_are_gregorian(day: dt.date) -> None:
    fields = fields_of(logical.ms_of(day))
    assert (fields.year, fields.month, fields.day) == (day.year, day.month, day.day)
    assert fields.weekday == (day.weekday() + 1) % 7
    assert fields.day_of_year == day.timetuple().tm_yday
