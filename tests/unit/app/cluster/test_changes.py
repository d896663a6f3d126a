from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stand_in_cluster import CLASS, StandInCluster, refused
from tests.unit.app.cluster.conftest import Commands


def write(folder: Path, name: str, value: Any) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def connector(name: str, **config: str) -> dict[str, Any]:
    return {"name": name, "config": {"connector.class": CLASS, "file": "/in", **config}}


@pytest.fixture
def folder(tmp_path: Path, cluster: StandInCluster) -> str:
    cluster.add("kept", file="/in")
    cluster.add("changed", file="/old", **{"db.password": "geheim"})
    cluster.add("doomed")
    write(tmp_path / "f", "new.json", connector("new"))
    write(tmp_path / "f", "sub/kept.properties", f"name=kept\nconnector.class={CLASS}\nfile=/in\n")
    write(tmp_path / "f", "more.yaml", f"name: changed\nconfig:\n  connector.class: {CLASS}\n  file: /in\n")
    write(tmp_path / "f", "README.txt", "not read")
    return str(tmp_path / "f")


APPLIED = f"""\
connector changed
  - db.password = [hidden]
  - file = /old
  + file = /in
connector changed configured
connector new
  + connector.class = {CLASS}
  + file = /in
  + name = new
connector new created
connector kept unchanged
"""


def test_a_folder_is_applied(folder: str, connectrt: Commands, cluster: StandInCluster) -> None:
    ended = connectrt("apply", "-f", folder)
    assert (ended.code, ended.err, ended.out) == (0, "", APPLIED)
    assert cluster.writes() == ["PUT /connectors/changed/config", "POST /connectors"]
    assert connectrt("apply", "-f", folder).out.count("unchanged") == 3


def test_diff_ends_with_6_when_something_differs(folder: str, connectrt: Commands, cluster: StandInCluster) -> None:
    ended = connectrt("diff", "-f", folder)
    assert ended.code == 6
    assert "connector changed\n  - db.password = [hidden]\n" in ended.out
    assert "kept" not in ended.out
    assert cluster.writes() == []
    connectrt("apply", "-f", folder)
    assert (connectrt("diff", "-f", folder).code, connectrt("diff", "-f", folder).out) == (0, "")
    assert connectrt("diff", "-f", folder, "--prune").code == 6


def test_dry_run_validates_and_changes_nothing(folder: str, connectrt: Commands, cluster: StandInCluster) -> None:
    write(Path(folder), "bad.json", {"name": "bad", "connector.class": CLASS})
    ended = connectrt("apply", "-f", folder, "--dry-run")
    assert ended.code == 1
    assert 'connector bad:   file: Missing required configuration "file"' in ended.err
    assert "connector new created (dry run)" in ended.out
    assert [line.split()[0] for line in cluster.writes()] == ["PUT"] * 3
    assert all(line.endswith("/config/validate") for line in cluster.writes())


def test_dry_run_warns_about_a_setting_that_nothing_reads(
    tmp_path: Path, connectrt: Commands, cluster: StandInCluster
) -> None:
    file = write(tmp_path, "one.json", connector("one", fille="/in"))
    ended = connectrt("apply", "-f", file, "--dry-run")
    assert ended.code == 0
    assert "warning: fille has no effect" in ended.err
    assert "Did you mean file?" in ended.err


def test_pruning_asks_and_names_what_goes(folder: str, connectrt: Commands, cluster: StandInCluster) -> None:
    ended = connectrt("apply", "-f", folder, "--prune")
    assert ended.code == 1
    assert "no file contains these connectors: doomed" in ended.err
    assert "--yes" in ended.err
    assert cluster.writes() == []
    connectrt.answers = ["n"]
    assert connectrt("apply", "-f", folder, "--prune").code == 1
    assert connectrt("apply", "-f", folder, "--prune", "--prune-matching", "team-*", "--yes").code == 0
    assert "doomed" in cluster.connectors
    connectrt.answers = ["y"]
    assert connectrt("apply", "-f", folder, "--prune").code == 0
    assert "doomed" not in cluster.connectors


