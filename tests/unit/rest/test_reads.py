"""Bodies byte for byte as the recording of Java Connect 4.1.1 has them (tests/parity/golden)."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ForbiddenError, NotFoundError
from spark_connect_rt.runtime.herder.herder_requests import CatchUp, ReadOffsets, Request, ResetTopics
from spark_connect_rt.runtime.values import ConnectorInfo, ConnectorOffset, Health, InstanceState, TaskState
from tests.unit.rest.conftest import Asked, ask
from tests.unit.rest.fake_herder import INFO, FakeHerder, answered

SRC_CONFIG = '{"connector.class":"FileStreamSource","file":"in.txt","tasks.max":"1","name":"src","topic":"lines"}'
SRC_INFO = f'{{"name":"src","config":{SRC_CONFIG},"tasks":[{{"connector":"src","task":0}}],"type":"source"}}'
SRC_TASK = '{"id":0,"state":"FAILED","worker_id":"h:8083","version":"4.1.1","trace":"boom\\n\\tat x"}'
SRC_STATUS = (
    '{"name":"src","connector":{"state":"RUNNING","worker_id":"h:8083","version":"4.1.1"},'
    f'"tasks":[{SRC_TASK}],"type":"source"}}'
)
TASK_CONFIG = (
    '{"connector.class":"FileStreamSource","file":"in.txt","task.class":"T",'
    '"tasks.max":"1","name":"src","topic":"lines"}'
)


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["a", "sp", "\u00a0nb\u00a0"], ["a", "sp", "\u00a0nb\u00a0"]),
        (["a", "bb", "sp", "\u00a0nb\u00a0"], ["bb", "a", "sp", "\u00a0nb\u00a0"]),
        (["a", "bb", "c", "sp", "zeta", "\u00a0nb\u00a0"], ["bb", "zeta", "a", "c", "\u00a0nb\u00a0", "sp"]),
    ],
)
def test_connectors_come_in_the_order_java_was_seen_to_list_them(
    rest: Asked, herder: FakeHerder, names: list[str], order: list[str]
) -> None:
    herder.infos = {name: ConnectorInfo(name, {}, (), "source") for name in names}
    assert rest("GET", "/connectors").json() == order


def test_read_right_after_a_write_sees_its_result(
    rest: Asked, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = herder.connector_status("src")
    looks = iter([replace(status, connector=InstanceState("UNASSIGNED", ""))] * 3)
    monkeypatch.setattr(herder, "connector_status", lambda _: next(looks, status))
    assert rest("GET", "/connectors/src/status").text == SRC_STATUS
    for method, path, code in (("GET", "/tasks/0/status", 200), ("POST", "/tasks/0/restart", 204)):
        written = iter([replace(INFO, tasks=())] * 3)
        task_status = herder.task_status

        def early(task: ConnectorTaskId, written: Any = written, task_status: Any = task_status) -> TaskState:
            if next(written, None) is not None:
                raise NotFoundError("too early")
            return task_status(task)

        monkeypatch.setattr(herder, "connector_info", lambda _, written=written: next(written, INFO))
        monkeypatch.setattr(herder, "task_status", early)
        assert rest(method, f"/connectors/src{path}").status_code == code


def test_status_without_a_report_is_answered_after_a_wait(
    rest: Asked, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = replace(herder.connector_status("src"), connector=InstanceState("UNASSIGNED", ""))
    looks: list[str] = []
    monkeypatch.setattr(herder, "connector_status", lambda name: looks.append(name) or nowhere)
    begun_s = time.monotonic()
    assert rest("GET", "/connectors/src/status").json()["connector"]["state"] == "UNASSIGNED"
    assert time.monotonic() - begun_s < 5
    assert len(looks) > 1
    looks.clear()  # behind a wait in vain the next reader does not wait: thousands may be created in a row
    assert rest("GET", "/connectors/src/status").json()["connector"]["state"] == "UNASSIGNED"
    assert looks == ["src"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", '{"version":"4.1.1","commit":"unknown","kafka_cluster_id":"cluster"}'),
        (
            "/health",
            '{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}',
        ),
        ("/connectors", '["src"]'),
        ("/connectors/", '["src"]'),
        ("/connectors?expand=info", f'{{"src":{{"info":{SRC_INFO}}}}}'),
        ("/connectors?expand=info&expand=status", f'{{"src":{{"status":{SRC_STATUS},"info":{SRC_INFO}}}}}'),
        ("/connectors?expand=colour", '{"src":{}}'),
        ("/connectors/src", SRC_INFO),
        ("/connectors/src/config", SRC_CONFIG),
        ("/connectors/src/status", SRC_STATUS),
        ("/connectors/src/tasks", f'[{{"id":{{"connector":"src","task":0}},"config":{TASK_CONFIG}}}]'),
        ("/connectors/src/tasks/0/status", SRC_TASK),
        ("/connectors/src/topics", '{"src":{"topics":["lines"]}}'),
        ("/connectors/none/topics", '{"none":{"topics":[]}}'),
        (
            "/connector-plugins",
            '[{"class":"org.apache.kafka.connect.file.FileStreamSinkConnector","type":"sink","version":"4.1.1"}]',
        ),
        ("/admin/story", '{"story":[{"at_ms":1,"step":"poll","reason":"waiting for the group","times":3}]}'),
    ],
)
def test_bodies(rest: Asked, path: str, body: str) -> None:
    answer = rest("GET", path)
    assert (answer.status_code, answer.text) == (200, body)
    assert answer.headers["content-type"] == "application/json"


def test_plugins_of_all_kinds(rest: Asked) -> None:
    answer = rest("GET", "/connector-plugins?connectorsOnly=false")
    assert answer.json()[1] == {"class": "x.Predicate", "type": "predicate"}


def test_progress_is_the_herders_own(rest: Asked) -> None:
    progress = rest("GET", "/admin/progress").json()
    assert progress["connectors"] == {"src": "RUNNING"}
    assert progress["tasks"][0]["task"] == {"connector": "src", "task": 0}
    assert progress["tasks"][0]["records"] == 5


def test_offsets_print_as_hash_maps(rest: Asked, herder: FakeHerder) -> None:
    herder.answers[ReadOffsets] = [
        ConnectorOffset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3}),
        ConnectorOffset(None, None),
    ]
    answer = rest("GET", "/connectors/src/offsets")
    assert answer.text == (
        '{"offsets":[{"partition":{"kafka_partition":0,"kafka_topic":"t"},"offset":{"kafka_offset":3}},'
        '{"partition":null,"offset":null}]}'
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/none", "Connector none not found"),
        ("/connectors/none/config", "Connector none not found"),
        ("/connectors/none/tasks", "Connector none not found"),
        ("/connectors/none/status", "No status found for connector none"),
        ("/connectors/none/tasks/0/status", "No status found for task none-0"),
        ("/connectors/src/tasks/7/status", "No status found for task src-7"),
    ],
)
def test_missing_resource_is_404(rest: Asked, path: str, message: str) -> None:
    answer = rest("GET", path)
    assert answer.status_code == 404
    assert answer.text.startswith(f'{{"error_code":404,"message":"{message}","code":"CRT-1020"')


@pytest.mark.parametrize("path", ["/nope", "/connectors/a/b/c/d", "/redoc", "/connectors/a/tasks/0"])
def test_an_unknown_path_is_answered_as_by_java(rest: Asked, path: str) -> None:
    answer = rest("GET", path)
    assert (answer.status_code, answer.text) == (404, '{"error_code":404,"message":"HTTP 404 Not Found"}')
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("number", ["x", "1.5", "99999999999"])
def test_a_task_number_that_is_invalid_is_404(rest: Asked, number: str) -> None:
    answer = rest("GET", f"/connectors/src/tasks/{number}/status")
    assert (answer.status_code, answer.text) == (404, '{"error_code":404,"message":"HTTP 404 Not Found"}')


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/", "GET,HEAD,OPTIONS"),
        ("DELETE", "/connectors", "GET,HEAD,OPTIONS,POST"),
        ("POST", "/connectors/src", "DELETE,GET,HEAD,OPTIONS"),
    ],
)
def test_a_wrong_method_is_405_and_names_the_right_ones(rest: Asked, method: str, path: str, allow: str) -> None:
    answer = rest(method, path)
    assert (answer.status_code, answer.text) == (
        405,
        '{"error_code":405,"message":"HTTP 405 Method Not Allowed"}',
    )
    assert answer.headers["allow"] == allow


def test_names_may_hold_anything(rest: Asked, herder: FakeHerder) -> None:
    herder.infos["a/b ü"] = ConnectorInfo("a/b ü", {}, (), "sink")
    answer = rest("GET", "/connectors/a%2Fb%20%C3%BC")
    assert answer.text == '{"name":"a/b ü","config":{},"tasks":[],"type":"sink"}'
    assert rest("GET", "/connectors/a/b%20%C3%BC").status_code == 404


def test_a_connector_deleted_while_it_is_listed_is_left_out(rest: Asked, herder: FakeHerder) -> None:
    herder.infos["gone"] = ConnectorInfo("gone", {}, (), "sink")  # has no status
    assert list(rest("GET", "/connectors?expand=status").json()) == ["src"]


@pytest.mark.parametrize(
    ("state", "status", "text"),
    [
        (
            Health("starting", "reading the config topic"),
            503,
            '{"status":"starting","message":"Worker is still starting up. reading the config topic"}',
        ),
        (
            Health("unhealthy"),
            500,
            '{"status":"unhealthy","message":"Worker was unable to handle this request '
            'and may be unable to handle other requests."}',
        ),
    ],
)
def test_health(rest: Asked, herder: FakeHerder, state: Health, status: int, text: str) -> None:
    herder.state = state
    answer = rest("GET", "/health")
    assert (answer.status_code, answer.text) == (status, text)


def test_topics_may_be_off(rest: Asked, herder: FakeHerder) -> None:
    assert rest("PUT", "/connectors/src/topics/reset").status_code == 202
    assert herder.requests == [ResetTopics("src")]
    herder.tracking, herder.answers[ResetTopics] = False, ForbiddenError("Topic tracking reset is disabled.")
    answer = rest("GET", "/connectors/src/topics")
    assert (answer.status_code, answer.json()["message"]) == (403, "Topic tracking is disabled.")
    answer = rest("PUT", "/connectors/src/topics/reset")
    assert (answer.status_code, answer.json()["message"]) == (403, "Topic tracking reset is disabled.")


def test_head_is_answered_like_get(rest: Asked) -> None:
    assert rest("HEAD", "/connectors").status_code == 200


def test_options_names_the_methods(rest: Asked) -> None:
    answer = rest("OPTIONS", "/connectors")
    assert (answer.status_code, answer.text) == (200, "HEAD, POST, GET, OPTIONS")
    assert rest("OPTIONS", "/nope").status_code == 404


@pytest.mark.parametrize(
    ("accept", "status"),
    [("*/*", 200), ("text/html,*/*;q=0.8", 200), ("application/json", 200), ("text/html", 406), ("", 200)],
)
def test_answers_are_json_or_406(rest: Asked, accept: str, status: int) -> None:
    answer = rest("GET", "/connectors", Accept=accept)
    assert answer.status_code == status
    if status == 406:
        assert answer.text == '{"error_code":406,"message":"HTTP 406 Not Acceptable"}'


def test_empty_segments_are_not_a_path(rest: Asked) -> None:
    assert rest("GET", "/connectors//").status_code == 404


@pytest.mark.parametrize("path", ["", "/config", "/status", "/tasks", "/tasks/0/status"])
def test_another_workers_write_is_read_before_404(herder: FakeHerder, rest: Asked, path: str) -> None:
    info = herder.infos.pop("src")

    def catch_up(request: Request[Any]) -> Future[Any]:
        assert request == CatchUp()
        herder.infos["src"] = info
        return answered(None)

    herder.submit = catch_up  # type: ignore[method-assign]
    assert rest("GET", f"/connectors/src{path}").status_code == 200


@pytest.mark.parametrize(("path", "status"), [("", 200), ("/src", 200), ("/none", 404), ("/src/offsets", 200)])
def test_connectors_are_not_reported_before_the_config_topic_is_read(
    herder: FakeHerder, path: str, status: int
) -> None:
    app = create_app(herder)
    herder.answers[ReadOffsets] = []
    herder.started, infos, herder.infos = Future(), herder.infos, {}

    def come_up() -> None:
        herder.infos = infos
        herder.started.set_result(None)

    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask, app, "GET", f"/connectors{path}")
        assert ask(app, "GET", "/").status_code == 200  # this needs no topic
        time.sleep(0.1)
        assert not asked.done()
        come_up()
        assert asked.result(10).status_code == status


def test_a_worker_that_reads_for_too_long_says_what_it_does(herder: FakeHerder) -> None:
    herder.started, herder.state = Future(), Health("starting", "The worker is reading.")
    app = create_app(herder, request_limit_ms=50)
    late = ask(app, "GET", "/connectors")
    assert (late.status_code, late.json()["message"]) == (500, "Request timed out. The worker is reading.")
    herder.started.set_result(None)  # what timed out must not have cancelled it
    assert ask(app, "GET", "/connectors").json() == ["src"]


def test_404_is_answered_after_another_read_of_the_topic(herder: FakeHerder, rest: Asked) -> None:
    assert rest("GET", "/connectors/none").status_code == 404
    assert herder.requests == [CatchUp()]


def test_metrics_are_prometheus_text(rest: Asked) -> None:
    answer = rest("GET", "/admin/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    assert 'kafka_connect_source_task_source_record_poll_total{connector="src",task="0"} 7.0' in lines
    assert 'kafka_connect_connector_task_status{connector="src",status="running",task="0"} 1.0' in lines
    assert "kafka_connect_worker_rebalance_epoch 4.0" in lines
