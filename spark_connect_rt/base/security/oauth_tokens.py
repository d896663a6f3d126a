"""OAUTHBEARER tokens: made, fetched, kept until they are old, for any client.

Owns: one token per settings and process, for every caller; when it is fetched again (four fifths of its life, Java's
``sasl.login.refresh.window.factor``). Messages show neither tokens nor secrets.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

from spark_connect_rt.base.security.oauth import TokenSettings

REFRESH_AT = 0.8
_URL = "sasl.oauthbearer.token.endpoint.url"


class TokenUnavailableError(OSError):
    """No token now; asking again may help."""


class TokenRefusedError(Exception):
    """The endpoint knows this client and says no."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. Times are seconds since the epoch; ``repr`` must never be logged."""

    text: str
    expires_s: float
    principal: str


class TokenSource:
    """The current token of some settings. Any thread."""

    def __init__(self, settings: TokenSettings, now_s: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._now_s = now_s
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_s = 0.0

    def token(self) -> Token:
        """Return a token with a good part of its life left. Raises TokenUnavailableError, TokenRefusedError."""
        with self._lock:
            now_s = self._now_s()
            if self._token is None or now_s >= self._renew_s:
                self._token = self._new(now_s)
                self._renew_s = now_s + (self._token.expires_s - now_s) * REFRESH_AT
            return self._token

    def _new(self, now_s: float) -> Token:
        settings = self.settings
        if settings.unsecured:
            return unsecured_token(settings, now_s)
        if settings.endpoint.lower().startswith("file:"):
            return _from_file(settings)
        return _from_endpoint(settings, now_s)


def token_callback(source: TokenSource) -> Callable[[str | None], tuple[str, float, str, dict[str, str]]]:
    """Return librdkafka's ``oauth_cb``, which it calls again when the token gets old."""

    def tell(_: str | None) -> tuple[str, float, str, dict[str, str]]:
        token = source.token()
        return token.text, token.expires_s, token.principal, dict(source.settings.extensions)

    return tell


@lru_cache(maxsize=64)
def token_source(settings: TokenSettings) -> TokenSource:
    """Return this process's source of these settings: all clients share a token."""
    return TokenSource(settings)


def unsecured_token(settings: TokenSettings, now_s: float) -> Token:
    """Return an unsigned JWS (RFC 7515 appendix A.5), for development only, as Java's brokers accept by default."""
    claims: dict[str, Any] = {name: json.loads(value) for name, value in settings.unsecured}
    expires_s = now_s + settings.lifetime_s
    claims |= {"iat": round(now_s, 3), "exp": round(expires_s, 3)}
    text = f"{_part({'alg': 'none'})}.{_part(claims)}."
    return Token(text, expires_s, str(claims[settings.subject_claim]))


def token_of_text(text: str, settings: TokenSettings, default_expires_s: float | None = None) -> Token:
    """Return the token with what its claims say. Raises TokenUnavailableError: not a JWT that can be used."""
    try:
        body = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        expires_s = float(claims.get("exp", default_expires_s))
        return Token(text, expires_s, str(claims.get(settings.subject_claim, "")))
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise TokenUnavailableError(
            f"{_URL}: the answer of {settings.endpoint} is not a JWT with an exp claim"
        ) from error


def _from_file(settings: TokenSettings) -> Token:
    path = Path(urlsplit(settings.endpoint).path)
    try:
        return token_of_text(path.read_text(encoding="utf-8").strip(), settings)
    except OSError as error:
        raise TokenUnavailableError(f"{_URL}: {path}: {error.strerror or error}") from error


def _from_endpoint(settings: TokenSettings, now_s: float) -> Token:
    import httpx

    from spark_connect_rt.base.security.tls_context import ssl_context

    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    try:
        verify: Any = ssl_context(dict(settings.tls)) if settings.tls else True
        answer = httpx.post(
            settings.endpoint,
            data=form,
            headers={
                "Accept": "application/json",
                "Authorization": basic_credentials(
                    settings.client_id, settings.client_secret, encode=settings.encode_header
                ),
                "Cache-Control": "no-cache",
            },
            timeout=settings.limit_ms / 1000,
            verify=verify,
        )
    except httpx.HTTPError as error:
        raise TokenUnavailableError(f"{_URL}: {settings.endpoint}: {type(error).__name__}: {error}") from error
    if answer.status_code != httpx.codes.OK:
        problem = f"{settings.endpoint} answered {answer.status_code} {oauth_error(answer)}".rstrip()
        if answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise TokenRefusedError(f"the token endpoint {problem}. Check clientId, clientSecret and scope")
        raise TokenUnavailableError(f"{_URL}: {problem}")
    try:
        granted = answer.json()
        expires_s = now_s + float(granted["expires_in"]) if "expires_in" in granted else None
        return token_of_text(str(granted["access_token"]), settings, expires_s)
    except (ValueError, KeyError, TypeError) as error:
        raise TokenUnavailableError(f"{_URL}: {settings.endpoint} answered without an access_token") from error


def basic_credentials(client_id: str, client_secret: str, *, encode: bool) -> str:
    """Return the Authorization header of a client at a token endpoint. ``encode``: as RFC 6749 2.3.1 wants it."""
    encoded: Callable[[str], str] = quote_plus if encode else str
    pair = f"{encoded(client_id)}:{encoded(client_secret)}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")


def oauth_error(answer: Any) -> str:
    """Return the endpoint's ``error`` (RFC 6749 5.2): a word from a list, not the rest of the body."""
    try:
        return str(answer.json().get("error", ""))[:100]
    except (ValueError, AttributeError):
        return ""


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode("ascii").rstrip("=")
