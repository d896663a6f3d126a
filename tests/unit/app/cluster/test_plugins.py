"""``connectrt plugins`` on a cluster: by the contexts, the credentials and the exit codes of every other word."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

import pytest

from spark_connect_rt.cli.refusals import as_command, in_short
from spark_connect_rt.rest.requests import HINTS, INSTALLED_HINT, NOT_FOUND_HINTS
from tests.support.stand_in_cluster import StandInCluster
from tests.unit.app.cluster.conftest import Commands

REPORT = {"plugins": [], "broken": [], "installed": [], "problem": ""}


def test_plugins_are_listed_installed_and_removed_by_a_context(cluster: StandInCluster, connectrt: Commands) -> None:
    connectrt("config", "set-context", "prod", "--url", "http://w1", "--username", "me", "--password", "pw")
    failed = {"state": "failed", "reason": "no space"}
    plugin = {"name": "o", "version": "1", "source": "s", "installed_by": "me", "workers": {"w2:8083": failed}}
    cluster.admin["/admin/plugins"] = REPORT | {"installed": [plugin]}
    listed = connectrt("plugins", "--context", "prod")
    assert listed.code == 1
    assert listed.lines[-1].split() == ["w2:8083:", "failed:", "no", "space"]
    assert cluster.headers[-1]["authorization"] == f"Basic {b64encode(b'me:pw').decode()}"
    cluster.admin["POST /admin/plugins"] = (201, {"name": "o", "version": "1", "plugins": ["o.O"], "left_out": []})
    done = connectrt("plugins", "install", "g:a:1", "--sha512", "ab", "--context", "prod")
    assert done.lines == [
        "installed o 1 on the worker that was asked. Every other worker of its group also installs it",
        "  plug-ins: o.O",
    ]
    assert cluster.bodies[-1] == {"source": "g:a:1", "sha512": "ab", "name": "", "version": ""}
    cluster.admin["DELETE /admin/plugins/a%20b/1"] = (204, None)
    assert connectrt("plugins", "remove", "a b", "1", "--url", "w1:8083").out == "removed a b 1\n"


def test_cluster_refusals_have_the_exit_codes_of_other_commands(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/plugins"] = (403, {"message": "not by this client", "code": "CRT-1160"})
    ended = connectrt("plugins", "install", "x", "--url", "http://w1")
    assert (ended.code, ended.err) == (
        1,
        "connectrt: CRT-1160: not by this client\nconnectrt explain CRT-1160 says more\n",
    )
    cluster.admin["DELETE /admin/plugins/x/1"] = (404, {"message": "no plug-in x 1 is installed"})
    assert connectrt("plugins", "remove", "x", "1", "--url", "http://w1").code == 4
    assert connectrt("plugins", "list", "--context", "nope").code == 4
    cluster.java = True
    assert connectrt("plugins", "list", "--url", "http://w1").code == 8


def test_the_current_context_counts_as_for_every_other_command(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/plugins"] = REPORT
    connectrt("config", "set-context", "prod", "--url", "http://w1", "--token", "t")
    assert connectrt("plugins", "list").code == 0
    assert cluster.asked == ["GET /admin/plugins"]
    assert cluster.headers[-1]["authorization"] == "Bearer t"
    cluster.admin["POST /admin/plugins"] = (201, {"name": "o", "version": "1", "plugins": [], "left_out": []})
    assert connectrt("plugins", "install", "g:a:1").code == 0
    cluster.admin["DELETE /admin/plugins/o/1"] = (204, None)
    assert connectrt("plugins", "remove", "o", "1").code == 0
    assert len(cluster.asked) == 3


def test_a_url_of_the_environment_is_a_cluster(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/plugins"] = REPORT
    connectrt.environment["CONNECTRT_URL"] = "http://w2:8083"
    assert connectrt("plugins").code == 2  # help: no word was given
    assert connectrt("plugins", "list").code == 0
    assert cluster.headers[-1]["host"] == "w2:8083"


def test_this_machine_is_asked_for_by_name_or_by_a_workers_file(
    cluster: StandInCluster, connectrt: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers=x:1\n")
    connectrt("config", "set-context", "prod", "--url", "http://w1")
    for words in (["--local"], ["--set", "group.id=g"], ["--file", str(file)]):
        assert "| `topic` | STRING | required |" in connectrt("plugins", "docs", "FileStreamSource", *words).out
    assert cluster.asked == []
    assert connectrt("plugins", "list", "--local", "--context", "prod").code == 2
    (tmp_path / "config.json").write_text("{")
    damaged = connectrt("plugins", "list")
    assert (damaged.code, "config.json" in damaged.err) == (1, True)


def test_advice_names_commands(cluster: StandInCluster, connectrt: Commands) -> None:
    taken = {"message": "o-1 is installed already", "code": "CRT-1021", "hint": INSTALLED_HINT}
    cluster.admin["POST /admin/plugins"] = (409, taken)
    ended = connectrt("plugins", "install", "o.whl", "--url", "http://w1")
    assert ended.err.splitlines() == [
        "connectrt: CRT-1021: o-1 is installed already",
        "Install another version, or connectrt plugins remove NAME VERSION first.",
        "connectrt explain CRT-1021 says more",
    ]


@pytest.mark.parametrize("hint", [*HINTS.values(), *(hint for _, hint in NOT_FOUND_HINTS), INSTALLED_HINT])
def test_no_hint_of_rest_names_a_request_here(hint: str) -> None:
    assert not re.search(r"GET|PUT|POST|DELETE|\{name\}| /|'diff'|[Ss]end the request", as_command(hint))


def test_a_class_that_is_not_there_names_what_is_near() -> None:
    ours = "Failed to find any class that implements Connector and which name matches FileStremSource, "
    listed = "a.FileStreamSinkConnector, a.FileStreamSourceConnector, b.SqlSinkConnector"
    near = "did you mean FileStreamSourceConnector, FileStreamSinkConnector?"
    said = f"no connector class FileStremSource; {near} connectrt get plugins lists all."
    assert in_short(f"{ours}available connectors are: {listed}") == said
    java = ", ".join(f"PluginDesc{{klass=class {name}, name='{name}', version='1'}}" for name in listed.split(", "))
    assert in_short(f"{ours}available connectors are: {java}") == said
    assert in_short(f"{ours}available connectors are: {listed}; x: no module y").endswith("lists all.; x: no module y")
    far = "Failed to find any class that implements Connector and which name matches Zzz, available connectors are: a.B"
    assert in_short(far) == "no connector class Zzz; connectrt get plugins lists all."
    assert in_short("Connector x not found") == "Connector x not found"
