from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    ConnectError,
    NotFoundError,
    RebalanceInProgressError,
    RetriableError,
    ShuttingDownError,
    TimedOutError,
)
from spark_connect_rt.group.peers import sign
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DeleteConnector,
    FenceZombies,
    PatchConfig,
    PutConfig,
    PutTaskConfigs,
    Request,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from spark_connect_rt.runtime.values import (
    ConfigWritten,
    ConnectorInfo,
    ConnectorStateInfo,
    Health,
    InstanceState,
    InternalKey,
    TaskState,
)
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.rest.conftest import Asked
from tests.unit.rest.fake_herder import CONFIG, INFO, FakeHerder

CREATE = b'{"name":"src","config":{"connector.class":"FileStreamSource","tasks.max":1}}'


def created(name: str = "src") -> ConfigWritten:
    return ConfigWritten(True, ConnectorInfo(name, CONFIG, (), "source"))


def test_create(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[CreateConnector] = created()
    answer = rest("POST", "/connectors", CREATE)
    assert answer.status_code == 201
    assert answer.headers["location"] == "http://h:8083/connectors/src"
    assert answer.text == (
        '{"name":"src","config":{"connector.class":"FileStreamSource","tasks.max":"1","file":"in.txt",'
        '"topic":"lines","name":"src"},"tasks":[],"type":"source"}'
    )
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "name": "src"}
    assert herder.requests == [CreateConnector("src", config, None)]
    assert list(herder.requests[0].config) == list(config)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/vnd.api+json", "*/*", ""]
)
def test_cross_site_content_types_are_refused(rest: Asked, herder: FakeHerder, content_type: str) -> None:
    for method, path, body in (
        ("POST", "/connectors", CREATE),
        ("PUT", "/connectors/src/config", b"{}"),
        ("POST", "/connectors/src/restart", b""),
        ("POST", "/connectors/src/tasks", b"[]"),
    ):
        answer = rest(method, path, body, Content_Type=content_type)
        assert answer.status_code == 415
        assert answer.text == '{"error_code":415,"message":"HTTP 415 Unsupported Media Type"}'
    assert herder.requests == []


def test_a_charset_is_accepted_and_steering_needs_no_type(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[CreateConnector] = created()
    assert rest("POST", "/connectors", CREATE, Content_Type="application/json; charset=utf-8").status_code == 201
    assert rest("PUT", "/connectors/src/pause").status_code == 202


def test_the_location_is_encoded(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[CreateConnector] = created("odd name/ü:1")
    answer = rest("POST", "/connectors", CREATE)
    assert answer.headers["location"] == "http://h:8083/connectors/odd%20name%2F%C3%BC:1"


@pytest.mark.parametrize(
    ("text", "state"),
    [("STOPPED", TargetState.STOPPED), ("paused", TargetState.PAUSED), ("Running", TargetState.STARTED)],
)
def test_create_in_a_state(rest: Asked, herder: FakeHerder, text: str, state: TargetState) -> None:
    herder.answers[CreateConnector] = created()
    body = json.dumps({"name": " src ", "config": {}, "initial_state": text}).encode()
    assert rest("POST", "/connectors", body).status_code == 201
    assert herder.requests == [CreateConnector("src", {"name": "src"}, state)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "is not JSON"),
        (b"", "is empty"),
        (b"null", "is empty"),
        (b"[]", "from Array value (token `JsonToken.START_ARRAY`)"),
        (b'{"name":"a","config":{},"colour":"red"}', 'Unrecognized field "colour"'),
        (b'{"name":"a"}', "no 'config'"),
        (b'{"name":"a","config":null}', "no 'config'"),
        (b'{"name":"a","config":[]}', "`Map` from Array"),
        (b'{"name":{},"config":{}}', "`String` from Object"),
        (b'{"name":"a","config":{"x":[1]}}', "`String` from Array"),
        (b'{"name":"a","config":{},"initial_state":"ASLEEP"}', "ASLEEP"),
        (b'{"name":"\\ud800","config":{}}', "UTF-8"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_body_that_cannot_be_read_is_500_as_in_java(rest: Asked, herder: FakeHerder, body: bytes, words: str) -> None:
    answer = rest("POST", "/connectors", body)
    assert answer.status_code == 500
    assert words in answer.json()["message"]
    assert answer.json()["code"] == "CRT-1032"
    assert herder.requests == []


def test_a_name_inside_that_differs_is_400(rest: Asked) -> None:
    message = "Connector name configuration (b) doesn't match connector name in the URL (a)"
    for answer in (
        rest("POST", "/connectors", b'{"name":"a","config":{"name":"b"}}'),
        rest("PUT", "/connectors/a/config", b'{"name":"b"}'),
    ):
        assert (answer.status_code, answer.json()["message"]) == (400, message)


def test_a_null_setting_is_refused(rest: Asked) -> None:
    answer = rest("PUT", "/connectors/a/config", b'{"x":null,"y":true,"z":1.50}')
    assert answer.status_code == 400
    assert answer.json()["problems"] == {"x": ["Null value can not be supplied as the configuration value."]}


def test_scalars_become_text_as_they_were_written(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[PutConfig] = ConfigWritten(False, INFO)
    assert rest("PUT", "/connectors/a/config", b'{"t":true,"f":1.50,"n":12345678901234567890}').status_code == 200
    config = {"t": "true", "f": "1.50", "n": "12345678901234567890", "name": "a"}
    assert herder.requests == [PutConfig("a", config)]


def test_put_config_creates_or_replaces(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[PutConfig] = created()
    answer = rest("PUT", "/connectors/src/config", b"{}")
    assert answer.status_code == 201
    assert answer.headers["location"] == "http://h:8083/connectors/src"
    herder.answers[PutConfig] = ConfigWritten(False, INFO)
    answer = rest("PUT", "/connectors/src/config", b"{}")
    assert answer.status_code == 200
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "wanted"),
    [
        ("DELETE", "/connectors/src", 204, DeleteConnector("src")),
        ("PUT", "/connectors/src/pause", 202, SetTargetState("src", TargetState.PAUSED)),
        ("PUT", "/connectors/src/resume", 202, SetTargetState("src", TargetState.STARTED)),
        ("PUT", "/connectors/src/stop", 204, SetTargetState("src", TargetState.STOPPED)),
        ("POST", "/connectors/src/restart", 204, RestartConnector("src")),
        ("POST", "/connectors/src/restart?onlyFailed=no", 204, RestartConnector("src")),
        ("POST", "/connectors/src/tasks/0/restart", 204, RestartTask(ConnectorTaskId("src", 0))),
        ("POST", "/connectors/src/tasks", 204, PutTaskConfigs("src", [{"a": "1"}])),
        ("PUT", "/connectors/src/fence", 204, FenceZombies("src")),
    ],
)
def test_writes_without_a_body_in_the_answer(
    rest: Asked, herder: FakeHerder, method: str, path: str, status: int, wanted: Request[Any]
) -> None:
    body = b'[{"a":"1"}]' if path.endswith("/tasks") else None
    answer = rest(method, path, body)
    assert (answer.status_code, answer.content) == (status, b"")
    assert "content-type" not in answer.headers
    assert herder.requests == [wanted]


def test_restart_with_flags_answers_the_plan(rest: Asked, herder: FakeHerder) -> None:
    restarting = InstanceState("RESTARTING", "h:8083")
    task = TaskState(0, "RESTARTING", "h:8083")
    herder.answers[RestartConnector] = ConnectorStateInfo("src", restarting, (task,), "sink")
    answer = rest("POST", "/connectors/src/restart?includeTasks=TRUE&onlyFailed=true")
    assert answer.status_code == 202
    assert answer.text == (
        '{"name":"src","connector":{"state":"RESTARTING","worker_id":"h:8083"},'
        '"tasks":[{"id":0,"state":"RESTARTING","worker_id":"h:8083"}],"type":"sink"}'
    )
    assert herder.requests == [RestartConnector("src", True, True)]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (NotFoundError("Connector src not found"), 404, "Connector src not found"),
        (AlreadyExistsError("Connector src already exists"), 409, "Connector src already exists"),
        (BadRequestError("no"), 400, "no"),
        (
            RebalanceInProgressError("busy"),
            409,
            "Cannot complete request momentarily due to stale configuration "
            "(typically caused by a concurrent config change)",
        ),
        (ShuttingDownError("Worker is shutting down"), 500, "Worker is shutting down"),
        (TimedOutError("Request timed out. x"), 500, "Request timed out. x"),
        (RetriableError("broker"), 500, "broker"),
        (ConnectError("whatever"), 500, "whatever"),
        (ValueError("a bug"), 500, "a bug"),
    ],
)
def test_refusals(rest: Asked, herder: FakeHerder, error: Exception, status: int, message: str) -> None:
    herder.answers[DeleteConnector] = error
    answer = rest("DELETE", "/connectors/src")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body)[:3] == ["error_code", "message", "code"]
    assert (body["error_code"], body["message"]) == (status, message)
    assert body["code"].startswith("CRT-")


def test_every_problem_of_a_configuration_is_listed(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[CreateConnector] = BadConfigError(
        {
            "tasks.max": [
                "Invalid value x for configuration tasks.max: Not a number of type INT",
                "Invalid value null for configuration tasks.max: Value must be non-null",
            ],
            "topic": ['Missing required configuration "topic" which has no default value.'],
        }
    )
    answer = rest("POST", "/connectors", CREATE)
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        "Connector configuration is invalid and contains the following 3 error(s):\n"
        "Invalid value x for configuration tasks.max: Not a number of type INT\n"
        "Invalid value null for configuration tasks.max: Value must be non-null\n"
        'Missing required configuration "topic" which has no default value.\n'
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
    assert list(answer.json()["problems"]) == ["tasks.max", "topic"]


def test_a_request_that_takes_too_long_says_what_the_worker_does(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[DeleteConnector] = Future()
    herder.state = Health("healthy", "The worker is currently polling the group coordinator.")
    answer = rest("DELETE", "/connectors/src")
    assert answer.status_code == 500
    message = "Request timed out. The worker is currently polling the group coordinator."
    assert answer.json()["message"] == message


KEY = b"k" * 32


def signed(body: bytes, key: bytes = KEY, algorithm: str = "HmacSHA256") -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in sign(key, algorithm, body).items()}


@pytest.mark.parametrize(
    ("key", "headers", "status", "message"),
    [
        (KEY, {}, 400, "Internal request missing required signature"),
        (KEY, signed(b"[]", algorithm="HmacSHA512"), 400, "does not support the 'HmacSHA512' key signing"),
        (None, signed(b"[]"), 503, "still starting up"),
        (KEY, signed(b"[]", b"other"), 403, "Internal request contained invalid signature."),
        (KEY, signed(b"[]") | {"X_Connect_Authorization": "***"}, 400, "not base64"),
    ],
)
def test_internal_requests_are_checked(
    rest: Asked, herder: FakeHerder, key: bytes | None, headers: dict[str, str], status: int, message: str
) -> None:
    herder.key = InternalKey(required=True, key=key)
    answer = rest("POST", "/connectors/src/tasks", b"[]", **headers)
    assert answer.status_code == status
    assert message in answer.json()["message"]
    assert herder.requests == []


def test_a_signed_internal_request_is_served(rest: Asked, herder: FakeHerder) -> None:
    herder.key = InternalKey(required=True, key=KEY)
    assert rest("POST", "/connectors/src/tasks", b"[]", **signed(b"[]")).status_code == 204
    assert rest("PUT", "/connectors/src/fence", **signed(b"")).status_code == 204
    assert herder.requests == [PutTaskConfigs("src", []), FenceZombies("src")]


def test_a_patch_changes_and_removes_settings(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[PatchConfig] = ConfigWritten(False, INFO)
    answer = rest("PATCH", "/connectors/src/config", b'{"tasks.max":2,"transforms":null}')
    assert (answer.status_code, answer.json()["name"]) == (200, "src")
    assert herder.requests == [PatchConfig("src", {"tasks.max": "2", "transforms": None})]
    assert rest("PATCH", "/connectors/src/config", b"[1]").status_code == 500
