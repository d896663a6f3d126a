"""The OAUTHBEARER part of ``sasl.*`` properties, as one value.

Owns the names: JAAS options, KIP-768's and KIP-1139's settings and which of them wins (Java ``ConfigOrJaas``: the
setting). Pure. A token endpoint means client credentials and a ``file:`` URL means a token in a file. Neither means an
unsecured token of the ``unsecuredLogin*`` options, as in Java. Java classes cannot run here and are rejected by name.
Source: Java ``OAuthBearerLoginModule``, ``DefaultJwtRetriever``, ``OAuthBearerUnsecuredLoginCallbackHandler``.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

from spark_connect_rt.base.security.sasl import SETTING, parse_jaas
from spark_connect_rt.errors import BadConfigError

_OWN = "org.apache.kafka.common.security.oauthbearer."
_KNOWN_CLASSES = {
    "sasl.login.callback.handler.class": (
        "OAuthBearerLoginCallbackHandler",
        "OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
    ),
}
_UNSECURED = "unsecuredLogin"
_LIFETIME_S = 3_600  # Java's default
_READ_LIMIT_MS = 10_000

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The source of tokens; hashable. ``repr`` shows no secret."""

    endpoint: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    encode_header: bool = False
    subject_claim: str = "sub"
    limit_ms: int = _READ_LIMIT_MS
    tls: Pairs = ()  # ssl.* options of the JAAS line: for the endpoint's own certificate
    unsecured: Pairs = ()  # claim -> JSON text
    lifetime_s: int = _LIFETIME_S
    extensions: Pairs = ()  # SASL extensions (KIP-342)


def token_settings(properties: Mapping[str, str]) -> TokenSettings:
    """Return the source of the client's tokens. Raises BadConfigError; its messages show no option's value."""
    _refuse_unknown_classes(properties)
    options = _options(properties)
    endpoint = properties.get("sasl.oauthbearer.token.endpoint.url", "")
    if not endpoint:
        return _unsecured(options)
    settings = TokenSettings(
        endpoint=endpoint,
        client_id=_either(properties, "sasl.oauthbearer.client.credentials.client.id", options, "clientId"),
        client_secret=_either(properties, "sasl.oauthbearer.client.credentials.client.secret", options, "clientSecret"),
        scope=_either(properties, "sasl.oauthbearer.scope", options, "scope"),
        encode_header=properties.get("sasl.oauthbearer.header.urlencode", "").lower() == "true",
        subject_claim=properties.get("sasl.oauthbearer.sub.claim.name") or "sub",
        limit_ms=_limit_ms(properties),
        tls=_pairs({name: value for name, value in options.items() if name.startswith("ssl.")}),
        extensions=_pairs(_after(options, "extension_")),
    )
    if not endpoint.lower().startswith(("http://", "https://", "file:")):
        raise BadConfigError({"sasl.oauthbearer.token.endpoint.url": ["must be an http, https or file URL"]})
    if not endpoint.lower().startswith("file:") and not (settings.client_id and settings.client_secret):
        raise BadConfigError({SETTING: ["clientId and clientSecret are required for the token endpoint"]})
    return settings


def native_settings(settings: TokenSettings) -> dict[str, str] | None:
    """Return librdkafka's settings when it can fetch these tokens by itself, else None (a callback must).

    Its own way costs no time when a client is made; a callback costs a second each.
    """
    plain = settings.endpoint.lower().startswith("http") and settings.subject_claim == "sub"
    if not plain or settings.tls or settings.encode_header:
        return None
    native = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": settings.endpoint,
        "sasl.oauthbearer.client.id": settings.client_id,
        "sasl.oauthbearer.client.secret": settings.client_secret,
        "sasl.oauthbearer.scope": settings.scope,
        "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in settings.extensions),
    }
    return {name: value for name, value in native.items() if value}


def _unsecured(options: Mapping[str, str]) -> TokenSettings:
    own = _after(options, _UNSECURED)
    subject_claim = own.get("PrincipalClaimName", "sub")
    claims: dict[str, str] = {name: _json(value) for name, value in _after(own, "StringClaim_").items()}
    try:
        claims |= {name: str(float(value)) for name, value in _after(own, "NumberClaim_").items()}
        lifetime_s = int(own.get("LifetimeSeconds", _LIFETIME_S))
    except ValueError as error:
        raise BadConfigError({SETTING: ["unsecuredLogin* options: must be a number"]}) from error
    for name, value in _after(own, "ListClaim_").items():  # its first character separates the values
        claims[name] = "[" + ",".join(_json(part) for part in value[1:].split(value[0])) + "]" if value else "[]"
    if subject_claim not in claims:
        problem = (
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, or an unsecured token's "
            f"{_UNSECURED}StringClaim_{subject_claim} in it"
        )
        raise BadConfigError({SETTING: [problem]})
    if reserved := {"iat", "exp"} & claims.keys():
        raise BadConfigError({SETTING: [f"the claim {min(reserved)} is reserved and cannot be set"]})
    return TokenSettings(
        subject_claim=subject_claim,
        unsecured=_pairs(claims),
        lifetime_s=lifetime_s,
        extensions=_pairs(_after(own, "Extension_")),
    )


