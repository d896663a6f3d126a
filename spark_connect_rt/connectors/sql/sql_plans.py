"""Inspects a table, or a query's result, and plans how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from spark_connect_rt.connectors.sql.sql_columns import (
    SourceColumn,
    TypeRules,
    columns_by_values,
    source_column,
    source_columns,
)
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_queries import ReadPlan, as_written, check_plan
from spark_connect_rt.connectors.sql.sql_settings import POSTGRESQL, SQLITE
from spark_connect_rt.connectors.sql.sql_source_config import (
    BOTH,
    INCREMENTING,
    INCREMENTING_COLUMN,
    TIMESTAMP,
    TIMESTAMP_COLUMNS,
)
from spark_connect_rt.connectors.sql.sql_tables import TableId, near_name
from spark_connect_rt.connectors.sql.sql_texts import type_name
from spark_connect_rt.errors import ConnectError

QUERY = "query"
_ROWS_TO_LEARN_FROM = 1_000
_MOST_DIGITS = 6  # of a second, in Python's times
_SEVEN_DIGITS = ("DATETIME2", "DATETIMEOFFSET")  # of SQL Server, unless their precision is given
Reflected = Sequence[dict[str, Any]]


def table_plan(database: SqlDatabase, table: TableId, values: dict[str, Any]) -> ReadPlan:
    """Return how one table is read. Raises ConnectError: no such table or column, or rows could be missed."""
    with database.explained(f"does not describe table {table}"):
        connection = database.connection()
        try:
            inspector = sa.inspect(connection)
            described: Reflected = inspector.get_columns(table.name, schema=table.schema)  # type: ignore[assignment]
            keys = inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"]
        except sa.exc.NoSuchTableError as error:
            raise ConnectError(f"database {database.name()} has no table {table} (any more)") from error
        finally:
            connection.rollback()
    reflected = [{**column, "nullable": False} if _is_rowid(column, described) else column for column in described]
    columns = source_columns(reflected, TypeRules(values["numeric.mapping"], database.dialect))
    nullable = [column["name"] for column in reflected if column.get("nullable", True)]
    plan = _plan(str(table), columns, reflected, database, values)
    plan = _with(plan, table=(table.schema, table.name), keys=tuple(keys))
    problem = check_plan(plan, nullable, values["mode"]) if values["validate.non.null"] else None
    if problem:
        raise ConnectError(f"{problem}. Set validate.non.null=false to read it anyway")
    return plan


def query_plan(database: SqlDatabase, values: dict[str, Any]) -> ReadPlan:
    """Return how the query's result is read. Raises ConnectError: the database does not take it, or a column lacks."""
    query = values[QUERY].strip().rstrip(";")
    columns, reflected = _query_columns(database, query, values)
    return _with(_plan(QUERY, columns, reflected, database, values), query=query)


def _with(plan: ReadPlan, **parts: Any) -> ReadPlan:
    return ReadPlan(**{name: parts.get(name, getattr(plan, name)) for name in plan.__dataclass_fields__})


def _plan(
    name: str, columns: tuple[SourceColumn, ...], reflected: Reflected, database: SqlDatabase, values: dict[str, Any]
) -> ReadPlan:
    mode = values["mode"]
    incrementing = None
    if mode in (INCREMENTING, BOTH):
        incrementing = values[INCREMENTING_COLUMN] or _generated_column(name, reflected)
    timestamps = tuple(values[TIMESTAMP_COLUMNS]) if mode in (TIMESTAMP, BOTH) else ()
    known = [entry.name for entry in columns]
    for wanted in (*timestamps, *([incrementing] if incrementing else [])):
        if wanted not in known:
            raise ConnectError(f"{name} has no column {wanted}{near_name(wanted, known)}. It has {', '.join(known)}")
    kinds = {entry["name"]: entry.get("type") for entry in reflected}
    for column, problem in (
        (incrementing, _number_problem(kinds.get(incrementing or ""))),
        *((timestamp, moment_problem(kinds.get(timestamp), database.dialect)) for timestamp in timestamps),
    ):
        if column is not None and problem is not None:
            raise ConnectError(
                f"column {column} of {name} has type {type_name(kinds[column] or sa.types.NullType())}: {problem}"
            )
    zoned = bool(timestamps) and bool(getattr(kinds.get(timestamps[0]), "timezone", False))
    return ReadPlan(name, columns, incrementing, timestamps, zoned, dialect=database.dialect, zone=database.zone)


