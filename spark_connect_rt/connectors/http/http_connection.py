"""What the HTTP source and sink share: settings of the connection, credentials, and whose fault an answer is.

No message and no log line holds a header, a query or credentials: addresses are shown without them.
"""

from __future__ import annotations

import email.utils
import json
import logging
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.keys import HIGH, LOW, MEDIUM, json_object, number, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import BadConfigError, ConnectError

_PASSING = (408, 425, 429)
_DENIED = (401, 403, 407)


def json_texts(value: Any) -> str | None:
    """Complain about text that is no JSON object of texts."""
    complaint = json_object(value)
    if value is None or complaint is not None:
        return complaint
    fits = all(isinstance(one, str) for one in json.loads(getattr(value, "value", value)).values())
    return None if fits else 'must be a JSON object of texts: {"name": "text"}'


def web_address(value: Any) -> str | None:
    """Complain about what is no address of the web."""
    parts = urlsplit(str(value or ""))
    return None if parts.scheme in ("http", "https") and parts.hostname else "must begin with http:// or https://"


CONNECTION = ConfigDef(
    [
        text(
            "http.headers",
            'Headers of every request, as JSON: {"Accept": "application/json"}.',
            None,
            MEDIUM,
            json_texts,
        ),
        ConfigKey("http.secret.headers", Type.PASSWORD, None, MEDIUM, "More of them, kept secret.", json_texts),
        text(
            "http.auth.type",
            "none, basic (user, password) or bearer (token).",
            "none",
            MEDIUM,
            one_of("none", "basic", "bearer"),
        ),
        text("http.auth.user", "User of basic."),
        ConfigKey("http.auth.password", Type.PASSWORD, None, MEDIUM, "Password of basic."),
        ConfigKey("http.auth.token", Type.PASSWORD, None, MEDIUM, "Token of bearer."),
        number("http.connect.timeout.ms", "How long a connection is waited for, ms.", 10_000, 1),
        number("http.timeout.ms", "How long an answer is waited for, ms.", 30_000, 1),
        number(
            "http.retries.max",
            "Failures in a row (no answer, 408, 425, 429, 5xx) before the task fails.",
            10,
            0,
            MEDIUM,
        ),
        number(
            "http.retry.backoff.ms", "First wait after a failure, ms; doubled each time. Retry-After wins.", 1_000, 1
        ),
        number("http.retry.backoff.max.ms", "Longest such wait, ms.", 60_000, 1),
        text("http.proxy.url", "A proxy; those of the environment are not used.", None, LOW),
        text(
            "http.ssl.ca.location",
            "PEM file of certificates that sign the server's; not set: those of the system.",
            None,
            LOW,
        ),
    ]
)
URL = text("http.url", "Address.", REQUIRED, HIGH, web_address)


def auth_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong with the credentials: setting -> complaints."""
    wanted = {"basic": ("http.auth.user", "http.auth.password"), "bearer": ("http.auth.token",)}
    kind = config.get("http.auth.type") or "none"
    return {name: [f"is needed with http.auth.type={kind}"] for name in wanted.get(kind, ()) if not config.get(name)}


def shown(url: str) -> str:
    """Return an address without user, query and fragment."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def same_origin(one: str, other: str) -> bool:
    """Whether credentials for one address may be sent to the other."""
    first, second = urlsplit(one), urlsplit(other)
    return (first.scheme, first.hostname, first.port) == (second.scheme, second.hostname, second.port)


def http_client(values: Mapping[str, Any]) -> httpx.Client:
    """Return the client of parsed settings. Raises BadConfigError naming the setting."""
    if problems := auth_problems(values):
        raise BadConfigError(problems)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells whole addresses, which may hold keys
    headers: dict[str, str] = {}
    for name in ("http.headers", "http.secret.headers"):
        if values[name] is not None:
            headers |= json.loads(getattr(values[name], "value", values[name]))
    auth = None
    if values["http.auth.type"] == "basic":
        auth = httpx.BasicAuth(values["http.auth.user"], values["http.auth.password"].value)
    elif values["http.auth.type"] == "bearer":
        headers["Authorization"] = f"Bearer {values['http.auth.token'].value}"
    timeout = httpx.Timeout(values["http.timeout.ms"] / 1000, connect=values["http.connect.timeout.ms"] / 1000)
    return httpx.Client(
        headers=headers,
        auth=auth,
        timeout=timeout,
        proxy=values["http.proxy.url"],
        verify=_trust(values["http.ssl.ca.location"]),
        trust_env=False,
        follow_redirects=False,
    )


def _trust(location: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=location)
    except (OSError, ssl.SSLError) as error:
        raise BadConfigError({"http.ssl.ca.location": [f"cannot be read: {error}"]}) from error


class PassingFailure(Exception):
    """No answer, or one that says: later. ``retry_after_ms`` is the server's wish."""

    def __init__(self, why: str, retry_after_ms: int | None = None) -> None:
        super().__init__(why)
        self.retry_after_ms = retry_after_ms


class RefusedRequestError(ConnectError):
    """The server refuses this request; ``denied``: whatever is in it."""

    def __init__(self, why: str, status: int, *, denied: bool) -> None:
        super().__init__(why)
        self.status, self.denied = status, denied


def request(client: httpx.Client, method: str, url: str, now_s: float, **parts: Any) -> httpx.Response:
    """Return a good answer (2xx). Raises PassingFailure, RefusedRequestError."""
    what = f"{method} {shown(url)}"
    try:
        answer = client.request(method, url, **parts)
    except httpx.TransportError as error:
        raise PassingFailure(f"{what}: {type(error).__name__}: {error}") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise RefusedRequestError(f"{what}: {error}", 0, denied=False) from error
    status = answer.status_code
    if answer.is_success:
        return answer
    if status in _PASSING or status >= 500:
        raise PassingFailure(f"{what} is answered {status}", retry_after_ms(answer.headers.get("Retry-After"), now_s))
    raise RefusedRequestError(f"{what} is answered {status}: {answer.text[:200]}", status, denied=status in _DENIED)


def retry_after_ms(header: str | None, now_s: float) -> int | None:
    """Return the wait that a Retry-After header asks for, ms: seconds, or a date; None: none that can be read."""
    if header is None:
        return None
    if header.strip().isdigit():
        return int(header) * 1_000
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0, round((moment.timestamp() - now_s) * 1_000))


class Patience:
    """Counts failures in a row, and says how long to wait after each."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._most: int = values["http.retries.max"]
        self._first_ms: int = values["http.retry.backoff.ms"]
        self._longest_ms: int = values["http.retry.backoff.max.ms"]
        self.failures = 0

    def wait_ms(self, failure: PassingFailure) -> int:
        """Return how long to wait now. Raises ConnectError: there were too many."""
        self.failures += 1
        if self.failures > self._most:
            raise ConnectError(f"given up after {self.failures} failures in a row (http.retries.max): {failure}")
        if failure.retry_after_ms is not None:
            return failure.retry_after_ms
        return min(self._longest_ms, self._first_ms << min(self.failures - 1, 32))

    def succeeded(self) -> None:
        """Start counting failures from 0: a request succeeded."""
        self.failures = 0
