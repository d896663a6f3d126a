"""Protection against other sites' pages and hostile names: the content security policy and the proof of origin.

Owns: headers of every answer below /console; the cookie and the token that an action must show. A change needs all of:
an Origin that is this address, the cookie (SameSite=Strict), and the token that only a page of this worker holds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

COOKIE = "connectrt_console"
TOKEN_HEADER = "x-csrf-token"
_COOKIE_FORM = re.compile(r"[A-Za-z0-9_-]{32,64}")
_SOURCE = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_SAFE = ("GET", "HEAD", "OPTIONS")
_PLAIN_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def content_policy(others: Iterable[str] = ()) -> str:
    """Return the policy: everything from this worker alone, no inline script or style. Pure.

    Args:
        others: origins of the other workers, which a page asks for a sign of life when its own worker has none. They
            come from other members of the group, so every value that is not a plain origin is left out.
    """
    sources = " ".join(["'self'", *sorted({other for other in others if _SOURCE.fullmatch(other)})])
    return (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
        f"connect-src {sources}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def origin_of(url: str) -> str:
    """Return scheme, host and port of a worker's URL; empty if it is not an http address."""
    try:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return ""
    return origin if _SOURCE.fullmatch(origin) else ""


class Protection:
    """The secret of one process, and what is made with it."""

    def __init__(self) -> None:
        self._secret, self._process = secrets.token_bytes(32), secrets.token_hex(8)

    def token(self, request: Request) -> str:
        """Return the token for pages of this browser; ``headers`` then brings its cookie."""
        return self._token_of(self._browser(request))

    def seal(self, data: bytes) -> str:
        """Return a digest under this process's key, behind the name of the process."""
        return f"{self._process}.{hmac.new(self._secret, b'seal' + data, hashlib.sha256).hexdigest()}"

    def refusal(self, request: Request) -> str:
        """Return why a request may not change anything; empty: it may, or changes nothing."""
        if request.method in _SAFE:
            return ""
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        if not host or urlsplit(origin).netloc.lower() != host.lower():
            return f"the action came from {origin or 'an unknown page'}, not from a page at {host}"
        cookie, token = request.cookies.get(COOKIE, ""), request.headers.get(TOKEN_HEADER, "")
        if not _COOKIE_FORM.fullmatch(cookie) or not hmac.compare_digest(
            token.encode(), self._token_of(cookie).encode()
        ):
            return "the page is older than this worker, or cookies are disabled. Reload the page"
        return ""

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of every answer, and the browser's cookie if a page was made with a token for it."""
        found = {"Content-Security-Policy": content_policy(), "Cache-Control": "no-store", **_PLAIN_HEADERS}
        browser = request.scope["console"].get("browser")
        if browser and request.cookies.get(COOKIE) != browser:
            path = request.scope["console"]["root"] + "/console"
            secure = "; Secure" if request.url.scheme == "https" else ""
            found["Set-Cookie"] = f"{COOKIE}={browser}; Path={path}; HttpOnly; SameSite=Strict{secure}"
        return found

    def _browser(self, request: Request) -> str:
        known = request.scope["console"]
        given = str(known.get("browser") or request.cookies.get(COOKIE, ""))
        # Workers of one host share the cookie: a good one is kept.
        known["browser"] = given if _COOKIE_FORM.fullmatch(given) else secrets.token_urlsafe(32)
        return str(known["browser"])

    def _token_of(self, browser: str) -> str:
        return hmac.new(self._secret, browser.encode(), hashlib.sha256).hexdigest()


# Files that pages load: read once from the package (a wheel that is not unpacked, too), named with their digest.
#
# Owns: which files there are, their types, how long a browser keeps them.


_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_KEPT = "public, max-age=31536000, immutable"  # the digest in its address changes with the file


@cache
def files() -> dict[str, tuple[bytes, str]]:
    """Return name -> content and digest of everything below ``static``."""
    found: dict[str, tuple[bytes, str]] = {}
    folder = resources.files("spark_connect_rt.console") / "static"
    for prefix, place in (("", folder), ("vendor/", folder / "vendor")):
        for path in place.iterdir():
            if path.is_file():
                content = path.read_bytes()
                found[prefix + path.name] = (content, hashlib.sha256(content).hexdigest()[:12])
    return found


def address(name: str) -> str:
    """Return where a page finds a file, below ``/console``. Raises KeyError for one that is not there."""
    return f"/static/{name}?v={files()[name][1]}"


async def serve(request: Request) -> Response:
    """Answer ``/console/static/{name:path}`` with a file, or 404."""
    name = request.path_params["name"]
    if name not in files():
        raise HTTPException(404)
    content, digest = files()[name]
    named = request.query_params.get("v") == digest
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(content, media_type=kind, headers={"Cache-Control": _KEPT if named else "no-cache"})
