from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from spark_connect_rt.errors import NotAssignedError, NotLeaderError, RetriableError
from spark_connect_rt.ports.peer_client import PeerAnswer
from spark_connect_rt.rest.app import create_app
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder

LEADER = "http://leader:8083/"


class FakePeers:
    def __init__(self, answer: PeerAnswer | Exception) -> None:
        self.answer = answer
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
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None: ...


def follower(
    answer: PeerAnswer | Exception, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[httpx.Response, FakePeers]:
    """Ask a worker that is not the leader."""
    herder, peers = FakeHerder(), FakePeers(answer)
    for operation in ("create", "delete", "restart", "put_task_configs"):
        herder.answers[operation] = NotLeaderError("Only the leader can.", LEADER)
    herder.answers["restart_task"] = NotAssignedError("Not here.", "http://owner:8083")
    herder.answers["stop_connector"] = NotLeaderError("Only the leader can.", None)
    return ask(create_app(herder, peers), method, path, body, **headers), peers


def test_a_request_goes_to_the_leader_and_its_answer_comes_back() -> None:
    body = b'{"name":"a b","config":{}}'
    theirs = PeerAnswer(201, b'{"name":"a b"}', {"location": "http://leader:8083/connectors/a%20b", "x": "y"})
    answer, peers = follower(theirs, "POST", "/connectors", body, Authorization="Basic x", Cookie="c")
    assert (answer.status_code, answer.text) == (201, '{"name":"a b"}')
    assert answer.headers["location"] == "http://leader:8083/connectors/a%20b"
    assert "x" not in answer.headers
    [(method, url, sent, headers)] = peers.asked
    assert (method, url, sent) == ("POST", "http://leader:8083/connectors?forward=true", body)
    assert headers == {"Content-Type": "application/json", "User-Agent": "kafka-connect", "Authorization": "Basic x"}


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
