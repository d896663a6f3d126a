from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.cli.contexts import chosen, contexts_file, load_contexts
from tests.support.stand_in_cluster import StandInCluster
from tests.unit.app.cluster.conftest import Commands


def test_a_context_is_made_used_listed_changed_and_deleted(connectrt: Commands) -> None:
    file = connectrt.folder / "config.json"
    assert connectrt("config", "current-context").code == 4
    made = connectrt(
        "config", "set-context", "prod", "--url", "https://a:1,https://b:2", "--username", "me", "--password", "s3cret"
    )
    assert made.code == 0
    assert os.stat(file).st_mode & 0o777 == 0o600
    connectrt("config", "set-context", "test", "--url", "http://t:8083", "--token", "tok3n")
    assert connectrt("config", "current-context").out == "prod\n"
    assert connectrt("config", "use-context", "test").code == 0
    listed = connectrt("config", "get-contexts")
    assert listed.out == (
        "CURRENT   NAME   URLS                      AUTH\n"
        "          prod   https://a:1,https://b:2   user me\n"
        "*         test   http://t:8083             token\n"
    )
    shown = connectrt("config", "get-contexts", "-o", "json").out
    assert "s3cret" not in shown
    assert "tok3n" not in shown
    connectrt("config", "set-context", "prod", "--username", "you")
    assert json.loads(file.read_text())["contexts"]["prod"] == {
        "urls": ["https://a:1", "https://b:2"],
        "username": "you",
        "password": "s3cret",
    }
    assert connectrt("config", "delete-context", "test").code == 0
    assert connectrt("config", "current-context").code == 4
    assert connectrt("config", "use-context", "test").code == 4


def test_credentials_of_a_context_reach_the_worker(connectrt: Commands, cluster: StandInCluster) -> None:
    seen: list[str | None] = []
    answer = cluster.handle_request

    def remember(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.url.host} {request.headers.get('authorization', '').partition(' ')[0]}")
        return answer(request)

    cluster.handle_request = remember  # type: ignore[method-assign]
    (connectrt.folder / "token").write_text("t\n")
    connectrt("config", "set-context", "a", "--url", "http://a:1", "--username", "me", "--password", "x")
    connectrt("config", "set-context", "b", "--url", "http://b:1", "--token-file", str(connectrt.folder / "token"))
    connectrt("get", "connectors")
    connectrt("get", "connectors", "--context", "b")
    connectrt("get", "connectors", "--context", "b", "--url", "http://c:1")
    connectrt.environment["CONNECTRT_URL"] = "http://d:1"
    connectrt("get", "connectors")
    connectrt("get", "connectors", "--url", "http://e:1")
    assert seen == ["a Basic", "b Bearer", "c Bearer", "d ", "e "]


@pytest.mark.parametrize("content", ["{", "[]", '{"contexts": 1}', '{"contexts": {"a": {"urls": 1}}}', "[" * 100_000])
def test_a_damaged_file_is_named_and_nothing_else(connectrt: Commands, content: str) -> None:
    (connectrt.folder / "config.json").write_text(content)
    ended = connectrt("get", "connectors")
    assert ended.code == 1
    assert "config.json" in ended.err


def test_a_file_that_others_may_read_is_reported(connectrt: Commands) -> None:
    connectrt("config", "set-context", "a", "--url", "http://a:1")
    (connectrt.folder / "config.json").chmod(0o644)
    assert "other users can read" in connectrt("config", "get-contexts").err


def test_addresses_and_files_are_checked_before_they_are_kept(connectrt: Commands) -> None:
    assert connectrt("config", "set-context", "a").code == 1
    assert connectrt("config", "set-context", "a", "--url", "ftp://a").code == 1
    assert connectrt("config", "set-context", "a", "--url", "http://a", "--token-file", "/no/such").code == 1
    assert not (connectrt.folder / "config.json").exists()


def test_where_the_file_is(tmp_path: Path) -> None:
    assert contexts_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/connectrt/config.json")
    assert contexts_file({"CONNECTRT_CONFIG": "/y"}) == Path("/y")
    assert chosen(load_contexts(tmp_path / "none"), {}, None, None).urls == ("http://localhost:8083",)
