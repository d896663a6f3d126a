"""Reads between workers: every member answers whoever asks, and the one that cannot is named and costs no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.group.peers import PeerAnswer, sign
from spark_connect_rt.rest.basic_auth import ENTRY, LOGIN_FILE, MODULE, BasicAuthSecurityRestExtension
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.runtime.values import InternalKey, WorkerStanding
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from tests.unit.operations.managed_workers import ManagedWorkers
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder

PATH = "/internal/group-reads/which"


def named(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **arguments}


@pytest.fixture
def workers() -> Iterator[ManagedWorkers]:
    with InProcessCluster() as cluster:
        workers = ManagedWorkers(cluster, "w1", "w2", "w3")
        for name, reads in workers.reads.items():
            reads.serve("which", partial(named, name))
        yield workers
        workers.stop()


def test_every_worker_answers_whichever_asks(workers: ManagedWorkers) -> None:
    for name, reads in workers.reads.items():
        answers = reads.ask("which", {"a": 1}, limit_ms=10_000)
        assert [answer.why for answer in answers] == ["", "", ""]
        assert sorted(answer.answer["name"] for answer in answers) == ["w1", "w2", "w3"]
        assert all(answer.answer["a"] == 1 for answer in answers)
        assert (answers[0].worker.worker_id, answers[0].worker.this) == (f"{name}:8083", True)
        assert sum(answer.worker.leader for answer in answers) == 1
        only = reads.ask("which", limit_ms=10_000, only={"w2:8083"})
        assert [answer.worker.worker_id for answer in only] == ["w2:8083"]


def test_the_members_are_asked_of_the_leader_once_in_a_generation(workers: ManagedWorkers) -> None:
    reads = workers.reads[workers.named(leads=False)]
    for _ in range(5):
        reads.ask("which", limit_ms=10_000)
    assert len([url for url in workers.peers.asked if url.endswith("/members")]) == 1
    workers.cluster.add_worker("w4")
    workers.cluster.until_stable()
    assert "w4:8083" in [worker.worker_id for worker in reads.workers()]


def test_a_worker_that_is_gone_is_named_and_the_others_answer(workers: ManagedWorkers) -> None:
    follower = workers.named(leads=False)
    gone = next(name for name in workers.reads if name != follower and name != workers.named(leads=True))
    assert len(workers.reads[follower].ask("which", limit_ms=10_000)) == 3
    del workers.peers.apps[f"{gone}:8083"]
    answers = workers.reads[follower].ask("which", limit_ms=10_000)
    assert {answer.worker.worker_id: bool(answer.why) for answer in answers}[f"{gone}:8083"] is True
    assert sum(not answer.why for answer in answers) == 2


class Slow:
    """A peer that takes its time, or answers what it was given."""

    def __init__(self, answer: PeerAnswer | None = None) -> None:
        self.answer, self.go, self.asked = answer, threading.Event(), 0

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        self.asked += 1
        if self.answer is None:
            self.go.wait(10)
        return self.answer or PeerAnswer(200, b'{"answer":1}')

    def close(self) -> None: ...


def reads_of(peers: Slow, herder: FakeHerder | None = None) -> HttpGroupReads:
    reads = HttpGroupReads(herder or Led(), peers)
    reads.serve("which", lambda _: "here")
    return reads


class Led(FakeHerder):
    """A leader of two."""

    own_group = False

    def standing(self) -> WorkerStanding:
        members = ("http://h:8083/", "http://slow:1/")
        return replace(super().standing(), member_urls=members, own_group=self.own_group)


def test_a_worker_that_hangs_delays_no_other_and_is_not_asked_meanwhile() -> None:
    peers = Slow()
    reads = reads_of(peers)
    begun = time.monotonic()
    for _ in range(6):
        here, slow = reads.ask("which", limit_ms=50)
        assert here.answer == "here"
        assert "no answer within 50 ms" in slow.why or "earlier" in slow.why
    assert time.monotonic() - begun < 2
    assert peers.asked == 3
    peers.go.set()
    end = time.monotonic() + 5
    while reads.ask("which", limit_ms=500)[1].why and time.monotonic() < end:
        pass
    assert reads.ask("which", limit_ms=5_000)[1].answer == 1
    reads.stop()
    assert "stopping" in reads.ask("which")[1].why


@pytest.mark.parametrize(
    ("status", "body", "own", "runtime", "why"),
    [
        (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', False, "java", "Java worker"),
        (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', True, "spark-connect-rt", "version"),
        (404, b'{"error_code":404,"message":"no","code":"CRT-1020"}', False, "spark-connect-rt", "version"),
        (401, b"User cannot access the resource.", False, "unknown", "401"),
        (500, b'{"error_code":500,"message":"odd"}', False, "unknown", "500: odd"),
        (200, b"<html>", False, "unknown", "cannot be read"),
        (200, b"[1]", False, "unknown", "cannot be read"),
    ],
)
def test_other_answers_of_a_peer_decide_runtime_and_reason(
    status: int, body: bytes, own: bool, runtime: str, why: str
) -> None:
    herder = Led()
    herder.own_group = own
    _, answer = reads_of(Slow(PeerAnswer(status, body)), herder).ask("which", limit_ms=5_000)
    assert (answer.runtime, why in answer.why) == (runtime, True), answer


def test_a_broken_read_of_this_worker_does_not_end_the_others() -> None:
    reads = reads_of(Slow(PeerAnswer(200, b'{"answer":2}')))
    reads.serve("which", lambda _: 1 / 0)
    here, other = reads.ask("which", limit_ms=5_000)
    assert "ZeroDivisionError" in here.why
    assert other.answer == 2


KEY = InternalKey(required=True, key=b"k" * 32)


def served(key: InternalKey, with_admin: bool = True) -> tuple[FakeHerder, FastAPI]:
    herder = FakeHerder()
    herder.key = key
    reads = HttpGroupReads(herder, None)
    reads.serve("which", lambda arguments: arguments)
    return herder, create_app(herder, management=Management(group_reads=reads), with_admin=with_admin)


def test_a_read_is_signed_where_the_group_has_a_key() -> None:
    _, app = served(KEY)
    assert ask(app, "POST", PATH, b"{}").status_code == 400
    signed = sign(b"k" * 32, "HmacSHA256", b'{"a":1}')
    assert ask(app, "POST", PATH, b'{"a":1}', **signed).json() == {"answer": {"a": 1}}
    assert ask(app, "POST", PATH, b'{"a":2}', **signed).status_code == 403
    assert ask(app, "GET", PATH).status_code == 405


def test_without_a_key_it_is_open_only_where_the_management_api_is() -> None:
    none = InternalKey(required=False, key=None)
    assert ask(served(none)[1], "POST", PATH, b"{}").json() == {"answer": {}}
    closed = ask(served(none, with_admin=False)[1], "POST", PATH, b"{}")
    assert (closed.status_code, closed.json()["code"]) == (403, "CRT-1033")
    # who brings a signature has passed the login by it: it must hold
    forged = sign(b"x" * 32, "HmacSHA256", b"{}")
    assert ask(served(none)[1], "POST", PATH, b"{}", **forged).status_code == 503


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"{", b"\xff"])
def test_arguments_that_are_invalid_are_refused(body: bytes) -> None:
    app = served(InternalKey(required=False, key=None))[1]
    assert ask(app, "POST", PATH, body).status_code in (400, 500)


def test_a_read_that_no_part_serves_is_not_found() -> None:
    app = served(InternalKey(required=False, key=None))[1]
    missing = ask(app, "POST", "/internal/group-reads/none", b"{}")
    assert (missing.status_code, missing.json()["code"]) == (404, "CRT-1020")


def test_a_signature_passes_the_login_and_is_checked_behind_it(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann=secret\n")
    (tmp_path / "login").write_text(f'{ENTRY} {{ {MODULE} required file="{tmp_path / "users"}"; }};')
    login = BasicAuthSecurityRestExtension()
    login.configure({LOGIN_FILE: str(tmp_path / "login")})
    herder, app = served(KEY)
    guarded = login.wrap(app, herder)
    signed, forged = (sign(key * 32, "HmacSHA256", b"{}") for key in (b"k", b"x"))
    assert ask(guarded, "POST", PATH, b"{}").status_code == 401
    assert ask(guarded, "POST", PATH, b"{}", **signed).status_code == 200
    assert ask(guarded, "POST", PATH, b"{}", **forged).status_code == 403
    assert ask(guarded, "POST", "/admin/loggers", b"{}", **signed).status_code == 401
