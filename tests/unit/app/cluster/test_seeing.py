from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from spark_connect_rt.cli.kinds import connector_row
from spark_connect_rt.operations.connectors.describe import next_steps
from spark_connect_rt.operations.overview.actions import drawn
from tests.support.stand_in_cluster import CLASS, StandInCluster
from tests.unit.app.cluster.conftest import Commands

AT_MS = 1_790_000_000_000


def described(cluster: StandInCluster) -> None:
    cluster.add("orders", tasks="RF", **{"db.password": "geheim"})
    cluster.connectors["orders"] |= {"topics": ["t"], "offsets": [{"partition": {"f": 1}, "offset": {"n": 5}}]}


DESCRIBED = f"""\
Connector:  orders
State:      DEGRADED (connector RUNNING; tasks: 1 FAILED, 1 RUNNING)
Reason:     no route to host
To do:      connectrt describe task orders/1    shows the whole trace
            connectrt restart orders --failed   restarts it, once the cause is fixed
Tasks:      2
  1  FAILED  w2:8083
     no route to host
  0  RUNNING  w1:8083
Type:       source
Class:      {CLASS}
Worker:     w1:8083
Topics:
  t
Offsets:
  {{"f":1}} -> {{"n":5}}
Configuration:
  connector.class = {CLASS}
  db.password = [hidden]
  name = orders
"""


def test_describe_a_connector_of_a_java_worker(cluster: StandInCluster, connectrt: Commands) -> None:
    described(cluster)
    cluster.java = True
    ended = connectrt("describe", "connector", "orders")
    assert (ended.code, ended.err, ended.out) == (0, "", DESCRIBED)


def test_describe_adds_what_our_workers_know(cluster: StandInCluster, connectrt: Commands) -> None:
    described(cluster)
    task = {"id": 1, "state": "FAILED", "executor": "h:77", "lag": 1_000, "errors": 2}
    cluster.admin["/admin/connectors/orders"] = {
        "records_per_second": 5.25,
        "tasks": [task],
        "topics": ["t"],
        "why": "task 1 FAILED: " + " ".join(["the table of the other database is away"] * 3),
        "last_error_at_ms": AT_MS,
    }
    change = {"at_ms": AT_MS, "kind": "config", "action": "update", "who": "me@h", "number": 7, "connector": "orders"}
    change |= {"before": {"a": "1"}, "after": {"a": "2"}}
    cluster.admin["/admin/history"] = {"changes": [change], "problem": ""}
    lines = connectrt("describe", "orders").lines
    assert lines[2:4] == [
        "Reason:     task 1 FAILED: the table of the other database is away the table of the other database",
        "            is away the table of the other database is away",
    ]
    assert lines[4].startswith("Since:      2026-")
    assert "            connectrt logs orders/1             shows what happened before" in lines
    assert any(line.startswith("Changed:    2026-") and line.endswith("config update by me@h: a") for line in lines)
    assert "Records/s:  5.2" in lines
    assert lines[lines.index("  1  FAILED  w2:8083, h:77") + 1] == "     lag 1,000, errors 2"
    connectrt.environment["COLUMNS"] = "60"
    assert max(map(len, connectrt("describe", "orders").lines[2:6])) <= 60
    data = json.loads(connectrt("describe", "connector", "orders", "-o", "json").out)
    assert data["config"]["db.password"] == "[hidden]"
    assert (data["state"], data["aggregate"]) == ("RUNNING", "DEGRADED")
    assert data["tasks"][1]["executor"] == "h:77"


