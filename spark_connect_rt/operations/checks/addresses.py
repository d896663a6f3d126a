"""Which hosts a configuration names, and whether they can be reached.

Owns the reading of addresses out of settings (pure), and the line of each. No user, password, path or query
of an address is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.engine.executor.reach import obstacle_to
from spark_connect_rt.operations.checks.model import HOST

MOST_ADDRESSES = 50
_PORTS = {
    "http": 80,
    "https": 443,
    "postgresql": 5432,
    "postgres": 5432,
    "redshift": 5439,
    "mysql": 3306,
    "mariadb": 3306,
    "sqlserver": 1433,
    "mssql": 1433,
    "oracle": 1521,
    "db2": 50000,
    "mongodb": 27017,
    "redis": 6379,
    "rediss": 6379,
    "amqp": 5672,
    "amqps": 5671,
    "ftp": 21,
    "sftp": 22,
    "ssh": 22,
    "ldap": 389,
    "ldaps": 636,
    "ws": 80,
    "wss": 443,
    "nats": 4222,
    "tcp": 0,
    "ssl": 0,
    "hdfs": 8020,
    "thrift": 0,
}
_ADDRESS = re.compile(r"(?:jdbc:)?([a-z][a-z0-9+.-]*):(?:thin:)?(?://|@//|@)([^/?;#\s]+)", re.IGNORECASE)
_NEXT = re.compile(r",(?=(?:jdbc:)?[a-zA-Z][a-zA-Z0-9+.-]*://)")  # not a host of this one
_SERVER = re.compile(r"^(\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?):([0-9]{1,5})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConfiguredAddress:
    """A place that a setting names."""

    setting: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_in(config: Mapping[str, str], leave_out: Collection[str] = ()) -> list[ConfiguredAddress]:
    """Return the places that settings name: addresses with a scheme, and lists of host:port. Pure.

    ``leave_out``: settings that are secret or not about hosts. Each place once, the first setting's.
    """
    found: dict[tuple[str, int], ConfiguredAddress] = {}
    for setting, value in config.items():
        if setting in leave_out or len(value) > 10_000:
            continue
        for host, port in [*_with_scheme(value), *_servers(setting, value)]:
            found.setdefault((host, port), ConfiguredAddress(setting, host, port))
    return list(found.values())[:MOST_ADDRESSES]


def _with_scheme(value: str) -> list[tuple[str, int]]:
    places = []
    for scheme, authority in (found for part in _NEXT.split(value) for found in _ADDRESS.findall(part)):
        usual = _PORTS.get(scheme.lower().partition("+")[0])
        for part in authority.rpartition("@")[2].split(","):
            place = _place(part, usual)
            if place is not None:
                places.append(place)
    return places


def _servers(setting: str, value: str) -> list[tuple[str, int]]:
    """Return the places of a list of host:port, of settings that are named for such lists."""
    if not setting.endswith(("servers", "brokers", "hosts", ".host", "hostname", "contact.points", "endpoint")):
        return []
    parts = [part.strip() for part in value.split(",")]
    places = [_place(part, None) for part in parts if _SERVER.match(part)]
    return [place for place in places if place is not None]


def _place(text: str, usual: int | None) -> tuple[str, int] | None:
    if "$" in text or "{" in text:  # a template: its value is known later
        return None
    whole = _SERVER.match(text)
    host, port = (whole[1], int(whole[2])) if whole else (text, usual or 0)
    if not 0 < port < 65_536 or not re.fullmatch(r"\[[0-9a-fA-F:]+\]|[\w.-]+", host):
        return None
    return host.strip("[]"), port


@dataclass(frozen=True, slots=True)
class PlacedFinding(Finding):
    """A finding of an executor; ``where``: its host."""

    where: str = ""


def reached(address: ConfiguredAddress) -> Sequence[Finding]:
    """Connect to a place from this worker, and hang up."""
    return [line_of(address, obstacle_to((address.host, address.port)))]


def line_of(address: ConfiguredAddress, obstacle: str, host: str = "") -> Finding:
    """Return what was found of a place; ``host``: the executor's that looked, empty: this worker. Pure."""
    place, where = (f"executor {host}", host) if host else ("this worker", "")
    if obstacle:
        more = "" if host else " (executors need it, too)"
        what, change = (
            f"{address} cannot be reached from {place}: {obstacle}",
            f"correct {address.setting}, or open the",
        )
        return PlacedFinding(HOST, address.setting, Level.PROBLEM, what, f"{change} way there{more}", where)
    return PlacedFinding(HOST, address.setting, Level.OK, f"{address} can be reached from {place}", "", where)
