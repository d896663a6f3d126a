from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from spark_connect_rt.errors import TimedOutError, UnreachableError
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.exchange import (
    Attempt,
    Broken,
    Outcome,
    RequestFailure,
    RetryDelay,
    ServerResponse,
    exchange,
)
from spark_connect_rt.rest.client.refusals import (
    ConflictError,
    NoAnswerError,
    NotAllowedError,
    NotServedError,
    RefusedError,
    UnknownNameError,
)

A, B = "http://a:8083", "http://b:8083"
DOWN = RequestFailure(Broken.NO_CONNECTION, "connection refused")
SILENT = RequestFailure(Broken.TIMED_OUT, "no answer within 5 s")
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)


def said(status: int, body: Any = None) -> ServerResponse:
    return ServerResponse(status, b"" if body is None else json.dumps(body).encode())


def refused(status: int, message: str, **more: Any) -> ServerResponse:
    return said(status, {"error_code": status, "message": message, **more})


def run(call: Call[Any], outcomes: Sequence[Outcome], limit_s: float = 0.0, first: int = 0) -> tuple[Any, list[str]]:
    """Return the value, and what was done: addresses asked, pauses."""
    steps, done, rest = exchange(call, [A, B], first, limit_s), [], list(outcomes)
    outcome: Outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            assert rest == []
            return end.value[0], done
        done.append(step.address[-6:-5] if isinstance(step, Attempt) else f"pause {step.seconds}")
        outcome = None if isinstance(step, RetryDelay) else rest.pop(0)


def test_the_next_address_is_asked_when_one_is_down() -> None:
    assert run(calls.connector_names(), [DOWN, said(200, ["x"])]) == (["x"], ["a", "b"])
    assert run(calls.pause("x"), [DOWN, said(202)]) == (None, ["a", "b"])
    assert run(calls.connector_names(), [said(200, [])], first=1) == ([], ["b"])


def test_reads_are_retried_after_silence_and_gateway_errors_and_writes_are_not() -> None:
    assert run(calls.connector_names(), [SILENT, said(200, [])])[1] == ["a", "b"]
    assert run(calls.connector_names(), [said(503), said(200, [])])[1] == ["a", "b"]
    with pytest.raises(TimedOutError, match="not known"):
        run(calls.delete("x"), [SILENT])
    with pytest.raises(UnreachableError, match="not known"):
        run(calls.delete("x"), [RequestFailure(Broken.CUT_OFF, "peer closed")])
    with pytest.raises(RefusedError, match="503"):
        run(calls.delete("x"), [said(503)])


def test_every_address_is_named_when_none_answers() -> None:
    with pytest.raises(UnreachableError, match=r"http://a:8083: connection refused; http://b:8083: connection refused"):
        run(calls.connector_names(), [DOWN, DOWN])
    with pytest.raises(TimedOutError):
        run(calls.connector_names(), [DOWN, SILENT])
    with pytest.raises(RefusedError, match="HTTP 503"):
        run(calls.connector_names(), [said(503), DOWN])


def test_a_rebalances_refusal_is_asked_again_up_to_the_limit_another_conflict_is_not() -> None:
    busy = refused(409, STALE)
    _, done = run(calls.pause("x"), [busy, busy, said(202)], limit_s=5.0)
    assert done == ["a", "pause 0.5", "a", "pause 0.5", "a"]
    with pytest.raises(ConflictError) as momentary:
        run(calls.pause("x"), [busy, busy, busy], limit_s=1.0)
    assert momentary.value.momentary()
    with pytest.raises(ConflictError, match="already exists"):
        run(calls.create("x", {}), [refused(409, "Connector x already exists")], limit_s=5.0)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(404, "HTTP 404 Not Found"), NotServedError),  # JAX-RS, of a path it has not
        (refused(405, "HTTP 405 Method Not Allowed"), NotServedError),
        (refused(404, "Connector x not found"), UnknownNameError),
        (refused(401, "User cannot access the resource."), NotAllowedError),
        (refused(403, "Topic tracking is disabled."), NotAllowedError),
        (refused(400, "bad"), RefusedError),
        (ServerResponse(502, b"<html>gateway</html>"), RefusedError),
        (said(302), NoAnswerError),
        (ServerResponse(200, b"<html>hello</html>"), NoAnswerError),
        (ServerResponse(200, b"[" * 100_000), NoAnswerError),
        (said(200, {"other": 1}), NoAnswerError),
    ],
)
def test_response_status_decides_the_error_class(answer: ServerResponse, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        run(Call("PUT", "/x", field="events"), [answer])
    assert type(raised.value) is kind


def test_a_refusal_keeps_the_servers_words_hint_code_and_problems() -> None:
    answer = refused(
        400, "no", code="CRT-1040", hint="Correct it.", problems={"tasks.max": ["is not a number"], "b": "c"}
    )
    with pytest.raises(RefusedError) as raised:
        run(calls.create("x", {}), [answer])
    error = raised.value
    assert (str(error), error.code, error.hint, error.status) == ("no", "CRT-1040", "Correct it.", 400)
    assert error.problems == {"tasks.max": ["is not a number"], "b": ["c"]}
    assert error.address == A


def test_an_offset_of_65_bits_stays_what_it_is() -> None:
    body = b'{"offsets": [{"partition": {"p": 1}, "offset": {"n": 36893488147419103232}}]}'
    assert run(calls.offsets("x"), [ServerResponse(200, body)])[0][0]["offset"]["n"] == 2**65


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "/connectors/a%2Fb"),
        ("..", "/connectors/%2E%2E"),
        ("100%", "/connectors/100%25"),
        ("ä ?#", "/connectors/%C3%A4%20%3F%23"),
        ("a.b", "/connectors/a.b"),
    ],
)
def test_any_name_is_one_segment(name: str, path: str) -> None:
    assert calls.connector(name).path == path


def test_queries_leave_out_what_is_not_given() -> None:
    assert management_calls.overview(state=["FAILED", "PAUSED"], abnormal=True, type_="sink").query == (
        ("state", "FAILED,PAUSED"),
        ("type", "sink"),
        ("abnormal", "true"),
        ("offset", "0"),
        ("limit", "100"),
    )
    assert management_calls.config_diff("x", 3, 5).query == (("from", "3"), ("to", "5"))
    assert calls.restart("x", only_failed=True).query == (("includeTasks", "false"), ("onlyFailed", "true"))
