"""What stands around the resources: other origins, added headers, basic auth, extensions of users."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.api.rest_extension import ConnectRestExtension
from spark_connect_rt.app.rest.rest_app import create_admin_app, create_app
from spark_connect_rt.base.security.jaas import parse_jaas
from spark_connect_rt.config.worker_config import parse_header_rules, valid_header_rules
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.rest.basic_auth import LOGIN_FILE, MODULE, BasicAuthSecurityRestExtension
from spark_connect_rt.rest.client_identity import who
from spark_connect_rt.rest.middleware import CrossOrigin, ResponseHeaders
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder

PREFLIGHT = {"Origin": "http://good.example", "Access-Control-Request-Method": "POST"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def guard(folder: Path, users: str, extra: str = "") -> BasicAuthSecurityRestExtension:
    (folder / "users").write_text(users)
    login = folder / "login.conf"
    login.write_text(f'KafkaConnect {{\n  {MODULE} required file="{folder / "users"}";\n{extra}}};\n')
    extension = BasicAuthSecurityRestExtension()
    extension.configure({LOGIN_FILE: str(login)})
    return extension


def test_an_allowed_origin_is_echoed_and_a_preflight_lists_methods() -> None:
    app = CrossOrigin(create_app(FakeHerder()), ["http://good.example", "https://.*[.]example"], ["GET", "PUT"])
    plain = ask(app, "GET", "/connectors", Origin="http://good.example")
    assert plain.headers["access-control-allow-origin"] == "http://good.example"
    assert "access-control-allow-methods" not in plain.headers
    assert ask(app, "GET", "/connectors", Origin="https://sub.example").headers["access-control-allow-origin"]
    preflight = ask(app, "OPTIONS", "/connectors", **PREFLIGHT)
    assert preflight.status_code == 200
    assert preflight.headers["content-type"] == "text/plain"  # as Java: no charset
    assert preflight.headers["access-control-allow-methods"] == "GET,PUT"
    assert preflight.headers["access-control-allow-headers"] == "Content-Type"


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Origin": "http://good.example.evil"}])
def test_other_origins_get_no_header_but_the_answer(headers: Mapping[str, str]) -> None:
    app = CrossOrigin(create_app(FakeHerder()), ["http://good.example"], [])
    answer = ask(app, "GET", "/connectors", **headers)
    assert answer.status_code == 200
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-origin" not in answer.headers


def test_headers_are_added_to_every_answer_and_dates_are_from_now() -> None:
    rules = parse_header_rules(
        'add X-A: 1, add X-A: 2, "set X-B: a, b", setDate X-Date: 1000, set X-B: c, set Content-Type: x'
    )
    app = ResponseHeaders(create_app(FakeHerder()), rules, lambda: 0)
    for path in ("/connectors", "/nope"):
        answer = ask(app, "GET", path)
        assert answer.headers.get_list("x-a") == ["1", "2"]
        assert answer.headers["x-b"] == "c"
        assert answer.headers["x-date"] == "Thu, 01 Jan 1970 00:00:01 GMT"
    assert ask(app, "GET", "/connectors").headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("add", "Invalid format of header config 'add'"),
        ("put X: 1", "Invalid header config action: 'put'"),
        ("add X", "Invalid format of header"),
        ("add X Y: 1", "Invalid format of header"),
        ("addDate X: soon", "not a valid number of milliseconds"),
    ],
)
def test_a_bad_header_rule_is_named(text: str, why: str) -> None:
    assert why in str(valid_header_rules(text))
    assert valid_header_rules(None) is None


def test_only_known_users_come_in_and_workers_among_themselves(tmp_path: Path) -> None:
    app = guard(tmp_path, "ann=secret\nb\\u00f6b = p:w\n").wrap(create_app(FakeHerder()), FakeHerder())
    assert ask(app, "GET", "/connectors", **basic("ann", "secret")).status_code == 200
    assert ask(app, "GET", "/connectors", **basic("böb", "p:w")).status_code == 200
    refused: list[dict[str, str]] = [
        {},
        basic("ann", "wrong"),
        basic("nobody", ""),
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"ann").decode()},
    ]
    for headers in refused:
        answer = ask(app, "GET", "/connectors", **headers)
        assert (answer.status_code, answer.content) == (401, b"User cannot access the resource.")
        assert "www-authenticate" not in answer.headers
    for path in (
        "/",
        "/health",
        "/admin/story",
        "/connectors/a/tasks",
        "/openapi.json",
        "/nope",
        "/connectors/a%2Ftasks",
    ):
        assert ask(app, "GET", path).status_code == 401, path
    for method, path in (
        ("POST", "/connectors/a/tasks"),
        ("POST", "/connectors/a%2Fb/tasks/"),
        ("PUT", "/connectors/a/fence"),
    ):
        assert ask(app, method, path, b"[]").status_code != 401, path


def test_logged_in_user_is_known_only_where_a_password_was_compared(tmp_path: Path) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(who(Request(scope)).partition("@")[0])
        await Response()(scope, receive, send)

    ask(guard(tmp_path, "b\\u00f6b = p:w\n").wrap(app, FakeHerder()), "GET", "/", **basic("böb", "p:w"))
    ask(guard(tmp_path, "").wrap(app, FakeHerder()), "GET", "/", **basic("root", "x"))
    assert (seen[0], "root" in seen[1]) == ("böb", False)


def test_several_modules_must_all_know_the_user_and_an_empty_file_knows_all(tmp_path: Path) -> None:
    (tmp_path / "others").write_text("ann=other\n")
    two = guard(tmp_path, "ann=secret\n", f'  {MODULE} required file="{tmp_path / "others"}";\n')
    assert (
        ask(two.wrap(create_app(FakeHerder()), FakeHerder()), "GET", "/", **basic("ann", "secret")).status_code == 401
    )
    nobody = guard(tmp_path, "")
    app = nobody.wrap(create_app(FakeHerder()), FakeHerder())
    assert ask(app, "GET", "/", **basic("any", "body")).status_code == 200
    assert ask(app, "GET", "/").status_code == 401


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (None, "needs a login file"),
        ("KafkaClient { a.B required; };", "has no entry KafkaConnect"),
        ("KafkaConnect { com.example.Ldap required; };", "cannot load the Java login module com.example.Ldap"),
        (f"KafkaConnect {{ {MODULE} required; }};", 'has no file option. Add file="..."'),
        (f'KafkaConnect {{ {MODULE} required file="no/such"; }};', "users file no/such cannot be read"),
        ("KafkaConnect {", "cannot be read: expected"),
    ],
)
def test_a_login_file_that_protects_nothing_stops_the_worker(tmp_path: Path, login: str | None, why: str) -> None:
    if login is not None:
        (tmp_path / "login").write_text(login)
    with pytest.raises(BadConfigError, match=why.replace("(", r"\(")):
        BasicAuthSecurityRestExtension().configure({LOGIN_FILE: str(tmp_path / "login") if login else ""})


def test_a_login_file_is_read_as_java_reads_it() -> None:
    text = """
    /* users */
    KafkaConnect { a.B Required debug=true file="/a \\"b\\".properties"; // one
      c.D optional; };
    Other { };
    """
    entries = parse_jaas(text)
    assert [(login.name, login.flag) for login in entries["KafkaConnect"]] == [
        ("a.B", "required"),
        ("c.D", "optional"),
    ]
    assert entries["KafkaConnect"][0].options == {"debug": "true", "file": '/a "b".properties'}
    assert entries["Other"] == []
    for bad in ("A", "A {", "A { b }", "A { b maybe; };", "A { b required x; };", "A { b required x=; };", 'A { "'):
        with pytest.raises(ValueError, match=r"."):
            parse_jaas(bad)


def test_admin_may_be_elsewhere_or_nowhere() -> None:
    report: Any = lambda: {"plugins": [], "broken": [{"name": "x"}]}  # noqa: E731
    without = create_app(FakeHerder(), with_admin=False)
    assert ask(without, "GET", "/admin/story").status_code == 404
    admin = create_admin_app(FakeHerder(), report)
    assert ask(admin, "GET", "/admin/plugins").json()["broken"] == [{"name": "x"}]
    assert ask(admin, "GET", "/admin/story").status_code == 200
    for path in ("/", "/health", "/connectors"):
        assert ask(admin, "GET", path).status_code == 404
    assert ask(create_app(FakeHerder(), plugins=report), "GET", "/admin/plugins").json()["plugins"] == []


class Hello(ConnectRestExtension):
    """A user's extension: a header on every answer and a path of its own."""

    closed = 0

    def configure(self, config: Mapping[str, str]) -> None:
        self.greeting = config["hello.greeting"]

    def wrap(self, app: Any, cluster: Any) -> Any:
        async def greeting(scope: Any, receive: Any, send: Any) -> None:
            async def marked(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (b"x-greeting", self.greeting.encode())]
                await send(message)

            await app(scope, receive, marked)

        return greeting

    def routes(self, cluster: Any) -> Any:
        async def hello(scope: Any, receive: Any, send: Any) -> None:
            body = ",".join(cluster.list_connectors()).encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})

        return [("GET", "/hello", hello)]

    def close(self) -> None:
        Hello.closed += 1
