"""Which members of a worker group are Java workers and which are workers of this product, seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urljoin

from spark_connect_rt.group.subprotocol import OWN_PREFIX

JAVA, PYTHON, UNKNOWN = "java", "python", ""
_PROBE = "health/ready"  # Java workers have only /health
_PROBE_LIMIT_S = 3.0
_PROBES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A running worker: its advertised REST URL, and ``java``, ``python`` or empty if its kind is not known."""

    url: str
    runtime: str


def group_members(protocol: str, urls: Sequence[str], probe: Callable[[str], int | None]) -> list[GroupMember]:
    """Return the members with their kinds, in the order of ``urls``.

    Args:
        protocol: the group protocol that the broker chose. A name of our own means that no Java worker is a member.
        urls: the members' advertised REST URLs, with a trailing slash.
        probe: returns the HTTP status of a GET of a URL, None if it cannot be reached.
    """
    if protocol.startswith(OWN_PREFIX):
        return [GroupMember(url, PYTHON) for url in urls]
    with ThreadPoolExecutor(_PROBES_AT_ONCE) as threads:  # a group may have many members that do not answer
        statuses = list(threads.map(probe, [urljoin(url, _PROBE) for url in urls]))
    return [GroupMember(url, _runtime_of(status)) for url, status in zip(urls, statuses, strict=True)]


def _runtime_of(status: int | None) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return JAVA
    # 503 while it starts or stops. A login page or a proxy's error says nothing about what is behind it.
    return PYTHON if status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE) else UNKNOWN


def probe_status(url: str) -> int | None:
    """Return the HTTP status of a GET without credentials; None: nothing answered within three seconds."""
    from spark_connect_rt.rest.client.lean_httpx import httpx

    try:
        return httpx.get(url, timeout=_PROBE_LIMIT_S).status_code
    except httpx.HTTPError:
        return None
