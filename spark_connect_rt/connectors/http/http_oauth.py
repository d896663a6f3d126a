"""OAuth2 client credentials (RFC 6749 4.4) for requests of the HTTP connectors, as an ``httpx.Auth``.

Tokens are fetched by the connector's own client, so by its proxy, certificates and timeouts. One is used until four
fifths of its life have passed, and replaced once when the service answers 401 to it. Messages show no token, no secret.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

import httpx

from spark_connect_rt.base.security.oauth import REFRESH_AT, basic_credentials, oauth_error

BASIC, POST = "basic", "post"


class EndpointRefusedTokenError(Exception):
    """The token endpoint knows the client and refuses a token."""


class EndpointTokenUnavailableError(Exception):
    """No token now: the endpoint is unavailable or its answer has none. ``answer``: its answer."""

    def __init__(self, why: str, answer: httpx.Response) -> None:
        super().__init__(why)
        self.answer = answer


class ClientCredentials(httpx.Auth):
    """Puts a bearer token into each request of a client. One thread."""

    requires_response_body = True  # a token's answer is read here

    def __init__(self, values: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        """Take the parsed settings ``http.oauth.*``; nothing is requested yet."""
        self._endpoint: str = values["http.oauth.token.url"]
        self._id: str = values["http.oauth.client.id"]
        self._secret: str = values["http.oauth.client.secret"].value
        self._in_body = values["http.oauth.client.auth"] == POST
        asked = {"scope": values["http.oauth.scope"], "audience": values["http.oauth.audience"]}
        self._form = {"grant_type": "client_credentials", **{name: value for name, value in asked.items() if value}}
        self._clock = clock
        self._token = ""
        self._renew_s = 0.0

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See httpx.Auth. Raises EndpointRefusedTokenError, EndpointTokenUnavailableError."""
        fresh = not self._token or self._clock() >= self._renew_s
        if fresh:
            self._take(self._clock(), (yield self._token_request()))
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and not fresh:  # it ended early: revoked, or clocks differ
            self._take(self._clock(), (yield self._token_request()))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _token_request(self) -> httpx.Request:
        headers = {"Accept": "application/json", "Cache-Control": "no-cache"}
        form = self._form
        if self._in_body:
            form = {**form, "client_id": self._id, "client_secret": self._secret}
        else:
            headers["Authorization"] = basic_credentials(self._id, self._secret, encode=True)
        return httpx.Request("POST", self._endpoint, data=form, headers=headers)

    def _take(self, asked_s: float, answer: httpx.Response) -> None:
        self._token = ""
        status = answer.status_code
        if status != httpx.codes.OK:
            problem = f"the token endpoint {_shown(answer)} answered {status} {oauth_error(answer)}".rstrip()
            if status < 500 and status not in (408, 425, 429):
                raise EndpointRefusedTokenError(f"{problem}. Check http.oauth.*")
            raise EndpointTokenUnavailableError(problem, answer)
        try:
            granted = answer.json()
            token, kind = str(granted["access_token"]), str(granted.get("token_type") or "bearer")
            life_s = float(granted["expires_in"]) if granted.get("expires_in") is not None else float("inf")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"the token endpoint {_shown(answer)} answered without an access_token"
            raise EndpointTokenUnavailableError(problem, answer) from error
        if kind.lower() != "bearer":
            raise EndpointRefusedTokenError(
                f"the token endpoint {_shown(answer)} returns tokens of type {kind}, not bearer"
            )
        self._token, self._renew_s = token, asked_s + life_s * REFRESH_AT


def _shown(answer: httpx.Response) -> str:
    url = answer.request.url
    return f"{url.scheme}://{url.netloc.decode()}{url.path}"
