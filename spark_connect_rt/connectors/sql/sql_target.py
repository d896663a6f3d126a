"""The tables that a SQL sink writes to: reads their columns, creates tables and adds columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.connectors.sql.sql_copy import COPIED_COLUMNS, CopiedTable, copied_table, quoted_name
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_queries import as_written
from spark_connect_rt.connectors.sql.sql_rows import RowShape
from spark_connect_rt.connectors.sql.sql_settings import POSTGRESQL
from spark_connect_rt.connectors.sql.sql_tables import TableId, name_parts, near_name
from spark_connect_rt.connectors.sql.sql_values import VARIABLE_SCALE_DECIMAL
from spark_connect_rt.errors import BadConfigError, DataError, ExternalError

FORMAT = "table.name.format"
_DIGITS = 38  # of decimals in tables that are created: the maximum of most databases
_TYPES: dict[Type, sa.types.TypeEngine[Any]] = {
    Type.INT8: sa.SmallInteger(),
    Type.INT16: sa.SmallInteger(),
    Type.INT32: sa.Integer(),
    Type.INT64: sa.BigInteger(),
    Type.FLOAT32: sa.REAL(),
    Type.FLOAT64: sa.Double(),
    Type.BOOLEAN: sa.Boolean(),
    Type.STRING: sa.Text(),
    Type.BYTES: sa.LargeBinary(),
}


def table_of(form: str, topic: str, database: str | None) -> TableId:
    """Return the table of a topic (``table.name.format``); of three parts the first must be the connection's database.

    Raises BadConfigError: it is not a valid table name, or it names a table in another database.
    """
    text = form.replace("${topic}", topic)
    parts = name_parts(text)
    if parts is None or len(parts) > 3:
        problem = (
            f"{text} is not a valid table name. Use one to three parts, and double quotes for a name that contains dots"
        )
        raise BadConfigError({FORMAT: [problem]})
    if len(parts) == 3 and parts[0] != database:
        problem = (
            f"topic {topic} results in the name {text}, whose first part is the database, but connection.url is of "
            f'{database}. Set "${{topic}}" with its double quotes for one table of that name, or rename the topic '
            "with a transformation such as RegexRouter"
        )
        raise BadConfigError({FORMAT: [problem]})
    return TableId(parts[-2] if len(parts) > 1 else None, parts[-1])


def column_type(schema: Schema) -> sa.types.TypeEngine[Any]:
    """Return the type of a created column. Structs, maps and arrays are written as JSON text."""
    if schema.name == logical.DECIMAL:
        scale = logical.scale_of(schema)
        return sa.Numeric(_DIGITS, scale) if 0 <= scale <= _DIGITS else sa.Numeric()
    named: dict[str, sa.types.TypeEngine[Any]] = {
        logical.DATE: sa.Date(),
        logical.TIME: sa.Time(),
        logical.TIMESTAMP: sa.DateTime(),
        VARIABLE_SCALE_DECIMAL: sa.Numeric(),
    }
    return named.get(schema.name or "", _TYPES.get(schema.type, sa.Text()))


@dataclass(frozen=True, slots=True)
class Target:
    """One table as it is: type of each column."""

    table: TableId
    columns: Mapping[str, sa.types.TypeEngine[Any]]
    copied: CopiedTable | None = None
    """How COPY feeds it; None: statements write it."""


class Targets:
    """The tables of one task, inspected once and after a change. One thread."""

    def __init__(self, database: SqlDatabase, creates: bool, evolves: bool) -> None:
        """Take the database, ``auto.create`` and ``auto.evolve``."""
        self._database = database
        self._creates = creates
        self._evolves = evolves
        self._known: dict[TableId, Target] = {}

    def as_they_are(self) -> Targets:
        """Return the same tables, of which none is created or changed: for previews."""
        return Targets(self._database, creates=False, evolves=False)

    def forget(self) -> None:
        """Something went wrong: the tables may be others than they were."""
        self._known.clear()

    def ready(self, table: TableId, shape: RowShape) -> Target | None:
        """Return a table that has every column of a shape, created or changed if that is allowed.

        None: the table does not exist, and it is not created for a deletion.

        Raises DataError: a column is missing, and the table must not be changed.
        Raises ExternalError: the table does not exist, or the database rejects the change.
        """
        target = self._known.get(table) or self._look(table)
        if target is None and self._creates and shape.deletes:
            return None
        if target is None:
            target = self._create(table, shape)
        missing = [name for name in shape.columns if name not in target.columns]
        if missing:
            target = self._evolve(target, shape, missing)
        self._known[table] = target
        return target

    def _look(self, table: TableId) -> Target | None:
        with self._database.explained(f"does not describe table {table}"):
            connection = self._database.connection()
            try:
                found = sa.inspect(connection).get_columns(table.name, schema=table.schema)
                copied = None
                if self._database.dialect == POSTGRESQL:
                    copied = copied_table(connection.execute(COPIED_COLUMNS, {"name": quoted_name(table)}))
            except sa.exc.NoSuchTableError:
                return None
            finally:
                connection.rollback()
        return Target(table, {column["name"]: column["type"] for column in found}, copied)

    def _create(self, table: TableId, shape: RowShape) -> Target:
        if not self._creates:
            raise ExternalError(f"database {self._database.name()} has no table {table}, and auto.create is off")
        made = sa.Table(table.name, sa.MetaData(), *_columns(shape, shape.columns), schema=table.schema)
        return self._change(table, shape, [sa.schema.CreateTable(made, if_not_exists=True)])

    def _evolve(self, target: Target, shape: RowShape, missing: list[str]) -> Target:
        table = target.table
        if not self._evolves:
            named = ", ".join(f"{name}{near_name(name, target.columns)}" for name in missing)
            raise DataError(f"table {table} has no column {named}, and auto.evolve is off")
        columns = _columns(shape, missing)
        for column in columns:
            if not column.nullable and column.server_default is None:
                raise DataError(
                    f"table {table} cannot get column {column.name}, because it may not be null and has no default"
                )
        made = sa.Table(table.name, sa.MetaData(), *columns, schema=table.schema)
        preparer = self._database.engine.dialect.identifier_preparer
        changes: list[Any] = []
        for column in made.columns:
            described = sa.schema.CreateColumn(column).compile(dialect=self._database.engine.dialect)
            changes.append(as_written(f"ALTER TABLE {preparer.format_table(made)} ADD COLUMN {described}"))
        return self._change(table, shape, changes)

    def _change(self, table: TableId, shape: RowShape, changes: list[Any]) -> Target:
        """Change a table in a separate transaction; another task may have done the same at the same time."""
        connection = self._database.connection()
        failure: sa.exc.SQLAlchemyError | None = None
        try:
            for change in changes:
                connection.execute(change)
            connection.commit()
        except sa.exc.SQLAlchemyError as error:
            failure = error
            connection.rollback()
        found = self._look(table)
        if found is not None and all(name in found.columns for name in shape.columns):
            return found
        if failure is not None:
            raise self._database.explanation(failure, f"does not change table {table}") from failure
        raise ExternalError(f"table {table} does not have the columns {', '.join(shape.columns)} after the change")


def _columns(shape: RowShape, names: Any) -> list[sa.Column[Any]]:
    """Return columns with the types of a shape's schemas. Raises DataError: some field has no schema."""
    schemas = dict(zip(shape.columns, shape.schemas, strict=True))
    made = []
    for name in names:
        schema = schemas[name]
        if schema is None:
            raise DataError(f"field {name} has no schema, so no column can be created for it")
        kind, is_key = column_type(schema), name in shape.keys
        default = None if schema.default is None or is_key else _default(schema.default)
        nullable = schema.optional and not is_key
        column = sa.Column(
            name, kind, primary_key=is_key, nullable=nullable, autoincrement=False, server_default=default
        )
        made.append(column)
    return made


def _default(value: Any) -> Any:
    """Return the DEFAULT of a plain value; others have none in the table, rows bring them themselves."""
    return sa.literal(value) if isinstance(value, str | int | float) else None
