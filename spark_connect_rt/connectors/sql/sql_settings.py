"""Settings that the SQL source and the SQL sink share, under the names that users of JDBC connectors know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlalchemy as sa

from spark_connect_rt.config.config_def import HIGH, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import Check, anything, non_empty
from spark_connect_rt.errors import BadConfigError


def key(name: str, kind: Type, default: Any, importance: Importance, doc: str, check: Check = anything) -> ConfigKey:
    """Return the declaration of one setting."""
    return ConfigKey(name, kind, default, importance, doc, check)


def zone_problem(name: Any) -> str | None:
    """Complain about a time zone that is not known here."""
    try:
        ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "must be a time zone, such as UTC or Europe/Berlin"
    return None


CONNECTION = ConfigDef(
    [
        key(
            "connection.url",
            Type.STRING,
            REQUIRED,
            HIGH,
            "URL of the database: jdbc:postgresql://host:port/database, jdbc:sqlite:/path, or a SQLAlchemy URL "
            "whose driver is installed. Set the password in connection.password.",
            non_empty,
        ),
        key("connection.user", Type.STRING, None, HIGH, "User. It overrides the URL's."),
        key("connection.password", Type.PASSWORD, None, HIGH, "Password. It overrides the URL's."),
        key(
            "db.timezone",
            Type.STRING,
            "UTC",
            MEDIUM,
            "Time zone of columns with a time without a zone.",
            zone_problem,
        ),
    ]
)


def problems_of(config: Mapping[str, str], definition: ConfigDef, check: Any) -> dict[str, list[str]]:
    """Return the problems that ``check`` (typed settings -> raises BadConfigError) finds once each setting is valid."""
    if any(value.errors for value in definition.validate(config)):
        return {}
    try:
        check(definition.parse(config))
    except BadConfigError as error:
        return {name: list(why) for name, why in error.problems.items()}
    return {}


# ``connection.url`` -> SQLAlchemy's URL: JDBC URLs of PostgreSQL and SQLite are read as their drivers read them. Pure.
#
# Source of the JDBC forms: pgJDBC's documentation "Initializing the Driver", sqlite-jdbc's README. A URL may hold a
# password: no message shows one.


URL, USER, PASSWORD = "connection.url", "connection.user", "connection.password"
POSTGRESQL, SQLITE = "postgresql", "sqlite"
_JDBC_POSTGRESQL = re.compile(r"jdbc:postgresql:(?://(?P<hosts>[^/?]*)/?)?(?P<database>[^?]*)(?:\?(?P<query>.*))?")
_JDBC_SQLITE = re.compile(r"jdbc:sqlite:(?P<database>[^?]*)(?:\?.*)?")
_LIBPQ_NAMES = {  # pgJDBC's property -> libpq's parameter, where values mean the same
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "gssEncMode": "gssencmode",
    "options": "options",
}
_TARGET_SESSIONS = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}


def sqlalchemy_url(text: str, user: str | None = None, password: str | None = None) -> sa.URL:
    """Return the URL that SQLAlchemy connects to; ``user`` and ``password`` win over those in the text.

    pgJDBC's properties that libpq has too keep their effect; its others (prepareThreshold ...) have none here.
    Raises BadConfigError: an invalid form, or a database that every task would have to itself.
    """
    url = _read(text.strip())
    if url.get_backend_name() == SQLITE and (not url.database or ":memory:" in url.database):
        raise BadConfigError({URL: ["must have a database file, because a database in memory is not shared by tasks"]})
    if user is not None:
        url = url.set(username=user)
    if password is not None:
        url = url.set(password=password)
    return url


def _read(text: str) -> sa.URL:
    if found := _JDBC_POSTGRESQL.fullmatch(text):
        return _postgresql(found.group("hosts") or "", found.group("database"), found.group("query") or "")
    if found := _JDBC_SQLITE.fullmatch(text):
        return sa.URL.create(SQLITE, database=unquote(found.group("database")))
    if text.startswith("jdbc:"):
        kind = text.split(":")[1]
        raise BadConfigError(
            {URL: [f"jdbc:{kind} is not supported. Use SQLAlchemy's form, such as {kind}+driver://..."]}
        )
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise BadConfigError({URL: ["must be SQLAlchemy's form, driver://user@host:port/database, or jdbc:"]}) from None
    return url.set(drivername="postgresql+psycopg") if url.drivername == POSTGRESQL else url


def _postgresql(hosts: str, database: str, query: str) -> sa.URL:
    given = dict(parse_qsl(query, keep_blank_values=True))
    parameters: dict[str, str | tuple[str, ...]] = dict(_libpq_parameters(given))
    places = [place for place in hosts.split(",") if place] or ["localhost"]
    host, port = _host_and_port(places[0])
    if len(places) > 1:
        parameters["host"] = tuple(places)
        host, port = None, None
    return sa.URL.create(
        "postgresql+psycopg",
        username=given.get("user"),
        password=given.get("password"),
        host=host,
        port=port,
        database=unquote(database.lstrip("/")) or given.get("user"),
        query=parameters,
    )


def _host_and_port(place: str) -> tuple[str | None, int | None]:
    found = re.fullmatch(r"\[(?P<six>[^]]+)\](?::(?P<a>\d+))?|(?P<name>[^:]*)(?::(?P<b>\d+))?", place)
    if found is None:
        raise BadConfigError({URL: [f"{place!r} is not a valid host:port"]})
    port = found.group("a") or found.group("b")
    return found.group("six") or found.group("name") or "localhost", int(port) if port else None


def _libpq_parameters(given: Mapping[str, str]) -> dict[str, str]:
    parameters = {_LIBPQ_NAMES[name]: value for name, value in given.items() if name in _LIBPQ_NAMES}
    if given.get("ssl", "false") in ("", "true"):
        parameters.setdefault("sslmode", "verify-full")  # as pgJDBC interprets ssl=true
    if "currentSchema" in given:
        path = f"-csearch_path={given['currentSchema']}"
        parameters["options"] = " ".join(filter(None, [parameters.get("options"), path]))
    if "tcpKeepAlive" in given:
        parameters["keepalives"] = "1" if given["tcpKeepAlive"] == "true" else "0"
    if "targetServerType" in given:
        parameters["target_session_attrs"] = _TARGET_SESSIONS.get(given["targetServerType"], "any")
    return parameters


def adbc_uri(url: sa.URL) -> str:
    """Return the address and options of the same database for its ADBC driver."""
    if url.get_backend_name() == SQLITE:
        return str(url.database)
    return url.set(drivername=POSTGRESQL).render_as_string(hide_password=False)
