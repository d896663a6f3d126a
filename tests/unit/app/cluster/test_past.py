from __future__ import annotations

import json
from typing import Any

import pytest

from spark_connect_rt.cli.tables import time_ms
from spark_connect_rt.errors import BadRequestError
from tests.support.stand_in_cluster import StandInCluster, refused
from tests.unit.app.cluster.conftest import Commands

AT_MS = 1_790_000_000_000
MOVES = [
    {"partition": {"f": "x"}, "from": {"n": 9}, "to": {"n": 4}},
    {"partition": {"f": "y"}, "from": {"n": 1}, "to": None},
]


def change(number: int, kind: str = "config", **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "at_ms": AT_MS + number,
        "connector": "x",
        "kind": kind,
        "action": "update",
        "who": "me@10.0.0.1",
        "worker_id": "w1:8083",
        "before": None,
        "after": None,
        "note": "",
        **more,
    }


def test_history_is_listed_oldest_first_with_its_problem(cluster: StandInCluster, connectrt: Commands) -> None:
    asked: list[dict[str, str]] = []

    def answer(query: dict[str, str], _: Any) -> Any:
        asked.append(query)
        moved = change(7, "offsets", after={"offsets": [{"partition": {"f": 1}, "offset": {"n": 1}}]})
        sides: dict[str, Any] = {"before": {"a": "1", "b": "2"}, "after": {"a": "1", "b": "3", "c": "4"}}
        written = change(8, note="by hand", **sides, changed_unseen=["db.password"])
        return 200, {"changes": [written, moved], "problem": "the topic is away"}

    cluster.admin["/admin/history"] = answer
    ended = connectrt("history", "x", "--kind", "config", "--kind", "state", "--limit", "5")
    assert asked == [{"connector": "x", "kind": "config,state", "limit": "5"}]
    assert [line.split()[0] for line in ended.lines] == ["NUMBER", "7", "8"]
    assert ended.lines[1].endswith("1 partition         -")
    assert ended.lines[2].endswith("x           config    update   me@10.0.0.1   b, c, db.password   by hand")
    assert "the topic is away" in ended.err
    connectrt("offsets", "history", "x")
    assert asked[-1]["kind"] == "offsets"


def test_diff_of_two_changes(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/history/x/diff"] = {
        "changes": [
            {"setting": "a", "before": "1", "after": None},
            {"setting": "password", "before": "p", "after": "q"},
        ]
    }
    ended = connectrt("diff", "x", "7", "8")
    assert ended.code == 6
    assert ended.out == (
        "connector x, from change 7 to 8\n  - a = 1\n  - password = [hidden]\n  + password = [hidden]\n"
    )
    assert cluster.asked[-1] == "GET /admin/history/x/diff?from=7&to=8"
    assert connectrt("diff", "x", "7").code == 2
    assert connectrt("diff", "x", "a", "b").code == 2


def test_rollback_shows_asks_and_applies(cluster: StandInCluster, connectrt: Commands) -> None:
    diff = [{"setting": "a", "before": "1", "after": "2"}]

    def answer(_: Any, body: Any) -> Any:
        return 200, {"diff": diff, "applied": not body["dry_run"], "kept": ["password"]}

    cluster.admin["POST /admin/history/x/7/rollback"] = answer
    ended = connectrt("rollback", "x", "7")
    assert ended.code == 1
    assert ended.out == "connector x, back to change 7\n  - a = 1\n  + a = 2\n"
    assert "password is hidden" in ended.err
    assert "--yes" in ended.err
    assert [body["dry_run"] for body in cluster.bodies] == [True]
    assert connectrt("rollback", "x", "7", "--dry-run").code == 0
    assert connectrt("rollback", "x", "7", "--yes").out.endswith("connector x rolled back to change 7\n")
    assert cluster.bodies[-1] == {"dry_run": False}
    words = ("--secret", "password=p=q", "--note", "OPS-7\nwhy é", "--yes")
    assert connectrt("rollback", "x", "7", *words).code == 0
    assert cluster.bodies[-1] == {"dry_run": False, "secrets": {"password": "p=q"}}
    assert cluster.headers[-1]["x-connectrt-note"] == "OPS-7 why ?"
    diff.clear()
    assert connectrt("rollback", "x", "7").out == "connector x unchanged\n"


