"""``connectrt plugins`` on a cluster: by the contexts, the credentials and the exit codes of every other word."""

from __future__ import annotations

from base64 import b64encode

from tests.support.stand_in_cluster import StandInCluster
from tests.unit.app.cluster.conftest import Commands

REPORT = {"plugins": [], "broken": [], "installed": [], "problem": ""}


def test_plugins_are_listed_installed_and_removed_by_a_context(cluster: StandInCluster, connectrt: Commands) -> None:
    connectrt("config", "set-context", "prod", "--url", "http://w1", "--username", "me", "--password", "pw")
    failed = {"state": "failed", "reason": "no space"}
    one = {"name": "o", "version": "1", "source": "s", "installed_by": "me", "workers": {"w2:8083": failed}}
    cluster.admin["/admin/plugins"] = REPORT | {"installed": [one]}
    listed = connectrt("plugins", "--context", "prod")
    assert listed.code == 1
    assert listed.lines[-1].split() == ["w2:8083:", "failed:", "no", "space"]
    assert cluster.headers[-1]["authorization"] == f"Basic {b64encode(b'me:pw').decode()}"
    cluster.admin["POST /admin/plugins"] = (201, {"name": "o", "version": "1", "plugins": ["o.O"], "left_out": []})
    done = connectrt("plugins", "install", "g:a:1", "--sha512", "ab", "--context", "prod")
    assert done.lines == [
        "installed o 1 on the worker that was asked; every worker of its group installs it, too",
        "  plug-ins: o.O",
    ]
    assert cluster.bodies[-1] == {"source": "g:a:1", "sha512": "ab", "name": "", "version": ""}
    cluster.admin["DELETE /admin/plugins/a%20b/1"] = (204, None)
    assert connectrt("plugins", "remove", "a b", "1", "--url", "w1:8083").out == "removed a b 1\n"


def test_what_a_cluster_refuses_has_the_exit_codes_of_the_other_words(
    cluster: StandInCluster, connectrt: Commands
) -> None:
    cluster.admin["/admin/plugins"] = (403, {"message": "not by this client", "code": "CRT-1160"})
    ended = connectrt("plugins", "install", "x", "--url", "http://w1")
    assert (ended.code, ended.err) == (1, "connectrt: CRT-1160: not by this client\n")
    cluster.admin["DELETE /admin/plugins/x/1"] = (404, {"message": "no plug-in x 1 is installed"})
    assert connectrt("plugins", "remove", "x", "1", "--url", "http://w1").code == 4
    assert connectrt("plugins", "list", "--context", "nope").code == 4
    cluster.java = True
    assert connectrt("plugins", "list", "--url", "http://w1").code == 8
