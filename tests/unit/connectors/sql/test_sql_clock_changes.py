"""Local times around both changes of summer time: one rule for source and sink, by columns and by rows."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.connectors.sql.sql_columns import UTC_TIME, SourceColumn, arrow_column, column_of_values
from spark_connect_rt.connectors.sql.sql_values import conversion

BERLIN = ZoneInfo("Europe/Berlin")
VALUE = SourceColumn("at", timestamp_schema(), UTC_TIME)
POSITION = SourceColumn("at", timestamp_schema(), UTC_TIME, is_position=True)


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def both_ways(column: SourceColumn, clocks: list[dt.datetime], zone: ZoneInfo) -> list[dt.datetime]:
    by_columns = arrow_column(column, pa.array(clocks, pa.timestamp("us")), zone).to_pylist()
    by_rows = column_of_values(column, clocks, zone).to_pylist()
    assert by_columns == by_rows
    assert column_of_values(column, [clock.isoformat(" ") for clock in clocks], zone).to_pylist() == by_rows
    return by_rows


@pytest.mark.parametrize(
    ("clock", "value", "position"),
    [
        ("2024-03-31 01:59:59", "2024-03-31 00:59:59", "2024-03-31 00:59:59"),
        ("2024-03-31 02:00:00", "2024-03-31 01:00:00", "2024-03-31 01:00:00"),
        ("2024-03-31 02:30:00", "2024-03-31 01:30:00", "2024-03-31 01:00:00"),  # skipped: 03:30, which comes later
        ("2024-03-31 03:00:00", "2024-03-31 01:00:00", "2024-03-31 01:00:00"),
        ("2024-10-27 01:59:59", "2024-10-26 23:59:59", "2024-10-26 23:59:59"),
        ("2024-10-27 02:30:00", "2024-10-27 00:30:00", "2024-10-27 00:30:00"),  # twice: the first
        ("2024-10-27 03:00:00", "2024-10-27 02:00:00", "2024-10-27 02:00:00"),
    ],
)
def test_a_source_reads_a_local_time_around_a_change(clock: str, value: str, position: str) -> None:
    clocks = [dt.datetime.fromisoformat(clock)]
    assert both_ways(VALUE, clocks, BERLIN) == [utc(value)]
    assert both_ways(POSITION, clocks, BERLIN) == [utc(position)]


@given(
    seconds=st.lists(st.integers(-7_200, 14_400), min_size=1, max_size=6),
    change=st.sampled_from(
        ["2024-03-31 01:00:00", "2024-10-27 01:00:00", "1996-10-27 01:00:00", "2037-03-29 01:00:00"]
    ),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
@settings(deadline=None, max_examples=50)
def test_positions_keep_the_order_of_the_clock(seconds: list[int], change: str, zone: str) -> None:
    clocks = sorted(dt.datetime.fromisoformat(change) + dt.timedelta(seconds=second) for second in seconds)
    found = both_ways(POSITION, clocks, ZoneInfo(zone))
    assert found == sorted(found)
    both_ways(VALUE, clocks, ZoneInfo(zone))


@pytest.mark.parametrize(
    ("moment", "clock"),
    [
        ("2024-03-31 00:59:59", "2024-03-31 01:59:59"),
        ("2024-03-31 01:00:00", "2024-03-31 03:00:00"),
        ("2024-10-27 00:30:00", "2024-10-27 02:30:00"),
        ("2024-10-27 01:30:00", "2024-10-27 02:30:00"),  # an hour later, the same time of the clock
    ],
)
def test_a_sink_writes_the_time_that_the_clock_showed(moment: str, clock: str) -> None:
    convert = conversion(timestamp_schema(), sa.DateTime(), BERLIN, "postgresql")
    assert convert is not None
    assert convert(utc(moment)) == dt.datetime.fromisoformat(clock)
    zoned = conversion(timestamp_schema(), sa.DateTime(timezone=True), BERLIN, "postgresql")
    assert zoned is not None
    assert zoned(utc(moment)) == utc(moment)