def test_one_that_is_refused_does_not_keep_the_others_back(connectrt: Commands, cluster: StandInCluster) -> None:
    documents = [{"name": "bad", "config": {"a": "1"}}, connector("good")]
    ended = connectrt("apply", "-f", write(connectrt.folder, "a.json", documents))
    assert ended.code == 1
    assert "connector bad:   connector.class: is missing" in ended.err
    assert "connector good created" in ended.out


def test_a_file_that_cannot_be_read_keeps_everything_back(connectrt: Commands, cluster: StandInCluster) -> None:
    good, bad = write(connectrt.folder, "a.json", connector("x")), write(connectrt.folder, "b.json", "{")
    ended = connectrt("apply", "-f", good, "-f", bad, "-f", "/no/such")
    assert ended.code == 1
    assert bad in ended.err
    assert "/no/such" in ended.err
    assert cluster.asked == []
    assert connectrt("apply").code == 2


def test_standard_input_and_states(connectrt: Commands, cluster: StandInCluster) -> None:
    text = f"kind: KafkaConnector\nmetadata: {{name: s}}\nspec: {{class: {CLASS}, state: stopped}}\n"
    assert connectrt("apply", "-f", "-", input=text).code == 0
    assert cluster.connectors["s"]["state"] == "STOPPED"
    again = connectrt("apply", "-f", "-", input=text.replace("stopped", "running"))
    assert again.out == "connector s unchanged, running\n"
    assert cluster.writes()[-1] == "PUT /connectors/s/resume"


def test_create_from_words_and_files_refuses_what_is_there(connectrt: Commands, cluster: StandInCluster) -> None:
    assert connectrt("create", "x", f"connector.class={CLASS}", "file=/a=b", "--state", "paused").code == 0
    assert cluster.connectors["x"]["config"]["file"] == "/a=b"
    assert cluster.bodies[-1]["initial_state"] == "PAUSED"
    ended = connectrt("create", "x", f"connector.class={CLASS}")
    assert (ended.code, ended.err) == (
        9,
        "connectrt: CRT-1190: Connector x already exists\nconnectrt explain CRT-1190 says more\n",
    )
    assert connectrt("create").code == 2
    assert connectrt("create", "y", "file").code == 2
    offsets = [{"partition": {"f": 1}, "offset": {"n": 1}}]
    assert (
        connectrt("create", "-f", write(connectrt.folder, "z.json", connector("z") | {"initial_offsets": offsets})).code
        == 0
    )
    assert cluster.bodies[-1]["initial_offsets"] == offsets


def test_patch_shows_what_it_changes(connectrt: Commands, cluster: StandInCluster) -> None:
    cluster.add("x", file="/a", **{"poll.ms": "5"})
    ended = connectrt("patch", "x", "file=/b", "poll.ms-")
    assert ended.out == "connector x\n  - file = /a\n  + file = /b\n  - poll.ms = 5\nconnector x configured\n"
    assert cluster.bodies[-1] == {"file": "/b", "poll.ms": None}
    assert connectrt("patch", "x", "file=/b").out == "connector x unchanged\n"
    assert connectrt("patch", "y", "file=/b").code == 4


def editor(folder: Path, script: str) -> str:
    path = folder / "editor.py"
    path.write_text(
        f"import sys\npath = sys.argv[1]\ntext = open(path).read()\n{script}\nopen(path, 'w').write(text)\n"
    )
    return f"{sys.executable} {path}"


def test_edit_writes_what_the_editor_leaves(connectrt: Commands, cluster: StandInCluster) -> None:
    cluster.add("x", file="/a")
    connectrt.environment["EDITOR"] = editor(connectrt.folder, "text = text.replace('file: /a', 'file: /b')")
    ended = connectrt("edit", "x")
    assert ended.out == "connector x\n  - file = /a\n  + file = /b\nconnector x configured\n"
    assert cluster.connectors["x"]["config"]["file"] == "/b"
    assert connectrt("edit", "x").out == "connector x unchanged\n"


