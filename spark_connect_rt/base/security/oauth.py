"""What ``sasl.*`` properties say about OAUTHBEARER tokens, as one value.

Owns the names: JAAS options, KIP-768's and KIP-1139's settings and which of them wins (Java ``ConfigOrJaas``: the
setting). Pure. A token endpoint means client credentials, a ``file:`` URL a token in a file, neither an unsecured
token of the ``unsecuredLogin*`` options, as in Java. Java classes cannot run here and are refused by name.
Source: Java ``OAuthBearerLoginModule``, ``DefaultJwtRetriever``, ``OAuthBearerUnsecuredLoginCallbackHandler``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Where tokens come from; hashable. ``repr`` shows no secret."""

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
    """Return where the client's tokens come from. Raises BadConfigError; its messages show no option's value."""
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