def test_describe_a_connector_by_its_name_alone(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("orders")
    assert connectrt("describe", "orders").lines[:2] == ["Connector:  orders", "State:      RUNNING"]
    missing = connectrt("describe", "order")
    assert missing.code == 4
    assert missing.err.splitlines()[0] == "connectrt: CRT-1020: no connector order; did you mean orders?"
    kind = connectrt("describe", "tasks")
    assert (kind.code, kind.err) == (
        2,
        "connectrt: CRT-1030: describe tasks NAME: which of the tasks?\nconnectrt explain CRT-1030 says more\n",
    )


def test_a_screen_holds_a_connector_of_many_tasks(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("wide", tasks="R" * 60 + "F")
    cluster.connectors["wide"]["offsets"] = [{"partition": {"f": n}, "offset": {"n": n}} for n in range(50)]
    lines = connectrt("describe", "wide").lines
    assert lines[lines.index("Tasks:      61") + 1] == "  60  FAILED  w1:8083"
    assert "  41 more: connectrt get tasks wide" in lines
    assert "  30 more: connectrt offsets get wide" in lines


@pytest.mark.parametrize(
    ("state", "tasks", "commands"),
    [
        ("RUNNING", "R", []),
        ("RUNNING", "", ["logs 'a b'", "events 'a b'"]),
        ("PAUSED", "P", ["resume 'a b'"]),
        ("STOPPED", "", ["resume 'a b'"]),
        ("RUNNING", "RU", ["get workers", "events 'a b'"]),
        ("UNASSIGNED", "U", ["get workers", "events 'a b'"]),
        ("RESTARTING", "R", ["wait 'a b'"]),
        ("FAILED", "", ["logs 'a b'", "restart 'a b' --failed"]),
        ("RUNNING", "FRF", ["describe task 'a b'/0", "logs 'a b'/0", "restart 'a b' --failed"]),
    ],
)
def test_advice_is_commands_that_fit_the_state(
    cluster: StandInCluster, state: str, tasks: str, commands: list[str]
) -> None:
    cluster.add("a b", state, tasks)
    row = connector_row("a b", cluster._info("a b"), cluster._status("a b"))
    assert [command for command, _ in next_steps(row, ours=True)] == [f"connectrt {words}" for words in commands]


def test_describe_task_worker_and_plugin(cluster: StandInCluster, connectrt: Commands) -> None:
    described(cluster)
    assert connectrt("describe", "task", "orders/1").lines[:2] == ["Task:       orders/1", "  1  FAILED  w2:8083"]
    assert connectrt("describe", "worker", "w2:8083").lines == ["Worker:     w2:8083", "Tasks:", "  orders-1"]
    assert connectrt("describe", "plugin", "FileStreamSource").lines[1:] == [
        "Settings:",
        "  file (string, high, required)",
        "      Source filename.",
    ]
    sentence = "Reads lines of text from a file."
    cluster.admin["/admin/plugins"] = {"plugins": [{"class": CLASS, "description": sentence}]}
    for name in (CLASS, "FileStreamSourceConnector", "FileStreamSource"):
        assert connectrt("describe", "plugin", name).lines[1] == f"About:      {sentence}"
    assert connectrt("describe", "task", "orders/9").code == 4
    assert connectrt("describe", "t", "orders/1").code == 0
    assert connectrt("describe", "pod", "x").code == 2
    assert connectrt("describe", "topics", "x").code == 2
    assert connectrt("describe", "worker", "w9").code == 4


def event(number: int, kind: str = "failure", **more: Any) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "at_ms": AT_MS + number,
        "kind": kind,
        "worker_id": "w1:8083",
        "connector": "orders",
        "task": 0,
        "summary": f"summary {number}",
        **more,
    }


def test_events_are_written_and_followed_over_a_broken_stream(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/events"] = {"events": [event(2), event(1, "rebalance", connector=None, task=None)]}
    streams = iter(
        [
            httpx.Response(200, content=f"id: e3\nevent: failure\ndata: {json.dumps(event(3))}\n\n".encode()),
            httpx.ConnectError("refused"),
            httpx.Response(200, content=f"id: e4\nevent: restart\ndata: {json.dumps(event(4))}\n\n".encode()),
        ]
    )

    def stream(*_: Any) -> httpx.Response:
        found = next(streams, None)
        if found is None:
            raise KeyboardInterrupt
        if isinstance(found, Exception):
            raise found
        return found

    cluster.admin["/admin/events/stream"] = stream
    ended = connectrt("events", "--follow")
    assert ended.code == 130
    assert [line.rsplit("  ", 1)[1] for line in ended.lines] == [f"summary {n}" for n in (1, 2, 3, 4)]
    assert "orders/0" in ended.lines[1]
    assert ended.err.count("retrying") == 1
    assert json.loads(connectrt("events", "-o", "json").out)[0]["id"] == "e1"


def test_logs_of_a_connector_and_of_a_task(cluster: StandInCluster, connectrt: Commands) -> None:
    line = {"at_ms": AT_MS, "level": "ERROR", "logger": "a.b", "task": 0, "where": "executor", "host": "h"}
    cluster.admin["/admin/connectors/orders/logs"] = {"lines": [line | {"message": "boom\x1b[2J"}]}
    cluster.admin["/admin/connectors/a/b/tasks/0/logs"] = {"lines": []}
    cluster.admin["/admin/connectors/orders/logs"]["unanswered"] = [{"worker_id": "w9:1", "why": "it hangs"}]
    ended = connectrt("logs", "orders", "--tail", "5")
    assert ended.err == "worker w9:1 does not answer, so its part is missing: it hangs\n"
    assert ended.out.endswith(" ERROR task 0 executor@h a.b: boom\\x1b[2J\n")
    assert cluster.asked[-1] == "GET /admin/connectors/orders/logs?tail=5"
    connectrt("logs", "a/b/0", "--level", "warn")
    assert cluster.asked[-1] == "GET /admin/connectors/a%2Fb/tasks/0/logs?tail=1000&level=WARN"
    streams = iter([f"id: 1\ndata: {json.dumps(line | {'message': 'one'})}\n\n".encode()])

    def stream(*_: Any) -> httpx.Response:
        found = next(streams, None)
        if found is None:
            raise KeyboardInterrupt
        return httpx.Response(200, content=found)

    cluster.admin["/admin/connectors/orders/logs/stream"] = stream
    ended = connectrt("logs", "orders", "--follow", "--tail", "7")
    assert (ended.code, ended.out.split()[-1]) == (130, "one")
    assert cluster.asked[-2] == "GET /admin/connectors/orders/logs/stream?tail=7"
    assert cluster.headers[-1]["last-event-id"] == "1"
    cluster.java = True
    assert connectrt("logs", "orders").code == 8


ROW = {"name": "bad", "type": "sink", "state": "RUNNING", "tasks": {"RUNNING": 1, "FAILED": 1}, "lag": 7, "errors": 1}


def test_top_writes_once_without_a_terminal(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/overview"] = {
        "connectors": [
            ROW | {"aggregate": "DEGRADED", "abnormal": True, "why": "task 1 failed", "records_per_second": 12.0}
        ],
        "total": 40,
        "matching": 1,
        "counts": {"RUNNING": 39, "DEGRADED": 1, "abnormal": 1, "PAUSED": 0},
        "records_per_second": 1000.0,
        "unanswered": [{"worker_id": "w2", "why": "away"}],
    }
    cluster.admin["/admin/overview"]["connectors"].append({"name": "good", "state": "RUNNING", "tasks": {"RUNNING": 1}})
    head, header, row, good = connectrt("top").lines
    assert good.split() == ["good", "-", "RUNNING", "1/1", "-", "-", "-", "-"]
    assert head.endswith("40 connectors, 1 DEGRADED, 39 RUNNING, 1 failing, 1,000 records/s; no answer from 1 worker")
    assert header.split() == ["NAME", "TYPE", "STATE", "TASKS", "RECORDS/S", "LAG", "ERRORS", "WHY"]
    assert row == "bad    sink   DEGRADED   1/2 (1 failed)   12          7     1        task 1 failed"


def test_top_of_java_workers_shows_their_states(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.java = True
    cluster.add("good")
    cluster.add("bad", tasks="F")
    lines = connectrt("top", "--once").lines
    assert [line.split()[0] for line in lines[2:]] == ["bad", "good"]
    assert "2 connectors, 1 FAILED, 1 RUNNING, 1 failing" in lines[0]


def test_the_screen_of_top_fits_the_terminal() -> None:
    rows = [{**ROW, "running": "1/2", "abnormal": number < 2, "why": "x" * 500} for number in range(50)]
    screen = drawn("h" * 500, rows, 60, 20)
    lines = screen.plain.rstrip("\n").split("\n")
    assert len(lines) == 19
    assert max(map(len, lines)) == 60
    assert sum(span.style == "red" for span in screen.spans) == 2


def test_preview_shows_each_stage(cluster: StandInCluster, connectrt: Commands) -> None:
    record = {"topic": "t", "partition": 0, "key": None, "value": {"a": 1}, "headers": [{"name": "h", "value": 2}]}
    stages = [
        {"stage": "polled", "record": record},
        {"stage": "transforms.same", "record": record},
        {"stage": "transforms.up", "record": record | {"value": {"a": 2}, "headers": []}},
        {
            "stage": "converted",
            "record": record | {"value": {"a": 2}, "headers": []},
            "bytes": {"key": None, "value": "eyJhIjoyfQ=="},
        },
    ]
    dropped = [{"stage": "polled", "record": record}, {"stage": "transforms.up", "record": None}]
    failed = [{"stage": "polled", "record": record}, {"stage": "converted", "record": None, "error": "no schema"}]
    answer = {
        "records": [{"stages": walked} for walked in (stages, dropped)],
        "ended": "records",
        "error": None,
        "seconds": 1.25,
    }
    cluster.admin["POST /admin/preview"] = lambda *_: (200, answer)
    ended = connectrt("preview", "orders", "--records", "2")
    assert cluster.bodies[-1] == {"name": "orders", "records": 2, "seconds": 30.0, "from": "stored", "put": False}
    assert ended.code == 0
    assert ended.out == (
        'record 1\n  polled: t-0\n    key: null\n    value: {"a":1}\n    header h: 2\n  transforms.same: unchanged\n'
        '  transforms.up: t-0\n    key: null\n    value: {"a":2}\n  converted: unchanged (value 7 bytes)\n'
        'record 2\n  polled: t-0\n    key: null\n    value: {"a":1}\n    header h: 2\n  transforms.up: dropped\n'
        "2 records in 1.2 s; stopped: record limit reached\n"
    )
    answer["records"] = [{"stages": failed}]
    ended = connectrt("preview", "orders")
    assert ended.code == 1
    assert "  converted: no schema\n" in ended.out
    file = connectrt.folder / "c.json"
    file.write_text('{"name": "n", "connector.class": "X"}')
    for words in ([str(file)], ["-f", str(file)]):
        cluster.bodies.clear()
        connectrt("preview", *words)
        assert cluster.bodies[-1]["config"] == {"name": "n", "connector.class": "X"}
    assert connectrt("preview").code == 2
    assert connectrt("preview", "orders", "-f", str(file)).code == 2


def test_check_says_what_to_change(cluster: StandInCluster, connectrt: Commands) -> None:
    lines = [
        {"check": "validation", "setting": None, "ok": True, "level": "ok", "what": "valid", "change": ""},
        {
            "check": "host",
            "setting": "url",
            "ok": False,
            "level": "problem",
            "what": "no answer",
            "change": "correct url",
        },
    ]
    answer: dict[str, Any] = {"ok": False, "lines": lines}
    cluster.admin["POST /admin/check"] = lambda *_: (200, answer)
    file = connectrt.folder / "c.yaml"
    file.write_text("name: n\nconnector.class: X\n")
    ended = connectrt("check", str(file))
    assert ended.code == 1
    assert ended.out == ("ok       validation: valid\nPROBLEM  host [url]: no answer\n         -> correct url\n")
    assert cluster.bodies[-1] == {"config": {"name": "n", "connector.class": "X"}, "name": "n"}
    assert connectrt("check", "-f", str(file)).out == ended.out
    assert (connectrt("check").code, connectrt("check", str(file), "-f", str(file)).code) == (2, 2)
    answer["ok"] = True
    assert connectrt("check", str(file)).code == 0


def test_check_takes_a_folder_and_a_connector_of_the_group(cluster: StandInCluster, connectrt: Commands) -> None:
    def answer(_: object, body: Any) -> tuple[int, Any]:
        ok = body["name"] != "bad"
        line = {
            "check": "host",
            "setting": None,
            "ok": ok,
            "level": "ok" if ok else "problem",
            "what": "w",
            "change": "",
        }
        return 200, {"ok": ok, "lines": [line]}

    cluster.admin["POST /admin/check"] = answer
    folder = connectrt.folder / "orders"
    folder.mkdir()
    for name in ("bad", "good"):
        (folder / f"{name}.json").write_text(f'{{"name": "{name}", "connector.class": "X"}}')
    for words in (["-f", str(folder)], [str(folder)]):
        ended = connectrt("check", *words)
        assert (ended.code, ended.out) == (1, "bad\nPROBLEM  host: w\ngood\nok       host: w\n")
    assert [found["ok"] for found in json.loads(connectrt("check", "-f", str(folder), "-o", "json").out)] == [
        False,
        True,
    ]
    assert connectrt("check", "-f", str(folder / "good.json")).out == "ok       host: w\n"
    cluster.add("here")
    assert connectrt("check", "here").out == "ok       host: w\n"
    assert cluster.bodies[-1]["config"] == cluster.connectors["here"]["config"]
    assert "gone.json" in connectrt("check", "gone.json").err


def test_loggers_are_set_on_the_group_or_on_one_worker(cluster: StandInCluster, connectrt: Commands) -> None:
    assert connectrt("loggers", "set", "org.x", "debug").out == "logger org.x is DEBUG on every worker\n"
    assert cluster.asked[-1] == "PUT /admin/loggers/org.x?scope=cluster"
    connectrt("loggers", "set", "org.x", "info", "--this-worker")
    assert cluster.asked[-1] == "PUT /admin/loggers/org.x?scope=worker"
    assert connectrt("loggers", "get", "org.x").lines[1].split()[:2] == ["org.x", "INFO"]
    assert connectrt("loggers", "set", "org.x", "loud").code == 2


def letter(offset: int, **more: Any) -> dict[str, Any]:
    return {
        "topic": "dlq",
        "partition": 0,
        "offset": offset,
        "at_ms": AT_MS,
        "origin": {"topic": "t", "partition": 1, "offset": 2},
        "stage": "VALUE_CONVERTER",
        "class": "JsonConverter",
        "exception": "org.x.DataException",
        "message": "not JSON",
        "stacktrace": "at a\nat b",
        "connector_name": "orders",
        "task": 0,
        "key": None,
        "value": {"base64": "AAE=", "error": "no JSON"},
        "headers": [{"name": "h", "value": {"text": "x\x1b"}}],
        "replayed": None,
        **more,
    }


def test_dead_letters_are_paged_filtered_and_shown(cluster: StandInCluster, connectrt: Commands) -> None:
    def page(query: dict[str, str], _: Any) -> Any:
        start = int(query.get("after", 0))
        letters = [letter(number) for number in range(start, start + 2)]
        return 200, {"topic": "dlq", "letters": letters, "next": str(start + 2) if start < 4 else None}

    cluster.admin["/admin/dead-letters"] = page
    ended = connectrt("dlq", "list", "orders", "--class", "JsonConverter", "--since", "1h", "--not-replayed")
    assert len(ended.lines) == 7
    assert f"class=JsonConverter&from_ms={AT_MS - 3_600_000}&replayed=false" in cluster.asked[0]
    assert ended.lines[1].split()[0] == "0/0"
    shown = connectrt("dlq", "show", "orders", "0/3").out
    assert "  origin:     t-1@2\n" in shown
    assert "  value:      base64 AAE=  (no JSON)\n" in shown
    assert '  header:     h = "x\\u001b"\n' in shown
    assert connectrt("dlq", "show", "orders", "0/99").code == 4
    assert connectrt("dlq", "show", "orders", "x").code == 2
    assert connectrt("dlq", "list").code == 2


def test_dead_letters_of_every_connector_that_has_a_topic(cluster: StandInCluster, connectrt: Commands) -> None:
    for name, topic in (("a", "dlq-a"), ("b", ""), ("c", "dlq-c")):
        cluster.add(name, kind="sink", errors_deadletterqueue_topic_name=topic)
    cluster.admin["/admin/dead-letters"] = lambda query, _: (
        200,
        {"topic": "t", "letters": [letter(7, connector_name=query["connector"])], "next": None},
    )
    assert [line.split()[3] for line in connectrt("get", "dead-letters").lines[1:]] == ["a", "c"]
    assert connectrt("get", "dead-letters", "b", "-o", "name").lines == ["dlq-0-7"]


def test_replays_are_tried_asked_for_and_waited_for(cluster: StandInCluster, connectrt: Commands) -> None:
    replay = {"id": "r1", "state": "running", "matched": 2, "done": 0, "failed": 0, "error": None}
    sample = {"topic": "dlq", "partition": 0, "offset": 1, "to": "t", "error": None}
    sample |= {"before": {"value": {"text": "a"}}, "after": {"value": {"json": {"a": 1}}}}

    def start(_: Any, body: Any) -> Any:
        return (200, {"matched": 2, "sample": [sample]}) if body.get("dry_run") else (201, replay)

    cluster.admin["POST /admin/dead-letters/replays"] = start
    cluster.admin["/admin/dead-letters/replays/r1"] = lambda *_: (200, replay)
    cluster.admin["GET /admin/dead-letters/replays"] = lambda *_: (200, {"replays": [replay]})
    patch = connectrt.folder / "p.json"
    patch.write_text('[{"op": "replace", "path": "/value", "value": 1}]')
    ended = connectrt("dlq", "replay", "orders", "0/1", "0/2", "--patch", str(patch), "--stage", "PUT", "--rate", "5")
    assert ended.code == 1
    assert ended.out == 'dlq-0@1 -> t\n    key: null\n  - value: "a"\n  + value: {"a":1}\n2 letters\n'
    assert cluster.bodies[-1] == {
        "connector": "orders",
        "target": "topic",
        "filter": {"stage": "PUT"},
        "rate": 5.0,
        "edit": {"patch": [{"op": "replace", "path": "/value", "value": 1}]},
        "letters": [{"partition": 0, "offset": 1}, {"partition": 0, "offset": 2}],
        "dry_run": True,
    }
    connectrt.sleep = lambda _: replay.update(state="done", done=2)
    assert connectrt("dlq", "replay", "orders", "--yes", "--wait").out.endswith("done: 2 of 2 done, 0 failed\n")
    assert connectrt("dlq", "status").lines[1].split()[:2] == ["r1", "-"]
    for verb in ("stop", "resume"):
        cluster.admin[f"POST /admin/dead-letters/replays/r1/{verb}"] = replay
        assert connectrt("dlq", verb, "r1").code == 0
    cluster.admin["POST /admin/dead-letters/delete"] = {"topic": "dlq", "deleted": 3, "up_to": {"0": 3}}
    assert connectrt("dlq", "delete", "orders").code == 1
    assert connectrt("dlq", "delete", "dlq", "--topic", "--yes").out == (
        "topic dlq: 3 letters of dlq deleted; first remaining: 0/3\n"
    )
    assert cluster.bodies[-1] == {"topic": "dlq"}


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ("connectrt describe connector", "or", ["orders", "orders-2"]),
        ("connectrt pause --url http://x:1", "z", ["zz"]),
        ("connectrt get", "con", ["connectors"]),
        ("connectrt get plugins", "org.apache.kafka.connect.file.FileStreamSo", [CLASS]),
        ("connectrt get tasks", "orders/", ["orders/0"]),
        ("connectrt get c --context", "p", ["prod"]),
        ("connectrt describe", "tas", ["task"]),
        ("connectrt describe", "or", ["orders", "orders-2"]),
        ("connectrt preview", "z", ["zz"]),
        ("connectrt offsets set", "z", ["zz"]),
        ("connectrt offset set", "z", ["zz"]),
        ("connectrt wait", "z", ["zz"]),
        ("connectrt loggers set", "r", ["root"]),
        ("connectrt config use-context", "p", ["prod"]),
        ("connectrt", "resu", ["resume"]),
    ],
)
def test_shells_complete_words_and_names(
    cluster: StandInCluster, connectrt: Commands, words: str, incomplete: str, expected: list[str]
) -> None:
    for name in ("orders", "orders-2", "zz"):
        cluster.add(name)
    connectrt("config", "set-context", "prod", "--url", "http://p:1")
    assert connectrt.completed(f"{words} {incomplete}") == expected


def test_completion_stays_silent_when_no_worker_answers(cluster: StandInCluster, connectrt: Commands) -> None:
    def down(_: str) -> None:
        raise httpx.ConnectError("refused")

    cluster.before_answer = down
    assert connectrt.completed("connectrt pause o") == []


def test_a_preview_without_records_says_where_they_are(cluster: StandInCluster, connectrt: Commands) -> None:
    answer = {"records": [], "ended": "time", "error": None, "seconds": 30.5}
    cluster.admin["POST /admin/preview"] = lambda *_: (200, answer)
    ended = connectrt("preview", "orders")
    assert ended.out == "0 records in 30.5 s; stopped: time limit\n"
    assert ended.err == "nothing new after the stored offsets. Use --from start to see records from the beginning\n"
    assert connectrt("preview", "orders", "--from", "start").err == ""