def test_a_concurrent_edit_is_refused_with_its_diff(connectrt: Commands, cluster: StandInCluster) -> None:
    cluster.add("x", file="/a")
    connectrt.environment["EDITOR"] = editor(connectrt.folder, "text = text.replace('file: /a', 'file: /b')")

    def somebody_else(_: str) -> None:
        if len(cluster.asked) == 2:
            cluster.connectors["x"]["config"]["file"] = "/c"

    cluster.before_answer = somebody_else
    ended = connectrt("edit", "x")
    assert ended.code == 9
    assert "  - file = /a\n  + file = /c\n" in ended.out
    assert "CRT-1193" in ended.err
    assert cluster.writes() == []
    kept = Path(ended.err.split("your edit is in ")[1].split("\n")[0])
    assert "file: /b" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()


def test_a_refused_edit_is_opened_again_with_what_is_wrong(connectrt: Commands, cluster: StandInCluster) -> None:
    cluster.add("x", file="/a")
    connectrt.answers = ["nobody asks"]
    script = "text = text.replace('name: x', 'name: x' if '# ' in text and 'renamed' in text else 'name: y')\n"
    script += "text = text.replace('name: y', 'name: x') if 'renamed' in text else text\n"
    connectrt.environment["EDITOR"] = editor(connectrt.folder, script)
    assert connectrt("edit", "x").out == "connector x unchanged\n"
    connectrt.environment["EDITOR"] = "/no/such/editor"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(connectrt.folder))
        assert "cannot be started" in connectrt("edit", "x").err
    assert list(connectrt.folder.glob("connectrt-*")) == []  # nothing was edited


@pytest.fixture
def several(cluster: StandInCluster) -> StandInCluster:
    cluster.add("a-1")
    cluster.add("a-2", tasks="RF")
    cluster.add("b", kind="sink")
    return cluster