def _options(properties: Mapping[str, str]) -> dict[str, str]:
    text = properties.get(SETTING)
    if not text:
        return {}
    module, options = parse_jaas(text)
    if module != "OAuthBearerLoginModule":
        raise BadConfigError({SETTING: [f"OAUTHBEARER needs OAuthBearerLoginModule, not {module}"]})
    return options


def _refuse_unknown_classes(properties: Mapping[str, str]) -> None:
    for setting, known in _KNOWN_CLASSES.items():
        name = properties.get(setting, "")
        if name and not (name.startswith(_OWN) and name.rpartition(".")[2] in known):
            raise BadConfigError({setting: [f"{name} is a Java class and cannot run here"]})


def _either(properties: Mapping[str, str], setting: str, options: Mapping[str, str], option: str) -> str:
    return properties.get(setting) or options.get(option, "")


def _limit_ms(properties: Mapping[str, str]) -> int:
    try:
        return int(properties.get("sasl.login.read.timeout.ms") or _READ_LIMIT_MS)
    except ValueError as error:
        raise BadConfigError({"sasl.login.read.timeout.ms": ["is not a number of milliseconds"]}) from error


def _after(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    cut = len(prefix)
    return {name[cut:]: value for name, value in options.items() if name.startswith(prefix) and len(name) > cut}


def _pairs(values: Mapping[str, str]) -> Pairs:
    return tuple(sorted(values.items()))


def _json(text: str) -> str:
    return json.dumps(text)


# OAUTHBEARER tokens: made, fetched, kept until they are old, for any client.
#
# Owns: one token per settings and process, for every caller; when it is fetched again (four fifths of its life, Java's
# ``sasl.login.refresh.window.factor``). Messages show neither tokens nor secrets.


REFRESH_AT = 0.8
_URL = "sasl.oauthbearer.token.endpoint.url"


class TokenUnavailableError(OSError):
    """No token now; asking again may help."""


class TokenRefusedError(Exception):
    """The endpoint knows this client and refuses a token."""


@dataclass(frozen=True, slots=True)
class BearerToken:
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
        self._token: BearerToken | None = None
        self._renew_s = 0.0

    def token(self) -> BearerToken:
        """Return a token with a good part of its life left. Raises TokenUnavailableError, TokenRefusedError."""
        with self._lock:
            now_s = self._now_s()
            if self._token is None or now_s >= self._renew_s:
                self._token = self._new(now_s)
                self._renew_s = now_s + (self._token.expires_s - now_s) * REFRESH_AT
            return self._token

    def _new(self, now_s: float) -> BearerToken:
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


def unsecured_token(settings: TokenSettings, now_s: float) -> BearerToken:
    """Return an unsigned JWS (RFC 7515 appendix A.5), for development only, as Java's brokers accept by default."""
    claims: dict[str, Any] = {name: json.loads(value) for name, value in settings.unsecured}
    expires_s = now_s + settings.lifetime_s
    claims |= {"iat": round(now_s, 3), "exp": round(expires_s, 3)}
    text = f"{_part({'alg': 'none'})}.{_part(claims)}."
    return BearerToken(text, expires_s, str(claims[settings.subject_claim]))


def token_of_text(text: str, settings: TokenSettings, default_expires_s: float | None = None) -> BearerToken:
    """Return the token with its claims. Raises TokenUnavailableError: not a JWT that can be used."""
    try:
        body = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        expires_s = float(claims.get("exp", default_expires_s))
        return BearerToken(text, expires_s, str(claims.get(settings.subject_claim, "")))
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise TokenUnavailableError(
            f"{_URL}: the answer of {settings.endpoint} is not a JWT with an exp claim"
        ) from error


def _from_file(settings: TokenSettings) -> BearerToken:
    path = Path(urlsplit(settings.endpoint).path)
    try:
        return token_of_text(path.read_text(encoding="utf-8").strip(), settings)
    except OSError as error:
        raise TokenUnavailableError(f"{_URL}: {path}: {error.strerror or error}") from error


def _from_endpoint(settings: TokenSettings, now_s: float) -> BearerToken:
    import httpx

    from spark_connect_rt.base.security.tls import ssl_context

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
