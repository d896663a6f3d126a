from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import NotAssignedError, NotLeaderError, RetriableError, UnreachableError
from spark_connect_rt.group.peers import PeerAnswer
from spark_connect_rt.rest.requests import CONFLICT, NO_LEADER, STALE
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DeleteConnector,
    PutTaskConfigs,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder

LEADER = "http://leader:8083/"


class FakePeers:
    """Gives the answers one after another; the last one again and again."""

    def __init__(self, *answers: PeerAnswer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes | None, dict[str, str]]] = []

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        self.asked.append((method, url, body, dict(headers or {})))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None: ...


def follower(
    answer: PeerAnswer | Exception | list[PeerAnswer | Exception],
    method: str,
    path: str,
    body: bytes | None = None,
    **headers: str,
) -> tuple[httpx.Response, FakePeers]:
    """Ask a worker that is not the leader."""
    herder, peers = FakeHerder(), FakePeers(*(answer if isinstance(answer, list) else [answer]))
    for kind in (CreateConnector, DeleteConnector, RestartConnector, PutTaskConfigs):
        herder.answers[kind] = NotLeaderError("Only the leader can.", LEADER)
    herder.answers[RestartTask] = NotAssignedError("Not here.", "http://owner:8083")
    herder.answers[SetTargetState] = NotLeaderError("Only the leader can.", None)
    return ask(create_app(herder, peers, request_limit_ms=600), method, path, body, **headers), peers


def test_a_request_goes_to_the_leader_and_its_answer_comes_back() -> None:
    body = b'{"name":"a b","config":{}}'
    theirs = PeerAnswer(201, b'{"name":"a b"}', {"location": "http://leader:8083/connectors/a%20b", "x": "y"})
    answer, peers = follower(theirs, "POST", "/connectors", body, Authorization="Basic x", Cookie="c")
    assert (answer.status_code, answer.text) == (201, '{"name":"a b"}')
    assert answer.headers["location"] == "http://leader:8083/connectors/a%20b"
    assert "x" not in answer.headers
    [(method, url, sent, headers)] = peers.asked
    assert (method, url, sent) == ("POST", "http://leader:8083/connectors?forward=true", body)
    sent_on = {"Content-Type": "application/json", "User-Agent": "kafka-connect", "Authorization": "Basic x"}
    assert headers == {**sent_on, "X-Connectrt-Client": "127.0.0.1"}


def test_the_second_hop_forbids_a_third() -> None:
    _, peers = follower(PeerAnswer(204, b""), "POST", "/connectors/a%2Fb/tasks/0/restart?forward=true")
    assert peers.asked[0][1] == "http://owner:8083/connectors/a%2Fb/tasks/0/restart?forward=false"
    answer, peers = follower(PeerAnswer(204, b""), "DELETE", "/connectors/a?forward=false")
    assert (answer.status_code, answer.json()["message"]) == (
        409,
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
    )
    assert peers.asked == []


def test_flags_go_along() -> None:
    answer, peers = follower(PeerAnswer(204, b""), "POST", "/connectors/a/restart?includeTasks=true&onlyFailed=false")
    assert (answer.status_code, answer.content) == (204, b"")
    assert peers.asked[0][1].endswith("/connectors/a/restart?includeTasks=true&onlyFailed=false&forward=true")
    assert peers.asked[0][2] is None


def test_without_a_leader_it_is_409() -> None:
    answer, _ = follower(PeerAnswer(204, b""), "PUT", "/connectors/a/stop")
    assert (answer.status_code, answer.json()["message"]) == (
        409,
        "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.",
    )


def refusal(status: int, message: str) -> PeerAnswer:
    return PeerAnswer(status, f'{{"error_code":{status},"message":"{message}"}}'.encode())


@pytest.mark.parametrize(
    "first",
    [refusal(409, CONFLICT), refusal(409, STALE), refusal(409, NO_LEADER), UnreachableError("connection refused")],
)
def test_temporary_refusal_is_asked_again_until_it_succeeds(first: PeerAnswer | Exception) -> None:
    answer, peers = follower([first, PeerAnswer(204, b"")], "DELETE", "/connectors/a")
    assert (answer.status_code, len(peers.asked)) == (204, 2)


@pytest.mark.parametrize("last", [refusal(409, CONFLICT), UnreachableError("connection refused")])
def test_when_the_limit_comes_first_the_last_refusal_is_the_answer(last: PeerAnswer | Exception) -> None:
    answer, peers = follower(last, "DELETE", "/connectors/a")
    assert answer.status_code == (409 if isinstance(last, PeerAnswer) else 500)
    assert len(peers.asked) > 1


@pytest.mark.parametrize("final", [refusal(409, "Connector a already exists"), RetriableError("it broke midway")])
def test_permanent_or_uncertain_failure_is_asked_once(final: PeerAnswer | Exception) -> None:
    _, peers = follower([final, PeerAnswer(204, b"")], "DELETE", "/connectors/a")
    assert len(peers.asked) == 1


def test_a_forwarded_request_is_repeated_by_who_got_it_first() -> None:
    _, peers = follower([refusal(409, CONFLICT), PeerAnswer(204, b"")], "DELETE", "/connectors/a?forward=true")
    assert len(peers.asked) == 1


@pytest.mark.parametrize(
    ("theirs", "status", "message"),
    [
        (PeerAnswer(404, b'{"error_code":404,"message":"Connector a not found"}'), 404, "Connector a not found"),
        (PeerAnswer(502, b"<html>"), 500, "IO Error trying to forward REST request: "),
        (PeerAnswer(302, b""), 500, "Unexpected status code when handling forwarded request: 302"),
        (RetriableError("no route"), 500, "IO Error trying to forward REST request: no route"),
    ],
)
def test_refusals_of_the_other_worker(theirs: PeerAnswer | Exception, status: int, message: str) -> None:
    answer, _ = follower(theirs, "DELETE", "/connectors/a")
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert answer.json()["message"].startswith(message)
