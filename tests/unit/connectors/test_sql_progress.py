"""Source offsets of the SQL source: the JDBC source's form, and never past a row that is still to come."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.connectors.sql.sql_progress import Progress, check_offsets, completed_moment, progress_of
from spark_connect_rt.errors import ConnectError

AT = dt.datetime(2024, 1, 1, 10, 0, 0, 123_456, tzinfo=dt.UTC)


def test_an_offset_is_what_the_jdbc_source_writes() -> None:
    assert Progress(7, AT).offset() == {"incrementing": 7, "timestamp": 1704103200123, "timestamp_nanos": 123_456_000}
    assert Progress().offset() == {}


@given(st.integers() | st.none(), st.datetimes(timezones=st.just(dt.UTC)) | st.none())
def test_offsets_come_back_as_they_were(number: int | None, moment: dt.datetime | None) -> None:
    assert progress_of(Progress(number, moment).offset()) == Progress(number, moment)


def test_nanoseconds_are_cut_so_that_a_row_comes_again_rather_than_never() -> None:
    offset = {"timestamp": 1704103200123, "timestamp_nanos": 123_456_789}
    assert progress_of(offset) == Progress(None, AT)
    assert progress_of({"timestamp": 1704103200123}) == Progress(None, AT.replace(microsecond=123_000))


@pytest.mark.parametrize(
    "offset",
    [{"incrementing": "7"}, {"timestamp": True}, {"timestamp": 1 << 70}, {"timestamp": 0, "timestamp_nanos": 1 << 40}],
)
def test_what_is_no_offset_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(ConnectError):
        check_offsets([({"table": "t"}, offset)])


def test_an_altered_offset_needs_a_table_or_the_query_unless_it_is_forgotten() -> None:
    check_offsets([({"protocol": "1", "table": "t"}, {"incrementing": 1}), ({"query": "query"}, {}), ({"x": 1}, None)])
    with pytest.raises(ConnectError, match="must contain the key 'table'"):
        check_offsets([({"filename": "t"}, {"incrementing": 1})])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 4))
def test_no_offset_of_a_piece_passes_a_row_of_a_later_piece(seconds: list[int], size: int) -> None:
    """Restarting behind any piece reads every row that was not in it or before it."""
    moments = sorted(AT + dt.timedelta(seconds=one) for one in seconds)
    pieces = [moments[start : start + size] for start in range(0, len(moments), size)]
    before: dt.datetime | None = None
    for number, piece in enumerate(pieces):
        later = [one for rest in pieces[number + 1 :] for one in rest]
        before = completed_moment(piece, later[0] if later else None, before)
        assert all(before is None or one > before for one in later)
    assert before == moments[-1]