def test_undo_of_the_last_change_of_offsets(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["/admin/history"] = {"changes": [change(9, "offsets", action="alter")], "problem": ""}
    answer: dict[str, Any] = {"offsets": MOVES, "applied": False, "problems": []}
    cluster.admin["POST /admin/history/x/9/undo"] = lambda *_: (200, answer)
    connectrt.answers = ["y"]
    ended = connectrt("offsets", "undo", "x")
    assert ended.code == 0
    assert "change 9: alter, " in ended.lines[0]
    assert ended.lines[1:] == [
        "connector x, undo of change 9",
        '  - {"f":"x"} = {"n":9}',
        '  + {"f":"x"} = {"n":4}',
        '  - {"f":"y"} = {"n":1}',
        "connector x: change 9 of its offsets was undone",
    ]
    answer["problems"] = ["the connector has moved since change 9"]
    ended = connectrt("offsets", "undo", "x", "9", "--yes")
    assert (ended.code, ended.err) == (9, "connectrt: the connector has moved since change 9\n")
    assert cluster.bodies[-1] == {"dry_run": True}
    connectrt("offsets", "undo", "x", "9", "--force")
    assert cluster.bodies[-1] == {"dry_run": True, "force": True}
    cluster.admin["POST /admin/history/x/9/undo"] = refused(409, "not safe: it runs elsewhere")
    assert connectrt("offsets", "undo", "x", "9").code == 9


def test_goto_a_time(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.admin["POST /admin/connectors/x/offsets/goto"] = {"offsets": MOVES, "applied": True, "at_ms": AT_MS}
    ended = connectrt("offsets", "goto", "x", "--time", "2h", "--yes")
    assert ended.code == 0
    assert [body["time_ms"] for body in cluster.bodies] == [AT_MS - 7_200_000] * 2
    assert [body["dry_run"] for body in cluster.bodies] == [True, False]
    assert connectrt("offsets", "goto", "x", "--time", "yesterday").code == 2


def test_diff_of_offsets(cluster: StandInCluster, connectrt: Commands) -> None:
    for number in (3, 4):
        after = {"offsets": [{"partition": {"f": 1}, "offset": {"n": number}}]}
        cluster.admin[f"/admin/history/x/{number}"] = change(number, "offsets", after=after)
    cluster.admin["/admin/history/x/5"] = change(5)
    ended = connectrt("offsets", "diff", "x", "3", "4")
    assert (ended.code, ended.lines[1:]) == (6, ['  - {"f": 1} = {"n": 3}', '  + {"f": 1} = {"n": 4}'])
    assert connectrt("offsets", "diff", "x", "3", "5").code == 2


def test_offsets_are_set_and_reset_of_a_stopped_connector(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("x", "STOPPED", "")
    cluster.connectors["x"]["offsets"] = [{"partition": {"f": 1}, "offset": {"n": 1}}]
    words = ("--partition", '{"f": 2}', "--offset", '{"n": 36893488147419103232}')
    ended = connectrt("offsets", "set", "x", *words)
    assert ended.code == 1
    assert ended.lines == ["connector x", '  + {"f": 2} = {"n": 36893488147419103232}']
    assert connectrt("offsets", "set", "x", *words, "--yes").code == 0
    assert cluster.bodies[-1] == {"offsets": [{"partition": {"f": 2}, "offset": {"n": 2**65}}]}
    file = connectrt.folder / "o.json"
    file.write_text(json.dumps({"offsets": cluster.connectors["x"]["offsets"]}))
    assert connectrt("offsets", "set", "x", str(file)).out == "connector x: offsets unchanged\n"
    assert connectrt("offsets", "set", "x", "-f", str(file)).out == "connector x: offsets unchanged\n"
    assert connectrt("offsets", "set", "x", "-f", "-", input=file.read_text()).code == 0
    assert connectrt("offsets", "set", "x", str(file), "-f", str(file)).code == 2
    assert connectrt("offsets", "set", "x").code == 2
    assert connectrt("offsets", "set", "x", "--partition", "{", "--offset", "1").code == 2
    assert connectrt("offsets", "reset", "x", "--dry-run").out.startswith("connector x\n  - ")
    cluster.connectors["x"]["offsets"] = [{"partition": {"file": "/secret/token.csv"}, "offset": {"n": 7}}]
    assert '= {"n": 7}' in connectrt("offsets", "reset", "x", "--dry-run").out  # an offset is no secret
    assert connectrt("offsets", "reset", "x", "--yes").code == 0
    assert cluster.connectors["x"]["offsets"] == []


def test_stop_brings_the_connector_back_whatever_happens(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("x", "PAUSED", "P")
    cluster.connectors["x"]["offsets"] = [{"partition": {"f": 1}, "offset": {"n": 1}}]
    refusal = connectrt("offsets", "reset", "x", "--yes").err
    assert "STOPPED state" in refusal
    assert "\n--stop stops it for the change and resumes it afterwards\n" in refusal
    ended = connectrt("offsets", "reset", "x", "--yes", "--stop")
    assert (ended.code, len(ended.lines)) == (0, 3)
    assert cluster.writes()[-3:] == [
        "PUT /connectors/x/stop",
        "DELETE /connectors/x/offsets",
        "PUT /connectors/x/pause",
    ]
    cluster.connectors["x"]["offsets"] = [{"partition": {"f": 1}, "offset": {"n": 1}}]
    real = cluster._answer
    cluster._answer = lambda *words: refused(500, "boom") if words[0] == "DELETE" else real(*words)  # type: ignore[method-assign]
    assert connectrt("offsets", "reset", "x", "--yes", "--stop").code == 1
    assert cluster.connectors["x"]["state"] == "PAUSED"


def test_reset_with_a_workers_file_is_the_word_it_was(connectrt: Commands, cluster: StandInCluster) -> None:
    ended = connectrt("offsets", "reset", "/no/such.properties", "x", "--apply")
    assert ended.code == 14
    assert "/no/such.properties: the properties file cannot be read" in ended.err
    assert cluster.asked == []
    assert connectrt("offsets", "reset", "x", "--apply").code == 2
    assert connectrt("offsets", "reset", "a", "b", "c").code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1789999999999", 1_789_999_999_999),
        ("2026-11-21T10:00Z", 1_795_255_200_000),
        ("2026-11-21T10:00+02:00", 1_795_248_000_000),
        ("30s", AT_MS - 30_000),
        ("2d", AT_MS - 172_800_000),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert time_ms(text, AT_MS) == expected


@pytest.mark.parametrize("text", ["", "now", "12", "9" * 30, "2026-13-01", "1y", "٣٣٣٣٣٣٣"])
def test_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(BadRequestError):
        time_ms(text, AT_MS)
