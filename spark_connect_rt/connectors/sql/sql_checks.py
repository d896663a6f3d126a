"""Checks of a configuration that need the database: whether it can be reached, and has the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_plans import query_plan, table_plan
from spark_connect_rt.connectors.sql.sql_settings import SQLITE
from spark_connect_rt.connectors.sql.sql_tables import TableId, all_tables, near_name, read_tables, unmatched_names
from spark_connect_rt.connectors.sql.sql_target import FORMAT, table_of
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError

CREDENTIALS, TABLE, URL = "credentials", "table", "connection.url"
_MOST = 20  # tables that are named
_MOST_PLANS = 5  # tables whose columns are checked


@contextmanager
def _let_in(values: Mapping[str, Any]) -> Iterator[SqlDatabase]:
    database = SqlDatabase(dict(values))
    try:
        database.connection().rollback()
        yield database
    finally:
        database.close()


def _in(database: SqlDatabase) -> Finding:
    return Finding(CREDENTIALS, URL, Level.OK, f"database {database.name()} accepts this worker's credentials")


def _out(error: ConnectError) -> Finding:
    change = "correct connection.url, connection.user or connection.password"
    return Finding(CREDENTIALS, URL, Level.PROBLEM, str(error), change)


def source_findings(values: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of the database about the settings of a source."""
    try:
        with _let_in(values) as database:
            lines = [_in(database)]
            if values["query"].strip():
                return [*lines, _plan(database, values, None)]
            found = all_tables(database, values["schema.pattern"])
            tables = read_tables(found, dict(values), database.url.database)
            lines += [Finding(TABLE, "table.whitelist", Level.WARNING, what, "correct table.whitelist")
                for what in unmatched_names(found, dict(values), database.url.database)]  # fmt: skip
            if values["schema.pattern"] and database.dialect == SQLITE:
                what, change = "schema.pattern has no effect: SQLite has no schemas", "leave schema.pattern out"
                lines.append(Finding(TABLE, "schema.pattern", Level.WARNING, what, change))
            lines += [_plan(database, values, table) for table in tables[:_MOST_PLANS]]
    except ConnectError as error:
        return [_out(error)]
    if not tables:
        what, change = "no table exists yet that it would read", "correct table.whitelist, or the user's rights"
        return [*lines, Finding(TABLE, "table.whitelist", Level.WARNING, what, change)]
    named = ", ".join(map(str, tables[:_MOST]))
    more = f" and {len(tables) - _MOST} more" if len(tables) > _MOST else ""
    return [*lines, Finding(TABLE, "table.whitelist", Level.OK, f"it would read {named}{more}")]


def _plan(database: SqlDatabase, values: Mapping[str, Any], table: TableId | None) -> Finding:
    """Return whether a table, or the query, can be read: its columns, and that of the position."""
    try:
        plan = query_plan(database, dict(values)) if table is None else table_plan(database, table, dict(values))
    except RetriableError:
        raise
    except ConnectError as error:
        change = "correct mode, incrementing.column.name or timestamp.column.name, or leave the table out"
        return Finding(TABLE, "mode", Level.PROBLEM, str(error), change)
    return Finding(TABLE, "mode", Level.OK, f"{plan.name} can be read in mode {values['mode']}")


def sink_findings(values: Mapping[str, Any], topics: str, renamed: bool = False) -> list[Finding]:
    """Return the findings of the database about the settings of a sink of these topics.

    ``renamed``: the connector has transformations, which may rename the topics before the sink has them.
    """
    try:
        with _let_in(values) as database:
            lines = [_in(database)]
            for topic in parse_value(Type.LIST, topics)[:_MOST]:
                lines.append(_topic(database, values, topic, renamed))
    except ConnectError as error:
        return [_out(error)]
    return lines


def _topic(database: SqlDatabase, values: Mapping[str, Any], topic: str, renamed: bool) -> Finding:
    try:
        table = table_of(values[FORMAT], topic, database.url.database)
    except BadConfigError as error:
        said, level = "; ".join(error.problems[FORMAT]), Level.WARNING if renamed else Level.PROBLEM
        return Finding(TABLE, FORMAT, level, said, f"correct {FORMAT}, unless a transformation renames the topic")
    return _table(database, values, table)


def _table(database: SqlDatabase, values: Mapping[str, Any], table: TableId) -> Finding:
    with database.explained(f"does not describe table {table}"):
        connection = database.connection()
        inspector = sa.inspect(connection)
        there = inspector.has_table(table.name, schema=table.schema)
        near = "" if there else near_name(table.name, inspector.get_table_names(table.schema))
        connection.rollback()
    if near:
        change = "correct table.name.format: names of tables are written in the case that they are given in"
        level = Level.WARNING if values["auto.create"] else Level.PROBLEM
        return Finding(TABLE, "table.name.format", level, f"table {table} does not exist{near}", change)
    if there:
        return Finding(TABLE, "table.name.format", Level.OK, f"table {table} exists")
    if values["auto.create"]:
        return Finding(TABLE, "auto.create", Level.OK, f"table {table} does not exist. The first record creates it")
    change = "create the table, set auto.create=true, or correct table.name.format"
    return Finding(TABLE, "auto.create", Level.PROBLEM, f"table {table} does not exist, and auto.create is off", change)
