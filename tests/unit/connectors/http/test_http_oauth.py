"""OAuth2 client credentials of the HTTP connectors: what the token endpoint is asked, when, and what a 401 means."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from spark_connect_rt.connectors.http import http_connection
from spark_connect_rt.connectors.http.http_connection import PassingFailure, RefusedRequestError, request
from spark_connect_rt.connectors.http.http_oauth import ClientCredentials
from spark_connect_rt.connectors.http.http_settings import CONNECTION, auth_problems
from spark_connect_rt.errors import BadConfigError

TOKENS = "https://login.test/token"
CONFIG = {
    "http.auth.type": "oauth2",
    "http.oauth.token.url": TOKENS,
    "http.oauth.client.id": "the id",
    "http.oauth.client.secret": "s3cret/",
}


class Services:
    """The API and its token endpoint. Tokens are t1, t2, ...; ``revoked`` ones are answered 401."""

    def __init__(self) -> None:
        self.granted: dict[str, Any] = {"token_type": "Bearer", "expires_in": 100}
        self.forms: list[dict[str, list[str]]] = []
        self.logins: list[str | None] = []
        self.seen: list[str | None] = []
        self.revoked: set[str] = set()
        self.token_answers: list[httpx.Response] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if str(request.url) == TOKENS:
            self.forms.append(parse_qs(request.content.decode()))
            self.logins.append(request.headers.get("Authorization"))
            if self.token_answers:
                return self.token_answers.pop(0)
            return httpx.Response(200, json={"access_token": f"t{len(self.forms)}", **self.granted})
        self.seen.append(request.headers.get("Authorization"))
        return httpx.Response(401 if str(self.seen[-1]).removeprefix("Bearer ") in self.revoked else 200)


def client(services: Services, now: list[float] | None = None, **more: str) -> httpx.Client:
    values = CONNECTION.parse({**CONFIG, **{name.replace("_", "."): value for name, value in more.items()}})
    auth = ClientCredentials(values, lambda: (now or [0.0])[0])
    return httpx.Client(auth=auth, transport=httpx.MockTransport(services))


def ask(of: httpx.Client) -> httpx.Response:
    return request(of, "GET", "http://api.test/rows", 0.0)


def test_a_token_is_asked_for_once_and_renewed_before_it_ends() -> None:
    services, now = Services(), [0.0]
    with client(services, now) as session:
        for now[0] in (0.0, 50.0, 79.0, 80.0, 100.0):
            ask(session)
    assert services.seen == ["Bearer t1"] * 3 + ["Bearer t2"] * 2


def test_a_token_without_an_end_is_kept() -> None:
    services, now = Services(), [0.0]
    services.granted = {}
    with client(services, now) as session:
        for now[0] in (0.0, 1e9):
            ask(session)
    assert services.seen == ["Bearer t1"] * 2


def test_a_401_renews_the_token_once() -> None:
    services = Services()
    with client(services) as session:
        ask(session)
        services.revoked = {"t1"}
        assert ask(session).status_code == 200
        services.revoked = {"t2", "t3"}
        with pytest.raises(RefusedRequestError) as refused:
            ask(session)
        assert refused.value.denied
    assert services.seen == [f"Bearer t{number}" for number in (1, 1, 2, 2, 3)]


def test_a_first_token_that_is_refused_is_not_asked_for_again() -> None:
    services = Services()
    services.revoked = {"t1"}
    with client(services) as session, pytest.raises(RefusedRequestError):
        ask(session)
    assert len(services.forms) == 1


def test_the_secret_goes_in_a_header_or_in_the_form() -> None:
    services = Services()
    with client(services, http_oauth_scope="read write", http_oauth_audience="https://api.test") as session:
        ask(session)
    with client(services, http_oauth_client_auth="post") as session:
        ask(session)
    basic, post = services.forms
    assert basic == {
        "grant_type": ["client_credentials"],
        "scope": ["read write"],
        "audience": ["https://api.test"],
    }
    assert services.logins == ["Basic " + base64.b64encode(b"the+id:s3cret%2F").decode(), None]
    assert post == {"grant_type": ["client_credentials"], "client_id": ["the id"], "client_secret": ["s3cret/"]}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(400, json={"error": "invalid_scope"}), RefusedRequestError),
        (httpx.Response(401), RefusedRequestError),
        (httpx.Response(307, headers={"Location": "/"}), RefusedRequestError),
        (httpx.Response(200, json={"access_token": "x", "token_type": "mac"}), RefusedRequestError),
        (httpx.Response(503, headers={"Retry-After": "3"}), PassingFailure),
        (httpx.Response(429), PassingFailure),
        (httpx.Response(200, text="<html>"), PassingFailure),
        (httpx.Response(200, json=["x"]), PassingFailure),
    ],
)
def test_a_token_endpoint_that_gives_none(answer: httpx.Response, error: type[Exception]) -> None:
    services = Services()
    services.token_answers = [answer]
    with client(services) as session:
        with pytest.raises(error, match=r"login\.test/token") as failed:
            ask(session)
        assert "s3cret" not in str(failed.value)
        assert services.seen == []
        if isinstance(failed.value, RefusedRequestError):
            assert failed.value.denied
        elif answer.status_code == 503:
            assert failed.value.retry_after_ms == 3_000  # type: ignore[attr-defined]
        assert ask(session).status_code == 200, "the next request asks again"


def test_a_token_endpoint_that_does_not_answer_is_named() -> None:
    def answer(asked: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens", request=asked)

    auth = ClientCredentials(CONNECTION.parse(CONFIG))
    named = r"GET http://api\.test/rows.*of https://login\.test/token"
    with (
        httpx.Client(auth=auth, transport=httpx.MockTransport(answer)) as session,
        pytest.raises(PassingFailure, match=named),
    ):
        ask(session)


def test_oauth2_requires_url_id_and_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert auth_problems(CONFIG) == {}
    for name in ("http.oauth.token.url", "http.oauth.client.id", "http.oauth.client.secret"):
        assert set(auth_problems({key: value for key, value in CONFIG.items() if key != name})) == {name}
    with pytest.raises(BadConfigError, match=r"http\.oauth\.token\.url"):
        CONNECTION.parse({**CONFIG, "http.oauth.token.url": "login"})
    monkeypatch.setattr(http_connection, "_trust", lambda location: False)
    with http_connection.http_client(CONNECTION.parse(CONFIG)) as made:
        assert isinstance(made.auth, ClientCredentials)
