"""The client of a request, as the history, the logs of changes and installs name it.

A forwarded request carries the address of its first client. If the group signs its internal requests, the address is
signed with the group's key. If it does not, a client that reaches the API can claim another address, as it can send any
internal request. The user's name never comes from a header: the forwarding worker passes the Authorization header on,
and the serving worker checks it.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping

from starlette.requests import Request

from spark_connect_rt.runtime.values import InternalKey

CLIENT_HEADER = "X-Connectrt-Client"
CLIENT_SIGNATURE_HEADER = "X-Connectrt-Client-Signature"
NOTE_HEADER = "X-Connectrt-Note"
"""A client's comment on a change, for the history."""
LONGEST = 256  # characters of an address


def who(request: Request) -> str:
    """Return ``user@address`` of the first client, or its address alone if the API has no users."""
    user = request.scope.get("user")
    name = getattr(user, "display_name", "") or ""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    return f"{name}@{address}" if name else address


def note_of(request: Request) -> str:
    """Return the client's comment on its change, or an empty text."""
    note = request.headers.get(NOTE_HEADER, "")[:LONGEST].strip()
    return note if note.isprintable() else ""


def handed_on(request: Request, key: InternalKey) -> Mapping[str, str]:
    """Return the headers that name the client of a forwarded request to the next worker."""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    headers = {CLIENT_HEADER: address}
    if note := note_of(request):
        headers[NOTE_HEADER] = note
    if key.required and key.key is not None:
        headers[CLIENT_SIGNATURE_HEADER] = _signature(key.key, request, address)
    return headers


def _first_address(request: Request) -> str:
    """Return the address that a forwarded request carries, or an empty text if its signature is invalid."""
    address = request.headers.get(CLIENT_HEADER, "")[:LONGEST]
    if not address or not address.isprintable() or "forward" not in request.query_params:
        return ""
    read_key: Callable[[], InternalKey] | None = getattr(request.app.state, "internal_key", None)
    key = read_key() if read_key else InternalKey(required=False, key=None)
    if not key.required:
        return address
    given = request.headers.get(CLIENT_SIGNATURE_HEADER, "")
    is_signed = key.key is not None and hmac.compare_digest(
        given.encode(), _signature(key.key, request, address).encode()
    )
    return address if is_signed else ""


def _signature(key: bytes, request: Request, address: str) -> str:
    signed = "\n".join((request.method, request.scope["path"], address))
    return base64.b64encode(hmac.new(key, signed.encode(), "sha256").digest()).decode("ascii")
