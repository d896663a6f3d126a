"""The common part of the HTTP source and sink: the client, its credentials, and the meaning of an answer's status.

No message and no log line holds a header, a query or credentials: addresses are shown without them.
"""

from __future__ import annotations

import json
import logging
import random
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.connectors.http.http_headers import retry_after_ms
from spark_connect_rt.connectors.http.http_oauth import (
    ClientCredentials,
    EndpointRefusedTokenError,
    EndpointTokenUnavailableError,
)
from spark_connect_rt.connectors.http.http_settings import OAUTH2, auth_problems
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, ExternalError

log = logging.getLogger(__name__)
_PASSING = (408, 425, 429)
_DENIED = (401, 403, 407)


def shown(url: str) -> str:
    """Return an address without user, query and fragment."""
    parts = urlsplit(url)  # not httpx.URL, which writes it another way: source partitions are made of this
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ":?"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def same_origin(address: str, other: str) -> bool:
    """Return whether credentials for one address may be sent to the other (RFC 6454 4): scheme, host and port agree.

    The default port of a scheme may be left out, and hosts have no case. An invalid address has no origin.
    """
    try:
        return _origin(address) == _origin(other)
    except httpx.InvalidURL:
        return False


def _origin(address: str) -> tuple[str, str, int | None]:
    url = httpx.URL(address)
    if url.scheme not in ("http", "https") or not url.host:
        raise httpx.InvalidURL("has no origin")
    return url.scheme, url.host.lower(), url.port


def page_address(address: str, following: str) -> str:
    """Return the whole address of the page that one at ``address`` names. Raises ConnectError: it is another server's.

    Call it for every such address, because it comes from an answer, or from an offset that a user may have altered, and
    the request holds the connector's credentials.
    """
    try:
        whole = str(httpx.URL(address).join(following))
    except httpx.InvalidURL as error:
        raise ConnectError(f"the next page {following!r:.80} is not a valid address: {error}") from error
    if not same_origin(whole, address):
        raise ConnectError(
            f"the next page {shown(whole)} is on another server than {shown(address)} and is not requested"
        )
    return whole


def http_client(values: Mapping[str, Any]) -> httpx.Client:
    """Return the client of parsed settings. Raises BadConfigError naming the setting."""
    if problems := auth_problems(values):
        raise BadConfigError(problems)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs whole addresses, which may hold keys
    headers: dict[str, str] = {}
    for name in ("http.headers", "http.secret.headers"):
        if values[name] is not None:
            headers |= json.loads(getattr(values[name], "value", values[name]))
    auth: httpx.Auth | None = None
    if values["http.auth.type"] == "basic":
        auth = httpx.BasicAuth(values["http.auth.user"], values["http.auth.password"].value)
    elif values["http.auth.type"] == "bearer":
        headers["Authorization"] = f"Bearer {values['http.auth.token'].value}"
    elif values["http.auth.type"] == OAUTH2:
        auth = ClientCredentials(values)
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
    """No answer, or one that asks for a later retry. ``retry_after_ms`` is the server's wish."""

    def __init__(self, why: str, retry_after_ms: int | None = None) -> None:
        super().__init__(why)
        self.retry_after_ms = retry_after_ms


class RefusedRequestError(ConnectError):
    """The server rejects this request. ``denied``: it would reject any other request as well."""

    def __init__(self, why: str, status: int, *, denied: bool) -> None:
        super().__init__(why)
        self.status, self.denied = status, denied


def request(client: httpx.Client, method: str, url: str, now_s: float, **parts: Any) -> httpx.Response:
    """Return a good answer (2xx). Raises PassingFailure, RefusedRequestError."""
    what = f"{method} {shown(url)}"
    try:
        answer = client.request(method, url, **parts)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise RefusedRequestError(f"{what}: {error}", 0, denied=False) from error
    except EndpointRefusedTokenError as error:
        raise RefusedRequestError(f"{what}: {error}", 401, denied=True) from error
    except EndpointTokenUnavailableError as error:
        raise PassingFailure(f"{what}: {error}", _wish_of(error.answer, now_s)) from error
    except httpx.RequestError as error:
        raise PassingFailure(f"{what}: {type(error).__name__}: {error}{_elsewhere(error, url)}") from error
    status = answer.status_code
    if answer.is_success:
        return answer
    if status in _PASSING or status >= 500:
        raise PassingFailure(f"{what} returns {status}", _wish_of(answer, now_s))
    raise RefusedRequestError(f"{what} returns {status}: {answer.text[:200]}", status, denied=status in _DENIED)


def _elsewhere(error: httpx.RequestError, url: str) -> str:
    """Return a remark that the token endpoint did not answer, empty if the address itself did not."""
    asked = str(error.request.url)
    return "" if same_origin(asked, url) else f" (of {shown(asked)})"


def _wish_of(answer: httpx.Response, now_s: float) -> int | None:
    """Return for how long a server asks to be left alone, ms; None: it does not ask, or not so that it can be read."""
    try:
        return retry_after_ms(answer.headers.get("Retry-After"), now_s)
    except DataError as error:
        log.warning("%s: waiting for http.retry.backoff.ms", error)
        return None


class Patience:
    """Counts failures in a row, and returns how long to wait after each."""

    def __init__(self, values: Mapping[str, Any], chance: Callable[[], float] = random.random) -> None:
        """``chance`` returns numbers from 0 to 1, by which the waits of many tasks are spread."""
        self._most: int = values["http.retries.max"]
        self._backoff = Backoff(values["http.retry.backoff.ms"], values["http.retry.backoff.max.ms"])
        self._chance = chance
        self._longest_wish_ms: int = values["http.retry.after.max.ms"]
        self.failures = 0

    def wait_ms(self, failure: PassingFailure) -> int:
        """Return how long to wait now. Raises ExternalError: there were too many; the next one begins a new count."""
        self.failures += 1
        if self.failures > self._most:
            failures, self.failures = self.failures, 0
            raise ExternalError(
                f"given up after {failures} failures in a row (http.retries.max): {failure}"
            ) from failure
        wish_ms = failure.retry_after_ms
        if wish_ms is None:
            return round(self._backoff.wait(self.failures, self._chance()))
        if wish_ms > self._longest_wish_ms:
            log.warning(
                "%s: Retry-After asks for a wait of %d ms, limited to http.retry.after.max.ms=%d",
                failure,
                wish_ms,
                self._longest_wish_ms,
            )
        return min(wish_ms, self._longest_wish_ms)

    def succeeded(self) -> None:
        """Start counting failures from 0: a request succeeded."""
        self.failures = 0
