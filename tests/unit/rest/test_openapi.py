"""The API's description: complete, and true of real answers; its page needs no internet."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from spark_connect_rt.app.rest.openapi import OPERATIONS
from spark_connect_rt.app.rest.rest_app import create_admin_app, create_app
from spark_connect_rt.config.connector_config import SOURCE
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DescribePlugin,
    Findings,
    ModifyOffsets,
    PatchConfig,
    PutConfig,
    ReadOffsets,
    RestartConnector,
    ValidateConfig,
    plugin_infos,
)
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorOffset, Health
from tests.unit.rest.conftest import Asked, ask
from tests.unit.rest.fake_herder import INFO, STATUS, FakeHerder
from tests.unit.rest.fake_management import EVERY_PART
from tests.unit.rest.test_around_the_api import basic, guard

INTERNAL = {("POST", "/connectors/{connector}/tasks"), ("PUT", "/connectors/{connector}/fence")}


@pytest.fixture(scope="module")
def document(application: FastAPI) -> dict[str, Any]:
    answer = ask(application, "GET", "/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for member in part:
            yield from references(member)
    elif isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for member in part.values():
            yield from references(member)


def described(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield (method.upper(), path), operation


def test_every_route_is_described_and_nothing_else(document: dict[str, Any]) -> None:
    found = dict(described(document))
    assert found.keys() == OPERATIONS.keys()
    assert not found.keys() & INTERNAL
    assert len({operation["operationId"] for operation in found.values()}) == len(found)
    assert all(operation["summary"].endswith((".", "``")) for operation in found.values())


def test_every_reference_leads_somewhere_and_every_shape_is_used(document: dict[str, Any]) -> None:
    used = {reference.removeprefix("#/components/schemas/") for reference in references(document)}
    assert used == document["components"]["schemas"].keys()


def test_every_operation_says_what_it_takes_and_answers(document: dict[str, Any]) -> None:
    for (method, path), operation in described(document):
        statuses = operation["responses"].keys()
        assert {"406", "415", "500"} <= statuses, (method, path)
        assert "default" not in statuses
        assert any(status.startswith("2") for status in statuses)
        in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        without_body = {status for status, answer in operation["responses"].items() if "content" not in answer}
        assert without_body <= {"202", "204"}, (method, path)


def test_the_other_listener_describes_its_own_part() -> None:
    document = ask(create_admin_app(FakeHerder(), management=EVERY_PART), "GET", "/openapi.json").json()
    assert {path for _, path in dict(described(document))} == {path for _, path in OPERATIONS if "/admin/" in path}
    assert "NewConnector" not in document["components"]["schemas"]


TRUE_ANSWERS = [
    ("GET", "/", None),
    ("GET", "/health", None),
    ("GET", "/connectors", None),
    ("GET", "/connectors?expand=status&expand=info", None),
    ("GET", "/connectors?expand=status", None),
    ("POST", "/connectors", b'{"name":"src","config":{"connector.class":"x"}}'),
    ("GET", "/connectors/src", None),
    ("GET", "/connectors/none", None),
    ("GET", "/connectors/src/config", None),
    ("PUT", "/connectors/src/config", b"{}"),
    ("PATCH", "/connectors/src/config", b'{"a":null}'),
    ("GET", "/connectors/src/status", None),
    ("GET", "/connectors/src/topics", None),
    ("PUT", "/connectors/src/topics/reset", None),
    ("GET", "/connectors/src/offsets", None),
    ("PATCH", "/connectors/src/offsets", b'{"offsets":[{"partition":{"f":"x"},"offset":null}]}'),
    ("DELETE", "/connectors/src/offsets", None),
    ("POST", "/connectors/src/restart", None),
    ("POST", "/connectors/src/restart?includeTasks=true", None),
    ("GET", "/connectors/src/tasks", None),
    ("GET", "/connectors/src/tasks/0/status", None),
    ("GET", "/connectors/src/tasks/9/status", None),
    ("DELETE", "/connectors/src", None),
    ("GET", "/connector-plugins?connectorsOnly=false", None),
    ("GET", "/connector-plugins/FileStreamSource/config", None),
    ("PUT", "/connector-plugins/FileStreamSource/config/validate", b'{"connector.class":"FileStreamSource"}'),
    ("PUT", "/connector-plugins/FileStreamSource/config/validate", b'{"connector.class":"Other"}'),
    ("PUT", "/admin/connector-plugins/FileStreamSource/config/validate", b'{"connector.class":"FileStreamSource"}'),
    ("PUT", "/admin/connector-plugins/FileStreamSource/config/validate", b'{"connector.class":"Other"}'),
    ("GET", "/admin/loggers", None),
    ("GET", "/admin/loggers/root", None),
    ("PUT", "/admin/loggers/org.x", b'{"level":"DEBUG"}'),
    ("PUT", "/admin/loggers/org.x?scope=cluster", b'{"level":"DEBUG"}'),
    ("PUT", "/admin/loggers/org.x", b"{}"),
    ("GET", "/admin/story", None),
    ("GET", "/admin/progress", None),
    ("GET", "/admin/plugins", None),
    ("POST", "/admin/preview", b'{"name":"src"}'),
    ("POST", "/admin/check", b'{"name":"src"}'),
    ("POST", "/admin/check", b"{}"),
    ("POST", "/admin/preview", b'{"nam":"src"}'),
    ("GET", "/admin/events", None),
    ("GET", "/admin/events?limit=x", None),
]


@pytest.mark.parametrize(("method", "path", "body"), TRUE_ANSWERS)
def test_the_description_is_true(
    rest: Asked, herder: FakeHerder, document: dict[str, Any], method: str, path: str, body: bytes | None
) -> None:
    """The parsed answer is what the description says of its status, field for field."""
    herder.answers |= {
        CreateConnector: ConfigWritten(True, INFO),
        PutConfig: ConfigWritten(False, INFO),
        PatchConfig: ConfigWritten(False, INFO),
        ReadOffsets: [ConnectorOffset({"filename": "x"}, {"position": 3})],
        ModifyOffsets: "done",
        DescribePlugin: list(SOURCE),
        ValidateConfig: plugin_infos("a", list(SOURCE), Findings(SOURCE.validate({"tasks.max": "x"}))),
        RestartConnector: STATUS if "includeTasks" in path else None,
    }
    answer = rest(method, path, body)
    operation = operation_at(document, method, path)
    declared = operation["responses"][str(answer.status_code)]
    if "content" not in declared:
        assert answer.content == b""
    elif answer.content:
        assert_described(document, declared, answer)
    else:
        assert answer.status_code in (202, 204)


def test_a_validation_for_a_form_is_javas_with_the_choices_of_each_setting(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[ValidateConfig] = plugin_infos("a", list(SOURCE), Findings(SOURCE.validate({"tasks.max": "x"})))
    path, body = "/connector-plugins/a/config/validate", b'{"connector.class":"a"}'
    java, ours = rest("PUT", path, body).json(), rest("PUT", f"/admin{path}", body).json()
    choices = {setting["definition"]["name"]: setting.pop("choices") for setting in ours["configs"]}
    assert ours == java
    assert (choices["errors.tolerance"], choices["name"]) == (["none", "all"], [])


def assert_described(document: dict[str, Any], declared: dict[str, Any], answer: httpx.Response) -> None:
    """The parsed body is what the description says of the response, and has none but the described fields."""
    schema = {**declared["content"]["application/json"]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(answer.json())


def operation_at(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    plain = path.partition("?")[0]
    for (its_method, its_path), operation in described(document):
        if its_method == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", its_path), plain):
            return operation
    raise AssertionError(f"{method} {path} is not described")


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (NotFoundError("Connector src not found"), b"{}"),
        (BadConfigError({"topic": ["Missing"]}), b"{}"),
        (RuntimeError("a bug"), b"{}"),
        (None, b"{"),
    ],
)
def test_refusals_have_the_described_shape(
    rest: Asked, herder: FakeHerder, document: dict[str, Any], error: Exception | None, body: bytes
) -> None:
    herder.answers[PutConfig] = error
    answer = rest("PUT", "/connectors/src/config", body)
    responses = operation_at(document, "PUT", "/connectors/src/config")["responses"]
    assert_described(document, responses[str(answer.status_code)], answer)
    assert answer.json()["error_code"] == answer.status_code
    assert answer.json()["code"].startswith("CRT-")


@pytest.mark.parametrize("state", ["starting", "unhealthy"])
def test_health_has_one_shape_whatever_it_says(
    rest: Asked, herder: FakeHerder, document: dict[str, Any], state: str
) -> None:
    herder.state = Health(state, "it waits")
    answer = rest("GET", "/health")
    responses = operation_at(document, "GET", "/health")["responses"]
    assert_described(document, responses[str(answer.status_code)], answer)
    assert answer.json()["status"] == state


def test_the_page_and_all_it_loads_come_from_this_worker(rest: Asked) -> None:
    page = rest("GET", "/docs", Accept="text/html")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)["']""", page.text)
    assert "/openapi.json" in loaded
    for path in loaded:
        assert path.startswith("/"), f"{path} is elsewhere"
        assert rest("GET", path, Accept="*/*").status_code == 200, path
    script = rest("GET", "/docs/swagger-ui-bundle.js", Accept="*/*")
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.content) > 500_000
    assert rest("GET", "/docs/openapi.py").status_code == 404
    assert rest("POST", "/docs").headers["allow"] == "GET,HEAD,OPTIONS"


def test_a_worker_without_the_extra_says_what_the_page_needs(rest: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi_offline" else found(name))
    for path in ("/docs", "/docs/swagger-ui.css"):
        answer = rest("GET", path, Accept="*/*")
        assert answer.status_code == 404
        assert "pip install 'spark-connect-rt[quickstart]'" in answer.json()["message"]


def test_the_page_is_behind_a_login_as_everything_else(tmp_path: Path) -> None:
    herder = FakeHerder()
    app = guard(tmp_path, "ann=secret\n").wrap(create_app(herder), herder)
    for path in ("/docs", "/docs/swagger-ui.css", "/openapi.json"):
        assert ask(app, "GET", path).status_code == 401
        assert ask(app, "GET", path, **basic("ann", "secret")).status_code == 200
