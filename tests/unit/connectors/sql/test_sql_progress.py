"""Source offsets of the SQL source: the JDBC source's form, and never past a row that is still to come."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import mssql, mysql, postgresql

from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.api.data.schema import INT64, struct_of
from spark_connect_rt.connectors.sql.sql_columns import UTC_TIME, SourceColumn
from spark_connect_rt.connectors.sql.sql_pieces import RowsPiece
from spark_connect_rt.connectors.sql.sql_plans import moment_problem
from spark_connect_rt.connectors.sql.sql_progress import SqlProgress, check_offsets, completed_moment, progress_of
from spark_connect_rt.connectors.sql.sql_queries import MOMENT, ReadPlan
from spark_connect_rt.connectors.sql.sql_reader import PieceReader
from spark_connect_rt.errors import ConnectError

AT = dt.datetime(2024, 1, 1, 10, 0, 0, 123_456, tzinfo=dt.UTC)


def test_an_offset_is_what_the_jdbc_source_writes() -> None:
    assert SqlProgress(7, AT).offset() == {
        "incrementing": 7,
        "timestamp": 1704103200123,
        "timestamp_nanos": 123_456_000,
    }
    assert SqlProgress().offset() == {}


@given(st.integers() | st.none(), st.datetimes(timezones=st.just(dt.UTC)) | st.none())
def test_offsets_come_back_as_they_were(number: int | None, moment: dt.datetime | None) -> None:
    assert progress_of(SqlProgress(number, moment).offset()) == SqlProgress(number, moment)


def test_nanoseconds_are_cut_so_that_a_row_is_repeated_rather_than_lost() -> None:
    offset = {"timestamp": 1704103200123, "timestamp_nanos": 123_456_789}
    assert progress_of(offset) == SqlProgress(None, AT)
    assert progress_of({"timestamp": 1704103200123}) == SqlProgress(None, AT.replace(microsecond=123_000))


@pytest.mark.parametrize(
    "offset",
    [{"incrementing": "7"}, {"timestamp": True}, {"timestamp": 1 << 70}, {"timestamp": 0, "timestamp_nanos": 1 << 40}],
)
def test_invalid_offset_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(ConnectError):
        check_offsets([({"table": "t"}, offset)])


def test_an_altered_offset_needs_a_table_or_the_query_unless_it_is_forgotten() -> None:
    check_offsets([({"protocol": "1", "table": "t"}, {"incrementing": 1}), ({"query": "query"}, {}), ({"x": 1}, None)])
    with pytest.raises(ConnectError, match="must contain the key 'table'"):
        check_offsets([({"filename": "t"}, {"incrementing": 1})])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 4))
def test_no_offset_of_a_piece_passes_a_row_of_a_later_piece(seconds: list[int], size: int) -> None:
    """Restarting behind any piece reads every row that was not in it or before it."""
    moments = sorted(AT + dt.timedelta(seconds=second) for second in seconds)
    pieces = [moments[start : start + size] for start in range(0, len(moments), size)]
    before: dt.datetime | None = None
    for number, piece in enumerate(pieces):
        later = [moment for rest in pieces[number + 1 :] for moment in rest]
        before = completed_moment(piece, later[0] if later else None, before)
        assert all(before is None or moment > before for moment in later)
    assert before == moments[-1]


def looked_at(plan: ReadPlan, before: SqlProgress, moment: dt.datetime, number: int) -> Any:
    rows = pa.record_batch({"id": pa.array([number]), "at": pa.array([moment], UTC_TIME)})
    names = [name for name in (plan.incrementing, MOMENT) if name]
    marks = pa.RecordBatch.from_arrays([rows.column("id" if name == "id" else "at") for name in names], names=names)
    reader = PieceReader(plan, iter([RowsPiece(rows, marks)]), {}, "t", struct_of({"id": INT64}), lambda *_: None)
    return reader.take(before)


@pytest.mark.parametrize("incrementing", [None, "id"])
def test_a_row_that_is_not_behind_the_last_shows_a_column_of_more_digits(incrementing: str | None) -> None:
    columns = (SourceColumn("id", INT64, pa.int64()), SourceColumn("at", timestamp_schema(), UTC_TIME))
    plan = ReadPlan("dbo.t", columns, incrementing, ("at",), dialect="mssql")
    before = SqlProgress(None if incrementing is None else 7, AT)
    with pytest.raises(ConnectError, match=r"column at of dbo\.t has more digits of a second than an offset"):
        looked_at(plan, before, AT, 7)
    assert looked_at(plan, before, AT + dt.timedelta(microseconds=1), 7)[0] is not None
    assert looked_at(plan, SqlProgress(), AT, 7)[0] is not None
    if incrementing is not None:
        assert looked_at(plan, before, AT, 8)[0] is not None


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (mssql.DATETIME2(7), "its 7 digits"),
        (mssql.DATETIME2(), "its 7 digits"),
        (mssql.DATETIME2(6), None),
        (mssql.DATETIMEOFFSET(), "its 7 digits"),
        (postgresql.TIMESTAMP(precision=6), None),
        (mysql.DATETIME(fsp=6), None),
        (sa.Time(), "must hold dates or timestamps"),
        (sa.Date(), None),
    ],
    ids=repr,
)
def test_a_timestamp_column_that_an_offset_cannot_hold_is_refused(kind: Any, said: str | None) -> None:
    problem = moment_problem(kind, "mssql")
    assert problem is None if said is None else said in (problem or "")
