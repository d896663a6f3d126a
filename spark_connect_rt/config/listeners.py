"""Where the REST API listens and under which address other workers know it (Java ``RestServer.advertisedUrl``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from spark_connect_rt.config.worker_config import RestSettings
from spark_connect_rt.errors import BadConfigError

DEFAULT_PORT = 8083
_LISTENER = re.compile(r"^(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)/?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listener:
    """One address of ``listeners``; an empty host means every interface, port 0 one that the system chooses."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as the setting has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Advertised:
    """How other workers reach this one: ``url`` ends in a slash, ``worker_id`` is host:port."""

    url: str
    worker_id: str


def parse_listeners(texts: Sequence[str]) -> list[Listener]:
    """Parse ``http://host:port`` texts. Raises BadConfigError naming the bad ones."""
    listeners, problems = [], []
    for text in texts:
        found = _LISTENER.match(text.strip())
        if found is None or int(found["port"]) > 65_535:
            problems.append(f"{text!r} is not a valid listener. Use http://host:port or https://host:port")
            continue
        listeners.append(Listener(found["scheme"].lower(), found["host"].strip("[]"), int(found["port"])))
    if not listeners and not problems:
        problems.append("must contain at least one listener")
    if problems:
        raise BadConfigError({"listeners": problems})
    return listeners


def listener_problems(setting: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return (``setting``, complaint) for each text that is no listener."""
    try:
        parse_listeners(texts)
    except BadConfigError as error:
        return [(setting, why) for why in error.problems["listeners"]]
    return []


def advertised(rest: RestSettings, local_host: str) -> Advertised:
    """Return the address for others: ``rest.advertised.*``, else the first http listener's, else the first https one's.

    ``local_host`` stands in where a listener is on every interface.
    """
    listeners = parse_listeners(rest.listeners)
    preferred = "http" if any(listener.scheme == "http" for listener in listeners) else "https"
    scheme = (rest.rest_advertised_listener or preferred).lower()
    chosen = next((listener for listener in listeners if listener.scheme == scheme), listeners[0])
    host = rest.rest_advertised_host_name or _reachable(chosen.host) or local_host
    port = rest.rest_advertised_port or chosen.port
    shown = f"[{host}]" if ":" in host else host
    return Advertised(f"{scheme}://{shown}:{port}/", f"{shown}:{port}")


def _reachable(host: str) -> str:
    return "" if host in ("0.0.0.0", "::") else host


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is one of this machine's for itself. Pure."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
