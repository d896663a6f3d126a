"""Settings that the SQL source and the SQL sink share, under the names that users of JDBC connectors know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
    """Return what ``check`` (typed settings -> raises BadConfigError) finds once each setting is right by itself."""
    if any(value.errors for value in definition.validate(config)):
        return {}
    try:
        check(definition.parse(config))
    except BadConfigError as error:
        return {name: list(why) for name, why in error.problems.items()}
    return {}
