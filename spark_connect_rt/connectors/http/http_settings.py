"""Settings that the HTTP source and sink share: address, headers, credentials, patience; and their checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import json_object, number, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.http.http_oauth import BASIC, POST

OAUTH2 = "oauth2"
_NEEDED = {
    "basic": ("http.auth.user", "http.auth.password"),
    "bearer": ("http.auth.token",),
    OAUTH2: ("http.oauth.token.url", "http.oauth.client.id", "http.oauth.client.secret"),
}


def json_texts(value: Any) -> str | None:
    """Complain about text that is not a JSON object of texts."""
    complaint = json_object(value)
    if value is None or complaint is not None:
        return complaint
    fits = all(isinstance(load, str) for load in json.loads(getattr(value, "value", value)).values())
    return None if fits else 'must be a JSON object of strings: {"name": "text"}'


def web_address(value: Any) -> str | None:
    """Complain about text that is not an http or https address."""
    try:
        parts = urlsplit(str(value or ""))
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        return f"is not a valid address: {error}"
    return None if fits else "must begin with http:// or https:// and have a host"


def _optional_address(value: Any) -> str | None:
    return None if value is None else web_address(value)


CONNECTION = ConfigDef(
    [
        text(
            "http.headers",
            'Headers of every request, as JSON: {"Accept": "application/json"}.',
            None,
            MEDIUM,
            json_texts,
        ),
        ConfigKey("http.secret.headers", Type.PASSWORD, None, MEDIUM, "More headers, kept secret.", json_texts),
        text(
            "http.auth.type",
            "Authentication: none, basic (user, password), bearer (token), or oauth2 (client credentials, "
            "http.oauth.*).",
            "none",
            MEDIUM,
            one_of("none", "basic", "bearer", OAUTH2),
        ),
        text("http.auth.user", "User for basic authentication."),
        ConfigKey("http.auth.password", Type.PASSWORD, None, MEDIUM, "Password for basic authentication."),
        ConfigKey("http.auth.token", Type.PASSWORD, None, MEDIUM, "Token for bearer authentication."),
        text("http.oauth.token.url", "Token endpoint for oauth2.", None, MEDIUM, _optional_address),
        text("http.oauth.client.id", "Client id for oauth2."),
        ConfigKey("http.oauth.client.secret", Type.PASSWORD, None, MEDIUM, "Client secret for oauth2."),
        text("http.oauth.scope", "Scopes for oauth2, separated by spaces. Not set: no scopes are requested."),
        text("http.oauth.audience", "Audience for oauth2. Not set: no audience is requested."),
        text(
            "http.oauth.client.auth",
            "How the client sends its secret to the token endpoint. basic: in a header. post: in the form.",
            BASIC,
            LOW,
            one_of(BASIC, POST),
        ),
        number("http.connect.timeout.ms", "Timeout of a connection, ms.", 10_000, 1),
        number("http.timeout.ms", "Timeout of a response, ms.", 30_000, 1),
        number(
            "http.retries.max",
            "Failures in a row (no response, 408, 425, 429, 5xx) before the task fails.",
            10,
            0,
            MEDIUM,
        ),
        number(
            "http.retry.backoff.ms",
            "First wait after a failure, ms. It doubles each time. Retry-After overrides it.",
            1_000,
            1,
        ),
        number("http.retry.backoff.max.ms", "Longest wait after a failure, ms.", 60_000, 1),
        number(
            "http.retry.after.max.ms",
            "Longest wait that a server may request by Retry-After, ms. A longer one is limited, with a warning.",
            3_600_000,
            0,
        ),
        text("http.proxy.url", "Proxy. Proxy settings of the environment are not used.", None, LOW),
        text(
            "http.ssl.ca.location",
            "PEM file of certificate authorities of the server. Not set: those of the system.",
            None,
            LOW,
        ),
    ]
)
URL = text("http.url", "Address.", REQUIRED, HIGH, web_address)


def auth_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the problems of the credentials: setting -> complaints."""
    kind = config.get("http.auth.type") or "none"
    return {name: [f"must be set with http.auth.type={kind}"] for name in _NEEDED.get(kind, ()) if not config.get(name)}
