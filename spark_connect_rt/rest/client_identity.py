"""Who asked: the client behind a request, as history, logs of changes and installs name it.

Owns ``who`` and what a forwarded request carries of the first one's client. Where the group signs its internal
requests the address is signed with the group's key; where it does not, a client that reaches the API could claim
another address, as it could send any internal request. The user's name is never taken from a header: who forwards
hands on the Authorization, and the worker that serves checks it.
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
"""A client's own words on a change, for the history."""
LONGEST = 256  # characters of an address


def who(request: Request) -> str:
    """Return ``user@address``, or the address alone where no one logs in; of a forwarded request: the first client."""
    user = request.scope.get("user")
    name = getattr(user, "display_name", "") or ""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    return f"{name}@{address}" if name else address


def note_of(request: Request) -> str:
    """Return what the client says of its change, or nothing."""
    note = request.headers.get(NOTE_HEADER, "")[:LONGEST].strip()
    return note if note.isprintable() else ""


def handed_on(request: Request, key: InternalKey) -> Mapping[str, str]:
    """Return the headers by which the next worker knows the client of a request that is forwarded."""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    headers = {CLIENT_HEADER: address}
    if note := note_of(request):
        headers[NOTE_HEADER] = note
    if key.required and key.key is not None:
        headers[CLIENT_SIGNATURE_HEADER] = _signature(key.key, request, address)
    return headers


def _first_address(request: Request) -> str:
    """Return the address that a forwarded request carries and that may be believed, else nothing."""
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
