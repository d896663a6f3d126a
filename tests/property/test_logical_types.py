"""Logical types survive their way through primitive ones."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical

slow_machine = settings(deadline=None, max_examples=60)


@slow_machine
@given(st.integers(-(10**30), 10**30), st.integers(0, 40))
def test_decimals_round_trip(unscaled: int, scale: int) -> None:
    schema = logical.decimal_schema(scale)
    number = logical.decimal_from_bytes(schema, unscaled.to_bytes(20, "big", signed=True))
    data = logical.decimal_to_bytes(schema, number)
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert data == unscaled.to_bytes(max(1, len(data)), "big", signed=True)


@slow_machine
@given(st.dates(), st.times(), st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(3000, 1, 1)))
def test_dates_and_times_round_trip_to_the_millisecond(date: dt.date, time: dt.time, moment: dt.datetime) -> None:
    time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=dt.UTC)
    for schema, value in (
        (logical.date_schema(), date),
        (logical.time_schema(), time),
        (logical.timestamp_schema(), moment),
    ):
        primitive = logical.to_primitive(schema, value)
        assert isinstance(primitive, int)
        assert logical.from_primitive(schema, primitive) == value