def _number_problem(kind: Any) -> str | None:
    """Return why an incrementing column cannot be of a type; None: it can, or the type is not known."""
    if kind is None or isinstance(kind, sa.Integer | sa.types.NullType):
        return None
    if isinstance(kind, sa.Float) or not isinstance(kind, sa.Numeric):
        return "an incrementing column must hold whole numbers"
    return (
        "an incrementing column must have no digits after the decimal point" if kind.scale and kind.scale > 0 else None
    )


def moment_problem(kind: Any, dialect: str) -> str | None:
    """Return why a timestamp column cannot be of a type; None: it can. SQLite's types do not bind their columns."""
    if kind is None or dialect == SQLITE:
        return None
    if not isinstance(kind, sa.DateTime | sa.Date):
        return "a timestamp column must hold dates or timestamps"
    digits = getattr(kind, "precision", None)
    if digits is None and type(kind).__name__ in _SEVEN_DIGITS:
        digits = 7
    if isinstance(digits, int) and digits > _MOST_DIGITS:
        return (
            f"its {digits} digits of a second do not fit into an offset, which has {_MOST_DIGITS}, so rows "
            "would be repeated"
        )
    return None


def _generated_column(name: str, reflected: Reflected) -> str:
    """Return the one column whose numbers the database generates. Raises ConnectError: none, or several."""
    made = [
        column["name"]
        for column in reflected
        if column.get("identity") or column.get("autoincrement") is True or _is_rowid(column, reflected)
    ]
    if len(made) == 1:
        return str(made[0])
    found = f"has several ({', '.join(made)})" if made else "has none"
    raise ConnectError(
        f"{INCREMENTING_COLUMN} must be set, because {name} {found} of the columns whose numbers the database generates"
    )


def _is_rowid(candidate: dict[str, Any], reflected: Reflected) -> bool:
    """Whether it is SQLite's INTEGER PRIMARY KEY, which is the row's number."""
    keys = [column["name"] for column in reflected if column.get("primary_key")]
    return keys == [candidate["name"]] and type(candidate["type"]) is sa.INTEGER


def _query_columns(
    database: SqlDatabase, query: str, values: dict[str, Any]
) -> tuple[tuple[SourceColumn, ...], Reflected]:
    limit = 0 if database.dialect == POSTGRESQL else _ROWS_TO_LEARN_FROM
    rules = TypeRules(values["numeric.mapping"], database.dialect)
    with database.explained("does not accept the query"):
        connection = database.connection()
        result = connection.execute(as_written(f"SELECT * FROM ({query}) AS connectrt_query LIMIT {limit}"))
        names, described = list(result.keys()), result.cursor.description if result.cursor else None
        rows = result.fetchall()
        connection.rollback()
    if len(set(names)) != len(names):
        raise ConnectError(f"the query's columns must have different names, not {', '.join(names)}")
    if database.dialect != POSTGRESQL:
        return columns_by_values(names, rows), [{"name": name} for name in names]
    columns: Sequence[Any] = described or ()  # psycopg's own class, with names
    reflected = [{"name": column.name, "type": _type_of(database, column)} for column in columns]
    return tuple(source_column(column["name"], column["type"], True, rules) for column in reflected), reflected


def _type_of(database: SqlDatabase, described: Any) -> Any:
    """Return SQLAlchemy's type of a column of a result, as psycopg describes it."""
    from psycopg import adapters  # the dialect's driver, so it is there

    info = adapters.types.get(described.type_code)
    name = info.regtype if info is not None else ""
    if name.startswith("timestamp"):
        return sa.DateTime(timezone="with time zone" in name)
    if name == "numeric":
        return sa.Numeric(described.precision, described.scale)
    kind = getattr(database.engine.dialect, "ischema_names", {}).get(name)
    return sa.types.NullType() if kind is None else kind()
