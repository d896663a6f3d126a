"""The value of ``bootstrap.servers``, read as Java's clients read it.

Follows ``ClientUtils.parseAndValidateAddresses`` and ``Utils.getHost`` of Kafka 4.1; tests/parity compares the answers.
Every client gets its addresses from here. No name is looked up.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from spark_connect_rt.errors import BadConfigError

SETTING = "bootstrap.servers"
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_PORT_MOST = 65_535
_FORMS = "write host:port, [IPv6 address]:port or LISTENER://host:port"


class BrokerAddress(NamedTuple):
    """The host and port on which a broker listens."""

    host: str
    port: int


def bootstrap_addresses(text: str) -> tuple[BrokerAddress, ...]:
    """Return the addresses of a list that commas separate, in its order.

    The name of a listener in front (``PLAINTEXT://``) is left out, as are empty entries and the brackets of an IPv6
    address. No host is this machine.

    Raises BadConfigError, in Java's words: an address without a port, a port above 65535, no address at all.
    """
    entries = [entry for entry in (part.strip() for part in text.split(",")) if entry]
    problems: list[str] = []
    found: list[BrokerAddress] = []
    for entry in entries:
        parts = _ADDRESS.fullmatch(entry)
        if parts is None:
            problems.append(f"Invalid url in {SETTING}: {entry} ({_FORMS})")
        elif int(parts[2]) > _PORT_MOST:
            problems.append(f"Invalid port in {SETTING}: {entry} (a port is at most {_PORT_MOST})")
        else:
            found.append(BrokerAddress(parts[1] or "localhost", int(parts[2])))
    if not entries:
        problems.append(f"No resolvable bootstrap urls given in {SETTING} ({_FORMS})")
    if problems:
        raise BadConfigError({SETTING: problems})
    return tuple(found)


def plain_servers(text: str) -> str:
    """Return the same addresses as text that any client reads: ``host:port`` or ``[IPv6 address]:port``, by commas.

    Raises as ``bootstrap_addresses``.
    """
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bootstrap_addresses(text))