def test_verbs_take_names_patterns_selectors_and_all(several: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("pause", "a-*").out == "connector a-1 paused\nconnector a-2 paused\n"
    assert connectrt("resume", "-l", "state=PAUSED,name=a-1").out == "connector a-1 resumed\n"
    assert connectrt("stop", "--all", "--dry-run").out.count("(dry run)") == 3
    assert connectrt("stop", "--all").out == "connector a-1 stopped\nconnector a-2 stopped\nconnector b stopped\n"
    assert connectrt("pause").code == 2
    assert connectrt("pause", "a-1", "--all").code == 2


def test_restart_of_what_has_failed_and_of_tasks(several: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("restart", "--failed").out == "connector a-2 restarted\n"
    assert several.asked[-1] == "POST /connectors/a-2/restart?includeTasks=true&onlyFailed=true"
    assert connectrt("restart", "--failed").err == "no connectors match\n"
    assert connectrt("restart", "b", "--connector-only").code == 0
    assert several.asked[-1] == "POST /connectors/b/restart?includeTasks=false&onlyFailed=false"
    assert connectrt("restart", "a-2/1").out == "task a-2/1 restarted\n"
    assert several.asked[-1] == "POST /connectors/a-2/tasks/1/restart"
    assert connectrt("restart", "a-2/1", "b").code == 2


def test_delete_names_what_goes_and_asks(several: StandInCluster, connectrt: Commands) -> None:
    ended = connectrt("delete", "a-*")
    assert ended.code == 1
    assert "to be deleted: a-1, a-2" in ended.err
    connectrt.answers = ["no"]
    assert connectrt("delete", "a-*").code == 1
    assert sorted(several.connectors) == ["a-1", "a-2", "b"]
    connectrt.answers = ["yes"]
    assert connectrt("delete", "a-*").out.endswith("connector a-1 deleted\nconnector a-2 deleted\n")
    assert connectrt("delete", "b", "--yes").code == 0
    assert several.connectors == {}


def test_the_others_continue_when_one_is_refused(several: StandInCluster, connectrt: Commands) -> None:
    ended = connectrt("pause", "a-1", "nope", "b")
    assert ended.code == 4
    assert ended.out == "connector a-1 paused\nconnector b paused\n"
    assert ended.err == "connector nope: CRT-1190: Connector nope not found\n"


def test_a_rebalance_is_waited_for(several: StandInCluster, connectrt: Commands) -> None:
    busy = refused(409, "Cannot complete request momentarily due to stale configuration (typically ...)")
    answer, times = several._answer, iter([busy, busy])
    several._answer = lambda *words: next(times, None) or answer(*words)  # type: ignore[method-assign]
    assert connectrt("pause", "b").out == "connector b paused\n"
    assert connectrt.slept == [0.5, 0.5]


def test_wait_for_states_and_ends(several: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("wait", "a-1", "b").out == "connector a-1 condition met\nconnector b condition met\n"
    assert several.asked == ["GET /connectors/a-1/status", "GET /connectors/b/status"]
    ended = connectrt("wait", "a-*", "--timeout", "3")
    assert ended.code == 5
    assert ended.err == (
        "connectrt: condition not met after 3 s: "
        "connector a-2 is RUNNING, tasks: 0 RUNNING, 1 FAILED (no route to host)\n"
    )
    assert sum(connectrt.slept) == 3
    assert connectrt("wait", "a-2", "--for", "connector=running").code == 0
    assert connectrt("wait", "b", "--for", "delete", "--timeout", "0").code == 5
    assert connectrt("wait", "x", "--for", "colour=red").code == 2
    del several.connectors["b"]
    assert connectrt("wait", "b", "--for", "delete").out == "connector b condition met\n"


def test_wait_for_a_connector_that_does_not_exist_ends_soon(several: StandInCluster, connectrt: Commands) -> None:
    ended = connectrt("wait", "a-3", "--timeout", "60")
    assert ended.code == 4
    assert ended.err.splitlines()[0] == "connectrt: CRT-1020: no connector a-3; did you mean a-2, a-1?"
    assert sum(connectrt.slept) == 2
    assert connectrt("wait", "nope-*", "--timeout", "60").code == 4


def test_wait_continues_while_another_worker_has_just_created_it(several: StandInCluster, connectrt: Commands) -> None:
    connectrt.sleep = lambda _: several.add("late") if len(connectrt.slept) == 3 else None
    assert connectrt("wait", "late", "--timeout", "10").out == "connector late condition met\n"
    assert len(connectrt.slept) == 3


def test_wait_until_a_connector_is_created(several: StandInCluster, connectrt: Commands) -> None:
    connectrt.sleep = lambda _: several.add("late", "PAUSED", "") if len(connectrt.slept) == 9 else None
    assert connectrt("wait", "late", "--for", "create", "--timeout", "10").out == "connector late condition met\n"
    assert sum(connectrt.slept) == 4.5
    assert connectrt("wait", "never", "--for", "create", "--timeout", "3").code == 5


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("offset get", "offsets get"),
        ("logger get", "loggers get"),
        ("event", "events"),
        ("dead-letters status", "dlq status"),
        ("context current-context", "config current-context"),
        ("plugin list --local --json", "plugins list --local --json"),
        ("get connector", "get connectors"),
        ("get plug-ins", "get plugin"),
        ("get DeadLetters", "get dead-letters"),
        ("describe Connectors b", "describe connector b"),
    ],
)
def test_words_and_kinds_are_known_in_singular_and_plural(
    several: StandInCluster, connectrt: Commands, words: str, same: str
) -> None:
    ended, other = connectrt(*words.split()), connectrt(*same.split())
    assert (ended.code, ended.out) == (other.code, other.out)
    assert ended.code != 2
