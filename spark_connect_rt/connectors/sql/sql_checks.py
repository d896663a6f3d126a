"""What only the database can tell of a configuration: is there a way in, are the tables there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_tables import TableId, find_tables
from spark_connect_rt.connectors.sql.sql_target import table_of
from spark_connect_rt.errors import ConnectError, DataError

CREDENTIALS, TABLE, URL = "credentials", "table", "connection.url"
_MOST = 20  # tables that are named


@contextmanager
def _let_in(values: Mapping[str, Any]) -> Iterator[SqlDatabase]:
    database = SqlDatabase(dict(values))
    try:
        database.connection().rollback()
        yield database
    finally:
        database.close()


def _in(database: SqlDatabase) -> Finding:
    return Finding(CREDENTIALS, URL, Level.OK, f"database {database.name()} lets this worker in")


def _out(error: ConnectError) -> Finding:
    change = "correct connection.url, connection.user or connection.password"
    return Finding(CREDENTIALS, URL, Level.PROBLEM, str(error), change)


def source_findings(values: Mapping[str, Any]) -> list[Finding]:
    """Return what the database says to the settings of a source."""
    try:
        with _let_in(values) as database:
            lines = [_in(database)]
            if values["query"].strip():
                return lines
            tables = find_tables(database, dict(values))
    except ConnectError as error:
        return [_out(error)]
    if not tables:
        what, change = "there is no table yet that it would read", "correct table.whitelist, or the user's rights"
        return [*lines, Finding(TABLE, "table.whitelist", Level.WARNING, what, change)]
    named = ", ".join(map(str, tables[:_MOST]))
    more = f" and {len(tables) - _MOST} more" if len(tables) > _MOST else ""
    return [*lines, Finding(TABLE, "table.whitelist", Level.OK, f"it would read {named}{more}")]


def sink_findings(values: Mapping[str, Any], topics: str) -> list[Finding]:
    """Return what the database says to the settings of a sink of these topics."""
    try:
        with _let_in(values) as database:
            lines = [_in(database)]
            for topic in parse_value(Type.LIST, topics)[:_MOST]:
                lines.append(_table(database, values, table_of(values["table.name.format"], topic)))
    except DataError as error:
        return [Finding(TABLE, "table.name.format", Level.PROBLEM, str(error), "correct table.name.format")]
    except ConnectError as error:
        return [_out(error)]
    return lines


def _table(database: SqlDatabase, values: Mapping[str, Any], table: TableId) -> Finding:
    with database.explained(f"does not describe table {table}"):
        connection = database.connection()
        there = sa.inspect(connection).has_table(table.name, schema=table.schema)
        connection.rollback()
    if there:
        return Finding(TABLE, "table.name.format", Level.OK, f"table {table} is there")
    if values["auto.create"]:
        return Finding(TABLE, "auto.create", Level.OK, f"table {table} is not there: it is made with the first record")
    change = "make the table, set auto.create=true, or correct table.name.format"
    return Finding(TABLE, "auto.create", Level.PROBLEM, f"table {table} is not there, and auto.create is off", change)
