"""Years of two digits, and patterns that can be written but not read."""

from __future__ import annotations

import datetime as dt

import pytest

from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.timestamp_converter import TimestampConverterValue


def converted(value: object, today: dt.date = dt.date(2026, 6, 1), **config: str) -> object:
    transformation = TimestampConverterValue(today=lambda: today)
    transformation.configure({name.replace("_", "."): text for name, text in config.items()})
    changed = transformation.apply(SourceRecord({}, {}, "t", value))
    assert changed is not None
    return changed.value


@pytest.mark.parametrize(
    ("text", "today", "year"),
    [
        ("01/06/46", dt.date(2026, 6, 1), 1946),
        ("31/05/46", dt.date(2026, 6, 1), 2046),
        ("01/01/45", dt.date(2026, 6, 1), 2045),
        ("01/01/47", dt.date(2026, 6, 1), 1947),
        ("01/01/47", dt.date(2040, 6, 1), 2047),
    ],
)
def test_years_of_two_digits_begin_eighty_years_ago(text: str, today: dt.date, year: int) -> None:
    moment = converted(text, today, target_type="Timestamp", format="dd/MM/yy")
    assert isinstance(moment, dt.datetime)
    assert moment.year == year


def test_weeks_are_written_and_not_read() -> None:
    assert converted(0, target_type="string", format="YYYY-'W'ww") == "1970-W01"
    with pytest.raises(BadConfigError, match="weeks"):
        converted("1970-W01", target_type="unix", format="YYYY-'W'ww")


def test_text_needs_a_pattern_to_be_read() -> None:
    with pytest.raises(DataError, match="format is not set"):
        converted("2020", target_type="unix")


def test_a_year_python_has_no_date_for_is_a_data_error() -> None:
    with pytest.raises(DataError, match="outside of the years"):
        converted(1 << 60, target_type="Timestamp")
