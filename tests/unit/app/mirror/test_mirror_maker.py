"""A dedicated MirrorMaker without brokers: its words, its internal REST server, what it shows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from starlette.testclient import TestClient
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.mirror import mirror_maker
from spark_connect_rt.app.mirror.mirror_maker import flow_lines, flows_table
from spark_connect_rt.app.mirror.mirror_rest import FlowApplications, FlowPeers
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.connectors.mirror.maker_config import SourceAndTarget
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.peers import PeerAnswer, sign
from spark_connect_rt.runtime.values import InternalKey, TaskProgress, WorkerProgress
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.test_forwarding import FakePeers

A_TO_B, B_TO_A = SourceAndTarget("A", "B"), SourceAndTarget("B", "A")
KEY = b"of the session"
SPACED = SourceAndTarget("over there", "B")


@pytest.mark.parametrize(
    "words",
    [
        ["mirror", "FILE", "--clusters", "B", "--clusters", "C"],
        ["mirror", "run", "FILE", "--clusters", "B", "C"],
        ["mirror", "--clusters", "B", "FILE", "C"],
    ],
)
def test_a_file_and_its_clusters_are_understood_as_javas_script_has_them(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("A->B.enabled = true\n")
    runs: list[Any] = []
    monkeypatch.setattr(mirror_maker, "run_mirror_maker", lambda raw, targets: runs.append((raw, targets)))
    done = CliRunner().invoke(cli, [str(file) if word == "FILE" else word for word in words])
    assert (done.exit_code, runs) == (0, [({"A->B.enabled": "true"}, ["B", "C"])]), done.output


def test_two_files_are_not_a_file_and_a_cluster() -> None:
    assert CliRunner().invoke(cli, ["mirror", "one", "two"]).exit_code == 2


def test_a_request_reaches_the_herder_of_the_flow_in_its_path_and_no_other() -> None:
    herders = {flow: FakeHerder() for flow in (A_TO_B, B_TO_A, SPACED)}
    applications = FlowApplications()
    for flow, herder in herders.items():
        applications.add(flow, herder, FakePeers())
        herder.key = InternalKey(required=True, key=KEY)
    client = TestClient(applications, headers={"Content-Type": "application/json"})
    headers = sign(KEY, "HmacSHA256", b"[]")
    assert client.post("/A/B/connectors/c/tasks", content=b"[]", headers=headers).status_code == 204
    assert client.put("/over%20there/B/connectors/c/fence", headers=sign(KEY, "HmacSHA256", b"")).status_code == 204
    assert client.post("/A/B/connectors/c/tasks", content=b"[]").status_code == 400
    for other in ("/A/C/connectors/c/tasks", "/connectors/c/tasks", "/A/B/", "/A"):
        assert client.post(other, content=b"[]", headers=headers).status_code == 404
    assert [len(fake_herder.requests) for fake_herder in herders.values()] == [1, 0, 1]


def test_a_leader_is_asked_below_the_flows_path() -> None:
    asked = FakePeers(PeerAnswer(204, b""))
    FlowPeers(asked, SPACED).request("POST", "http://127.0.0.1:8084/connectors/c/tasks?forward=true", b"[]")
    path = "/over%20there/B/connectors/c/tasks"
    assert asked.asked == [("POST", f"http://127.0.0.1:8084{path}?forward=true", b"[]", {})]


def test_without_internal_rest_the_leader_cannot_be_asked_and_the_setting_is_named() -> None:
    peers = FlowPeers(FakePeers(), A_TO_B, internal_rest=False)
    with pytest.raises(ConnectError, match=r"enable\.internal\.rest=true"):
        peers.request("POST", "NOTUSED/connectors/c/tasks")


def test_flows_are_shown_with_their_tasks() -> None:
    tasks = tuple(
        TaskProgress(ConnectorTaskId("MirrorSourceConnector", n), "RUNNING", "source", 1_000 * n, 5_000_000, 0, 12.0)
        for n in (1, 2)
    )
    running = WorkerProgress("w", "http://w/", True, None, 3, "sessioned", {}, tasks)
    idle = WorkerProgress("w", "http://w/", True, None, 3, "sessioned")
    progress = {B_TO_A: idle, A_TO_B: running, SPACED: None}
    assert flow_lines(progress) == [
        "flow=A->B 2 tasks here (2 RUNNING), 3,000 records, 24 records/s",
        "flow=B->A 0 tasks here, 0 records, 0 records/s",
        "flow=over there->B waits for its cluster",
    ]
    shown = io.StringIO()
    Console(width=120, file=shown).print(flows_table(progress))
    assert "MirrorSourceConnector-2" in shown.getvalue()
    assert "no task here" in shown.getvalue()


def test_a_session_whose_jvm_is_gone_does_not_hide_why_the_flows_ended() -> None:
    class Dead:
        def stop(self) -> None:
            raise ConnectionRefusedError("no JVM")

    shared = mirror_maker.SharedSession({}, 1)
    shared._session = Dead()
    shared.stop()
    assert shared._session is None
