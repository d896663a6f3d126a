from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.stand_in_cluster import CLASS, StandInCluster, refused
from tests.unit.app.cluster.conftest import Commands


@pytest.fixture
def three(cluster: StandInCluster) -> StandInCluster:
    cluster.add("orders-in", tasks="RRF", tasks_max="3")
    cluster.add("orders-out", kind="sink", tasks="R")
    cluster.add("a b", "PAUSED", "P")
    return cluster


def test_connectors_as_a_table(three: StandInCluster, connectrt: Commands) -> None:
    ended = connectrt("get", "connectors")
    assert ended.out == (
        "NAME         TYPE     STATE      TASKS            WORKER\n"
        "orders-in    source   DEGRADED   2/3 (1 failed)   w1:8083\n"
        "a b          source   PAUSED     0/1              w1:8083\n"
        "orders-out   sink     RUNNING    1/1              w1:8083\n"
    )
    assert (ended.code, ended.err) == (0, "")
    assert three.asked == ["GET /connectors?expand=status&expand=info"]


def test_wide_has_what_the_overview_knows_and_does_without_on_java_workers(
    three: StandInCluster, connectrt: Commands
) -> None:
    row = {"name": "orders-out", "records_per_second": 1234.5, "lag": 12_000, "errors": 3, "why": "lag grows"}
    three.admin["/admin/overview"] = {"connectors": [row], "total": 1, "matching": 1}
    lines = connectrt("get", "c", "orders-*", "-o", "wide").lines
    assert lines[0].split() == [
        "NAME",
        "TYPE",
        "STATE",
        "TASKS",
        "WORKER",
        "CONNECTOR",
        "CLASS",
        "RECORDS/S",
        "LAG",
        "ERRORS",
        "WHY",
    ]
    assert lines[1].split()[6:8] == ["w1:8083", "RUNNING"]
    assert lines[1].endswith("   no route to host")
    assert lines[2].split()[-5:] == ["1,234", "12,000", "3", "lag", "grows"]
    three.java = True
    assert connectrt("get", "c", "orders-out", "-o", "wide").lines[1].split()[-4:] == ["-", "-", "-", "-"]


def test_failed_connectors_come_first_in_the_table(three: StandInCluster, connectrt: Commands) -> None:
    three.add("z", "FAILED", "")
    three.add("y", tasks="FF")
    three.add("x", tasks="UR")
    lines = [line.split() for line in connectrt("get", "connectors").lines[1:]]
    assert [(line[0], line[2]) for line in lines[:4]] == [
        ("y", "FAILED"),
        ("z", "FAILED"),
        ("orders-in", "DEGRADED"),
        ("x", "DEGRADED"),
    ]
    assert [line[0] for line in lines[4:]] == ["a", "orders-out"]
    assert connectrt("get", "connectors", "-o", "name").lines == ["a b", "orders-in", "orders-out", "x", "y", "z"]
    connector = json.loads(connectrt("get", "connectors", "y", "-o", "json").out)
    assert list(connector)[3:5] == ["state", "aggregate"]
    assert (connector["state"], connector["aggregate"]) == ("RUNNING", "FAILED")


def test_json_yaml_and_names(three: StandInCluster, connectrt: Commands) -> None:
    several = json.loads(connectrt("get", "connectors", "-o", "json").out)
    assert [entry["name"] for entry in several] == ["a b", "orders-in", "orders-out"]
    connector = json.loads(connectrt("get", "connectors", "orders-in", "-o", "json").out)
    assert connector["config"] == {"connector.class": CLASS, "name": "orders-in", "tasks.max": "3"}
    assert yaml.safe_load(connectrt("get", "connectors", "orders-in", "-o", "yaml").out) == connector
    assert "tasks.max: '3'" in connectrt("get", "connectors", "orders-in", "-o", "yaml").out
    assert connectrt("get", "connectors", "-o", "name").out == "a b\norders-in\norders-out\n"


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("state=running", ["orders-in", "orders-out"]),
        ("state!=RUNNING", ["a b", "orders-in"]),
        ("state=degraded", ["orders-in"]),
        ("aggregate!=DEGRADED", ["a b", "orders-out"]),
        ("state=RUNNING,type=sink", ["orders-out"]),
        ("task=FAILED|PAUSED", ["a b", "orders-in"]),
        ("class=*FileStream*", ["a b", "orders-in", "orders-out"]),
        ("worker!=w2:8083", ["a b", "orders-out"]),
    ],
)
def test_selectors(three: StandInCluster, connectrt: Commands, selection: str, names: list[str]) -> None:
    assert connectrt("get", "connectors", "-l", selection, "-o", "name").lines == names


