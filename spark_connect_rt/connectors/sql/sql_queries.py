"""The queries of the SQL source: one SELECT a poll, by mode and progress. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from spark_connect_rt.connectors.sql.sql_columns import SourceColumn
from spark_connect_rt.connectors.sql.sql_progress import SqlProgress
from spark_connect_rt.connectors.sql.sql_settings import SQLITE

MOMENT = "connectrt_moment"  # an added column: the time that counts, of several columns and in one form
_SQLITE_MOMENT = "%Y-%m-%d %H:%M:%f"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How one table, or the query, is read."""

    name: str  # with the schema, as offsets name it; of the query "query"
    columns: tuple[SourceColumn, ...]
    incrementing: str | None = None
    timestamps: tuple[str, ...] = ()
    zoned: bool = False  # the timestamp columns hold a time zone
    keys: tuple[str, ...] = ()  # the primary key, which names a row in messages
    table: tuple[str | None, str] = (None, "")  # schema, name
    query: str | None = None
    dialect: str = "postgresql"
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))


def select_rows(plan: ReadPlan, progress: SqlProgress, end: dt.datetime | None) -> sa.Select[Any]:
    """Return the SELECT of all rows after ``progress``, in order; with timestamps before ``end``."""
    source = _source(plan)
    chosen: list[Any] = [_chosen(source.c[column.name], column) for column in plan.columns]
    moment = _moment(plan, source) if plan.timestamps else None
    number = None if plan.incrementing is None else source.c[plan.incrementing]
    if moment is not None:
        chosen.append(moment.label(MOMENT))
    statement = sa.select(*chosen).select_from(source)
    if number is not None:  # reading cannot resume after null, which may sort last
        statement = statement.where(number.is_not(None))
    behind = _behind(plan, progress, moment, number)
    if behind is not None:
        statement = statement.where(behind)
    if moment is not None and end is not None:
        statement = statement.where(moment < _moment_literal(plan, end))
    order = [column for column in (moment, number) if column is not None]
    return statement.order_by(*order) if order else statement


def _source(plan: ReadPlan) -> sa.FromClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(column.name) for column in plan.columns]
    if plan.query is None:
        schema, name = plan.table
        return sa.table(name, *columns, schema=schema)
    # As a subquery the query may have conditions, groups and joins.
    return as_written(plan.query).columns(*columns).subquery("connectrt_query")


def as_written(query: str) -> sa.TextClause:
    """Return a user's SQL; a colon in it does not start a parameter."""
    return sa.text(query.replace(":", "\\:"))


def _chosen(column: Any, source_column: SourceColumn) -> Any:
    return column if source_column.cast is None else sa.cast(column, source_column.cast).label(source_column.name)


def _moment(plan: ReadPlan, source: sa.FromClause) -> sa.ColumnElement[Any]:
    columns = [source.c[name] for name in plan.timestamps]
    moment: sa.ColumnElement[Any] = columns[0] if len(columns) == 1 else sa.func.coalesce(*columns)
    return sa.func.strftime(_SQLITE_MOMENT, moment) if plan.dialect == SQLITE else moment


def _moment_literal(plan: ReadPlan, moment: dt.datetime) -> sa.ColumnElement[Any]:
    local = moment if plan.zoned else moment.astimezone(plan.zone).replace(tzinfo=None)
    if plan.dialect == SQLITE:
        return sa.literal(local.replace(tzinfo=None).isoformat(" ", "milliseconds"), sa.String())
    return sa.literal(local, sa.DateTime(timezone=plan.zoned))


def _behind(plan: ReadPlan, progress: SqlProgress, moment: Any, number: Any) -> sa.ColumnElement[bool] | None:
    later: Any = None if moment is None or progress.moment is None else moment > _moment_literal(plan, progress.moment)
    if number is None or progress.incrementing is None:
        return later  # type: ignore[no-any-return]
    greater: sa.ColumnElement[bool] = number > sa.literal(progress.incrementing, sa.BigInteger())
    if moment is None:
        return greater
    if progress.moment is None:
        return None  # the mode was another before: all rows in order of time
    same: sa.ColumnElement[bool] = moment == _moment_literal(plan, progress.moment)
    return sa.or_(sa.and_(same, greater), later)


def check_plan(plan: ReadPlan, nullable: Sequence[str], mode: str) -> str | None:
    """Return why rows of the plan's table could be missed, None when they cannot (``validate.non.null``)."""
    if plan.incrementing in nullable:
        return f"column {plan.incrementing} of {plan.name} may be null, so mode {mode} could miss rows"
    if plan.timestamps and all(name in nullable for name in plan.timestamps):
        return f"column {', '.join(plan.timestamps)} of {plan.name} may be null, so mode {mode} could miss rows"
    return None
