"""Settings `iceberg.catalog.*` as the official sink has them -> properties of pyiceberg's catalogs. Pure.

Java and pyiceberg share most names. This module translates those that differ, and refuses what pyiceberg cannot do.
Sources: Apache Iceberg's "Catalog properties", pyiceberg's "Configuration".
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.errors import BadConfigError

PREFIX = "iceberg.catalog."
DEFAULT_NAME = "iceberg"
_TYPES = {"rest": "rest", "hive": "hive", "glue": "glue", "jdbc": "sql", "sql": "sql"}
_ADVICE = {
    "hadoop": " A catalog of files alone cannot refuse a commit that comes too late. Use sql or rest.",
    "nessie": " Use type rest with the REST address of Nessie.",
    "unity": " Use type rest with the Iceberg REST address of Unity Catalog, and its catalog as the warehouse.",
    "dynamodb": " pyiceberg cannot commit to it.",
}
_CLASSES = {
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
}
_RENAMED = {
    "client.region": "s3.region",
    "s3.path-style-access": "",  # pyiceberg's default
    "io-impl": "",  # files are read and written by Arrow
    "cache-enabled": "",
    "cache.expiration-interval-ms": "",
}
_SECRET = re.compile(
    r"(?i)secret|password|token|credential|sas|signature|authorization|account[._-]key|connection[._-]string"
)
_IN_QUERY = re.compile(r"(?i)[?&](?:password|token)=([^&]+)")
_JDBC = re.compile(r"jdbc:(?P<kind>postgresql|sqlite):(?P<rest>.*)")
_DRIVERS = {"postgresql": "postgresql+psycopg", "sqlite": "sqlite"}


def catalog_of(config: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name of the catalog and pyiceberg's properties of it.

    Raises BadConfigError for each setting that is missing, or that pyiceberg has nothing for.
    """
    given = prefixed(config, PREFIX)
    problems: dict[str, list[str]] = {}
    properties = {_RENAMED.get(name, name): value for name, value in given.items() if _RENAMED.get(name, name)}
    kind = _kind_of(properties.pop("type", None), properties.pop("catalog-impl", None), problems)
    properties["type"] = kind
    for name in config:
        if name == "iceberg.hadoop-conf-dir" or name.startswith("iceberg.hadoop."):
            problems[name] = ["is not used: set the access to the object store with iceberg.catalog.s3.*"]
    if kind in ("rest", "sql", "hive") and not properties.get("uri"):
        problems.setdefault(PREFIX + "uri", []).append(f"must be set for a catalog of type {kind}")
    if kind in ("sql", "glue", "hive") and not properties.get("warehouse"):
        problems.setdefault(PREFIX + "warehouse", []).append(f"must be set for a catalog of type {kind}")
    if kind == "sql" and properties.get("uri"):
        properties["uri"] = _database_uri(
            properties["uri"], properties.pop("jdbc.user", None), properties.pop("jdbc.password", None), problems
        )
    if kind == "rest" and ("credential" in properties or "token" in properties):  # its default, which it warns about
        properties.setdefault("oauth2-server-uri", f"{properties.get('uri', '').rstrip('/')}/v1/oauth/tokens")
    if problems:
        raise BadConfigError(problems)
    return config.get("iceberg.catalog") or DEFAULT_NAME, properties


def secrets_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that no log or message may show: secrets of a catalog or an object store.

    Args:
        properties: pyiceberg's of a catalog, or options of delta-rs. Names such as `credential`, `token`,
            `s3.secret-access-key` and `AWS_SECRET_ACCESS_KEY` are secret, and so is a password in a URL.
    """
    secrets: list[str] = []
    for name, value in properties.items():
        if _SECRET.search(name):
            secrets.append(value)
            if name == "credential":  # client:secret
                secrets.append(value.rpartition(":")[2])
        elif "://" in value:
            found = [*_IN_QUERY.findall(value), _password_of(value)]
            secrets += [form for secret in found for form in (secret, urllib.parse.unquote(secret))]
    return tuple(dict.fromkeys(secret for secret in secrets if secret))


def _password_of(url: str) -> str:
    try:
        return urllib.parse.urlsplit(url).password or ""
    except ValueError:  # such as a host in brackets that are not closed
        return ""


def without_effect(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Java catalogs that pyiceberg does not need, with the reason."""
    reason = "it has no effect: pyiceberg does not need it"
    return {name: reason for name in config if not _RENAMED.get(name.removeprefix(PREFIX), name)}


def _kind_of(kind: str | None, java_class: str | None, problems: dict[str, list[str]]) -> str:
    if java_class is not None:
        if java_class not in _CLASSES:
            known = ", ".join(sorted(_CLASSES))
            problems[PREFIX + "catalog-impl"] = [f"{java_class} is not supported. Supported are: {known}."]
        return _CLASSES.get(java_class, "")
    if kind is None:
        problems[PREFIX + "type"] = [f"must be set: {', '.join(sorted(_TYPES))}"]
        return ""
    found = _TYPES.get(kind.strip().lower(), "")
    if not found:
        more = _ADVICE.get(kind.strip().lower(), "")
        problems[PREFIX + "type"] = [f"{kind} is not supported. Supported are: {', '.join(sorted(_TYPES))}.{more}"]
    return found


def _database_uri(uri: str, user: str | None, password: str | None, problems: dict[str, list[str]]) -> str:
    """Return SQLAlchemy's form of a JDBC URL. Other URLs are kept."""
    found = _JDBC.fullmatch(uri)
    if found is None:
        if uri.startswith("jdbc:"):
            problems[PREFIX + "uri"] = ["only jdbc:postgresql: and jdbc:sqlite: are supported, or a URL of SQLAlchemy"]
        return uri
    if found["kind"] == "sqlite":
        return f"sqlite:///{found['rest']}"
    rest = found["rest"]
    if user and rest.startswith("//"):
        login = urllib.parse.quote(user, safe="")
        if password:
            login += ":" + urllib.parse.quote(password, safe="")
        rest = f"//{login}@{rest[2:]}"
    return f"{_DRIVERS[found['kind']]}:{rest}"