def test_missing_connector_exits_with_4_and_suggests_similar_names(three: StandInCluster, connectrt: Commands) -> None:
    ended = connectrt("get", "connectors", "order-in")
    assert (ended.code, ended.out) == (4, "")
    assert (
        ended.err.splitlines()[0] == "connectrt: CRT-1020: no connector order-in; did you mean orders-in, orders-out?"
    )
    assert connectrt("get", "connectors", "x*").code == 4
    assert connectrt("get", "loggers", "no.such").code == 4


def test_wrong_words_end_with_2(three: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("get", "pods").code == 2
    assert "FIELD=VALUE" in connectrt("get", "connectors", "-l", "colour=red").err
    assert connectrt("get", "connectors", "-o", "xml").code == 2


def test_tasks_by_connector_and_by_number(three: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("get", "tasks", "orders-in/2", "orders-out").out == (
        "TASK           STATE     WORKER    TRACE\n"
        "orders-in/2    FAILED    w1:8083   no route to host\n"
        "orders-out/0   RUNNING   w1:8083   -\n"
    )
    assert connectrt("get", "tasks", "-l", "task=FAILED", "-o", "name").lines == [
        "orders-in/0",
        "orders-in/1",
        "orders-in/2",
    ]
    assert connectrt("get", "tasks", "orders-in/9").code == 4
    three.add("a/1", tasks="RR")
    assert connectrt("get", "tasks", "a/1", "-o", "name").lines == ["a/1/0", "a/1/1"]
    three.add("python", kind="sink", tasks="F")
    assert connectrt("get", "tasks", "python").lines[1].endswith("   no such table")


def test_workers_of_ours_and_those_a_java_group_names(three: StandInCluster, connectrt: Commands) -> None:
    worker = {"worker_id": "w1:8083", "leader": True, "runtime": "spark-connect-rt", "version": "4.1.1"}
    away = {"worker_id": "w9:8083", "leader": False, "runtime": "java", "reachable": False, "health": None}
    three.admin["/admin/group"] = {"workers": [worker | {"health": "healthy", "tasks": ["a-0"]}, away]}
    assert connectrt("get", "workers").out == (
        "WORKER    LEADER   RUNTIME            VERSION   HEALTH        CONNECTORS   TASKS\n"
        "w1:8083   yes      spark-connect-rt   4.1.1     healthy       0            1\n"
        "w9:8083   -        java               -         unreachable   0            0\n"
    )
    three.java = True
    ended = connectrt("get", "workers", "w2:8083", "-o", "json")
    assert json.loads(ended.out) == {"worker_id": "w2:8083", "connectors": [], "tasks": ["orders-in-1"]}
    assert "does not serve /admin/group" in ended.err


def test_offsets_topics_plugins_and_loggers(three: StandInCluster, connectrt: Commands) -> None:
    three.connectors["a b"] |= {"offsets": [{"partition": {"f": "x"}, "offset": {"n": 2**65}}], "topics": ["t2", "t1"]}
    assert connectrt("get", "offsets", "a b").lines[1] == 'a b         {"f":"x"}   {"n":36893488147419103232}'
    assert connectrt("get", "topics", "-o", "name").lines == ["a b t1", "a b t2"]
    assert connectrt("get", "plugins", "-l", "type=source", "-o", "name").lines == [CLASS]
    assert connectrt("get", "plugins", "FileStreamSourceConnector", "-o", "name").lines == [CLASS]
    assert connectrt("get", "plugins").lines[0].split() == ["CLASS", "TYPE", "VERSION", "ABOUT"]
    about = [{"class": CLASS, "description": "Reads lines of a file."}, {"class": "x"}]
    three.admin["/admin/plugins"] = {"plugins": about}
    assert [line.split(maxsplit=3)[3] for line in connectrt("get", "plugins").lines[1:]] == [
        "Reads lines of a file.",
        "-",
    ]
    three.admin["/admin/plugins"] = refused(403, "not from here")
    assert connectrt("get", "plugins").lines[1].split()[3] == "-"
    assert connectrt("get", "plugins", "*FileStream*", "-o", "name").lines == [CLASS]  # both of its names match
    assert connectrt("get", "loggers").lines[1].split() == ["root", "INFO", "-"]


def test_missing_endpoint_of_a_java_worker_is_explained_in_a_single_line(
    three: StandInCluster, connectrt: Commands
) -> None:
    three.java = True
    ended = connectrt("get", "history", "orders-in")
    assert ended.code == 8
    first, hint, link = ended.err.splitlines()
    assert first == ("connectrt: CRT-1191: this worker does not serve GET /admin/history (http://localhost:8083)")
    assert "Java worker" in hint
    assert link == "connectrt explain CRT-1191 says more"


def test_text_of_others_cannot_steer_the_terminal(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("evil\x1b]0;owned\x07\u202e\nnext")
    out = connectrt("get", "connectors").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "evil\\x1b]0;owned\\x07\\u202e next" in out or "evil\\x1b]0;owned\\x07\\u202e\\x0anext" in out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in connectrt("get", "connectors", "-o", "json").out


def test_colours_only_where_they_are_wanted(three: StandInCluster, connectrt: Commands) -> None:
    connectrt.environment["FORCE_COLOR"] = "1"
    assert "\x1b[32mRUNNING" in connectrt("get", "connectors").out
    connectrt.environment["NO_COLOR"] = "1"
    assert "\x1b" not in connectrt("get", "connectors").out


def test_watch_writes_what_changes_and_survives_a_worker_that_is_away(
    three: StandInCluster, connectrt: Commands
) -> None:
    def story(_: float) -> None:
        step = len(connectrt.slept)
        if step == 1:
            three._become("orders-out", "PAUSED")
        elif step == 2:
            three.before_answer = lambda _: (_ for _ in ()).throw(httpx.ConnectError("refused"))
        elif step == 3:
            three.before_answer = lambda _: None
            del three.connectors["a b"]
        else:
            raise KeyboardInterrupt

    connectrt.sleep = story
    ended = connectrt("get", "connectors", "--watch", "--interval", "7")
    assert ended.code == 130
    assert [line.split()[0] for line in ended.lines] == ["NAME", "orders-in", "a", "orders-out", "orders-out", "a"]
    assert ended.lines[-1] == "a b   (gone)"
    assert ended.err.count("retrying") == 1
    assert connectrt.slept == [7.0] * 4


def test_two_thousand_connectors_are_one_request_and_a_moment(cluster: StandInCluster, connectrt: Commands) -> None:
    for number in range(2_000):
        cluster.add(f"c{number:04}", tasks="RRRRR")
    ended = connectrt("get", "connectors")
    assert len(ended.lines) == 2_001
    assert len(cluster.asked) == 1


def test_an_answer_of_another_shape_is_not_a_trace(three: StandInCluster, connectrt: Commands) -> None:
    three.admin["/admin/group"] = {"members": []}
    ended = connectrt("get", "workers")
    assert ended.code == 1
    assert "has an unexpected form: KeyError: 'workers'" in ended.err


def test_no_server_answers(connectrt: Commands, cluster: StandInCluster) -> None:
    def down(_: str) -> None:
        raise httpx.ConnectError("connection refused")

    cluster.before_answer = down
    ended = connectrt("get", "connectors", "--url", "http://a:1,http://b:2")
    assert ended.code == 7
    assert "http://a:1: connection refused; http://b:2: connection refused" in ended.err


def test_a_reader_that_goes_away_is_not_an_error(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"contexts": {"a": {"urls": ["http://a"]}}}')
    ended = subprocess.run(
        f"{sys.executable} -m spark_connect_rt config get-contexts | (exec <&-; sleep 1); exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        env=os.environ | {"CONNECTRT_CONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert "BrokenPipe" not in ended.stderr


HEAVY = {
    "aiokafka",
    "click",
    "confluent_kafka",
    "fastapi",
    "jinja2",
    "numpy",
    "orjson",
    "pandas",
    "pyarrow",
    "pydantic",
    "pygments",
    "pyspark",
    "rich",
    "sqlalchemy",
    "starlette",
    "typer",
    "uvicorn",
    "yaml",
}


@pytest.mark.parametrize("words", [["get", "connectors"], ["describe", "connector", "x"]])
def test_a_command_on_a_cluster_imports_nothing_of_a_worker(words: list[str]) -> None:
    # a fifth of a second of CPU; the library of the whole command line alone would double it
    script = (
        f"import sys\nsys.argv = ['connectrt', *{words}, '--url', 'http://127.0.0.1:1']\n"
        "from spark_connect_rt.app.entry import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code)\n"
        "print(*sorted({name.split('.')[0] for name, module in sys.modules.items() if module}))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, loaded = ended.stdout.splitlines()
    assert code == "7"
    assert HEAVY & set(loaded.split()) == set()
