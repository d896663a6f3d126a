"""One connection to one database, opened when it is needed, and its failures classified: passing ones are retriable.

Owns the connection of one task. A connection that failed is closed; the next use opens another.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from spark_connect_rt.connectors.sql.sql_settings import POSTGRESQL, SQLITE, URL, sqlalchemy_url
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, ExternalError, RetriableError

# SQLSTATE: connection lost, out of resources, shut down or starting, deadlock, serialization, lock not available, a
# server that became a standby.
_PASSING_CLASSES = ("08", "53")
_PASSING_STATES = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "25006")
_PASSING_WORDS = ("starting up", "shutting down", "too many", "remaining connection slots", "recovery mode")
_DATA_CLASSES = ("22", "23")


class SqlDatabase:
    """The database of one connector's settings. One thread."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Take typed settings (``sql_settings.CONNECTION``). Raises BadConfigError: URL, or no driver for it."""
        password = values["connection.password"]
        self.url = sqlalchemy_url(
            values["connection.url"], values["connection.user"], None if password is None else password.value
        )
        self.zone = ZoneInfo(values["db.timezone"])
        try:
            self.engine = sa.create_engine(self.url, poolclass=NullPool)
        except (ImportError, sa.exc.NoSuchModuleError) as error:
            raise BadConfigError(
                {
                    URL: [
                        f"the driver of {self.url.drivername} is not installed. Run pip install 'spark-connect-rt[sql]'"
                    ]
                }
            ) from error
        self.dialect: str = self.engine.dialect.name
        self._connection: sa.Connection | None = None

    def connection(self) -> sa.Connection:
        """Return the connection, opened when there is none. Raises as ``explained``."""
        if self._connection is None:
            with self.explained("cannot be reached"):
                connection = self.engine.connect()
                if self.dialect == POSTGRESQL:
                    from spark_connect_rt.connectors.sql.sql_postgresql import read_every_time  # needs psycopg

                    read_every_time(connection.connection.driver_connection)
                    connection.exec_driver_sql("SET TIME ZONE 'UTC'")
                    connection.commit()
                self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Convert the driver's errors to ours, and roll the transaction back.

        A temporary error also closes the connection.

        Raises RetriableError: it may work later. Raises DataError: a value is rejected. Raises ExternalError: anything
        else.
        """
        driver: Any = self.engine.dialect.dbapi
        try:
            yield
        except driver.Error as error:  # of calls that bypass SQLAlchemy, such as COPY
            wrapped = sa.exc.DBAPIError.instance(None, None, error, driver.Error, dialect=self.engine.dialect)
            self._give_up(wrapped)
            raise self.explanation(wrapped, what) from error
        except sa.exc.SQLAlchemyError as error:
            self._give_up(error)
            raise self.explanation(error, what) from error
        except (ValueError, OverflowError) as error:  # a driver's own conversion, such as of a large integer for SQLite
            self._give_up(error)
            raise DataError(f"database {self.name()} {what}: {error}") from error
        except Exception as error:
            self._give_up(error)  # otherwise the next commit would include the work so far
            raise

    def _give_up(self, error: Exception) -> None:
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except sa.exc.SQLAlchemyError:
            self.close()
        else:
            if is_passing(error):
                self.close()

    def explanation(self, error: sa.exc.SQLAlchemyError, what: str) -> ConnectError:
        """Return what to raise for an error of the driver."""
        said = f"database {self.name()} {what}: {_words(error)}"
        if is_passing(error):
            return RetriableError(said)
        return DataError(said) if is_about_data(error) else ExternalError(said)

    def name(self) -> str:
        """Return host and database, never a password."""
        host = self.url.host or ",".join(self.url.normalized_query.get("host", ()))
        return f"{host}/{self.url.database}" if host else str(self.url.database)

    def now(self) -> dt.datetime:
        """Return the database's time. SQLite has none: return the machine's."""
        if self.dialect == SQLITE:
            return dt.datetime.now(dt.UTC)
        with self.explained("does not return its time"):
            connection = self.connection()
            now = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
            connection.rollback()
        return (now if now.tzinfo else now.replace(tzinfo=self.zone)).astimezone(dt.UTC)

    def close(self) -> None:
        """Close the connection and roll back uncommitted changes."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                connection.invalidate()
                connection.close()


def is_passing(error: Exception) -> bool:
    """Whether the same may work later: the server is away or busy, a lock is held."""
    if not isinstance(error, sa.exc.DBAPIError) or not isinstance(
        error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.InternalError
    ):
        return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
    state, text = _state(error), str(error.orig)
    if state:
        return state.startswith(_PASSING_CLASSES) or state in _PASSING_STATES
    if "sqlite" in type(error.orig).__module__:
        return "locked" in text or "busy" in text
    # An error without a state is about the connection. Errors of the server itself at login ("FATAL") are mostly
    # permanent.
    return "FATAL" not in text or any(word in text for word in _PASSING_WORDS)


def is_about_data(error: sa.exc.SQLAlchemyError) -> bool:
    """Whether a value is to blame: of a wrong type, out of range, against a constraint."""
    if isinstance(error, sa.exc.DataError | sa.exc.IntegrityError):
        return True
    if isinstance(error, sa.exc.DBAPIError):
        state = _state(error)
        return state.startswith(_DATA_CLASSES) or state == "42804"  # datatype_mismatch
    return isinstance(error, sa.exc.StatementError)  # a value has no form for the driver


def _state(error: sa.exc.DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _words(error: sa.exc.SQLAlchemyError) -> str:
    """Return the driver's own words, without the statement and its values."""
    cause = error.orig if isinstance(error, sa.exc.StatementError) and error.orig is not None else error
    return f"{type(cause).__name__}: {cause}".strip()
