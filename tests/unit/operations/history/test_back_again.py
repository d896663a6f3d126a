"""Rollback, undo, back to a time, and edits that meet: what was is restored, or refused with the reason."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from spark_connect_rt.topics.config_diff import rolled_back
from tests.unit.operations.history.history_workers import HistoryWorkers

CONFIG = {"connector.class": "AlteredSource", "tasks.max": "1", "topic": "t", "records": "5", "db.password": "s3cret-1"}
PARTITION = {"task": "a-0"}


def running(group: HistoryWorkers, records: int = 5) -> None:
    group.ok("POST", "/connectors", {"name": "a", "config": {**CONFIG, "records": str(records)}})
    group.cluster.until(lambda: group.position("a") == records)


def stopped(group: HistoryWorkers) -> None:
    group.ok("PUT", "/connectors/a/stop")
    group.cluster.until(lambda: group.cluster.states("a") == {"a": "STOPPED"})


def altered(group: HistoryWorkers, position: int) -> int:
    """Set the offset of a stopped connector; return the change's number."""
    body = {"offsets": [{"partition": PARTITION, "offset": {"position": position}}]}
    group.ok("PATCH", "/connectors/a/offsets", body)
    return int(group.changes("a", "&kind=offsets")[0]["number"])


def test_a_rollback_keeps_the_present_password(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    running(group)
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "9", "db.password": "s3cret-2"})
    [update, create] = group.changes("a", "&kind=config")
    first, second = create["number"], update["number"]
    path = f"/admin/history/a/{first}/rollback"
    diff = [{"setting": "records", "before": "9", "after": "5"}]
    hidden = {"setting": "db.password", "before": "[hidden]", "after": "[hidden]"}
    assert group.ok("GET", f"/admin/history/a/diff?from={second}&to={first}") == {"changes": [hidden, *diff]}
    dry = group.ok("POST", path, {"dry_run": True})
    assert dry == {"diff": diff, "applied": False, "kept": ["db.password"], "problems": {}}
    assert group.ok("GET", "/connectors/a/config")["records"] == "9"
    assert group.ok("POST", path, {}, worker=follower)["applied"] is True
    config = group.ok("GET", "/connectors/a/config")
    assert (config["records"], config["db.password"]) == ("5", "s3cret-2")
    newest = group.changes("a", "&kind=config")[0]
    assert (newest["note"], newest["who"]) == (f"rollback to change {first}", "127.0.0.1")
    given = group.ok("POST", path, {"secrets": {"db.password": "s3cret-3"}})
    assert (given["kept"], group.ok("GET", "/connectors/a/config")["db.password"]) == ([], "s3cret-3")


def test_a_deleted_connector_comes_back_with_its_secrets_given(group: HistoryWorkers) -> None:
    running(group)
    group.ok("PUT", "/connectors/a/pause")
    group.ok("DELETE", "/connectors/a")
    delete, create = group.changes("a", "&kind=config")
    refused = group.asked("POST", f"/admin/history/a/{create['number']}/rollback", {})
    assert (refused.status_code, "db.password" in refused.json()["message"]) == (409, True)
    assert refused.json()["code"] == "CRT-1037"
    body = {"secrets": {"db.password": "x" * 8}, "initial_state": "stopped"}
    assert group.ok("POST", f"/admin/history/a/{create['number']}/rollback", body)["applied"] is True
    assert group.ok("GET", "/connectors/a/config")["db.password"] == "x" * 8
    group.cluster.until(lambda: group.cluster.states("a") == {"a": "STOPPED"})
    gone = group.asked("POST", f"/admin/history/a/{delete['number']}/rollback", {})
    assert (gone.status_code, "deleted connector a" in gone.json()["message"]) == (409, True)


def test_an_undo_stops_writes_and_resumes(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    running(group)
    stopped(group)
    number = altered(group, 2)
    dry = group.ok("POST", f"/admin/history/a/{number}/undo", {"dry_run": True})
    move = {"partition": PARTITION, "from": {"position": 2}, "to": {"position": 5}}
    assert (dry["offsets"], dry["applied"], group.position("a")) == ([move], False, 2)
    assert group.ok("POST", f"/admin/history/a/{number}/undo", {}, worker=follower)["applied"] is True
    assert group.position("a") == 5
    newest = group.changes("a")[0]
    assert (newest["kind"], newest["note"], newest["who"]) == ("offsets", f"undo of change {number}", "127.0.0.1")
    assert group.ok("POST", f"/admin/history/a/{number}/undo", {}) == {
        "offsets": [],
        "applied": False,
        "problems": [],
        "at_ms": None,
    }


def test_an_undo_is_refused_where_the_connector_moved_on(group: HistoryWorkers) -> None:
    running(group)
    stopped(group)
    number = altered(group, 2)
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "8"})
    group.ok("PUT", "/connectors/a/resume")
    group.cluster.until(lambda: group.position("a") == 8)
    refused = group.asked("POST", f"/admin/history/a/{number}/undo", {})
    assert (refused.status_code, "has moved since change" in refused.json()["message"]) == (409, True)
    assert group.position("a") == 8
    assert group.ok("POST", f"/admin/history/a/{number}/undo", {"force": True})["applied"] is True
    group.cluster.until(lambda: group.cluster.states("a").get("a-0") == "RUNNING")  # as it was wanted before
    group.cluster.until(lambda: group.position("a") == 8)  # 5, and on from there
    config = group.changes("a", "&kind=config")[0]["number"]
    assert group.asked("POST", f"/admin/history/a/{config}/undo", {}).status_code == 409


def test_an_undo_that_connect_refuses_leaves_the_connector_running(group: HistoryWorkers) -> None:
    from tests.unit.operations.history.history_workers import AlteredSource

    running(group)
    stopped(group)
    number = altered(group, 5 - 3)
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "2"})
    group.ok("PUT", "/connectors/a/resume")
    group.cluster.until(lambda: group.cluster.states("a").get("a-0") == "RUNNING")
    AlteredSource.refuses = True
    assert group.asked("POST", f"/admin/history/a/{number}/undo", {}).status_code == 500
    group.cluster.until(lambda: group.cluster.states("a").get("a-0") == "RUNNING")
    group.out_of_range = ["t-0: records before 7 are gone, not 5"]
    refused = group.asked("POST", f"/admin/history/a/{number}/undo", {})
    assert (refused.status_code, "are gone" in refused.json()["message"]) == (409, True)


def test_back_to_where_it_was_at_a_time(group: HistoryWorkers) -> None:
    leader = group.named(leads=True)
    running(group, 3)
    course = group.histories[leader]._course
    assert course.look() == 1
    assert course.look() == 0  # nothing moved: nothing is written
    then_ms = int(time.time() * 1000)
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "9"})
    group.cluster.until(lambda: group.position("a") == 9)
    for worker in ("w1", "w2"):
        page = group.ok("GET", "/admin/connectors/a/offsets/course", worker=worker)
        assert [point["offsets"] for point in page["points"]] == [[{"partition": PARTITION, "offset": {"position": 3}}]]
        assert page["problem"] == ""
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "3"})
    path = "/admin/connectors/a/offsets/goto"
    dry = group.ok("POST", path, {"time_ms": then_ms, "dry_run": True})
    assert dry["offsets"] == [{"partition": PARTITION, "from": {"position": 9}, "to": {"position": 3}}]
    assert group.ok("POST", path, {"time_ms": then_ms})["applied"] is True
    assert group.position("a") == 3
    assert "back to where it was at" in group.changes("a", "&kind=offsets")[0]["note"]
    early = group.asked("POST", path, {"time_ms": 1_000})
    assert early.status_code == 409
    said, earliest = early.json()["message"].rsplit(" ", 1)
    assert said == "connector a has no offset history as far back as 1970-01-01T00:00:01Z. The earliest time is"
    first_ms = int(datetime.fromisoformat(earliest).timestamp() * 1000)
    assert group.asked("POST", path, {"time_ms": first_ms, "dry_run": True}).status_code == 200
    for body in ({}, {"time_ms": "1"}, {"time_ms": 2**65}, {"time_ms": 1, "x": True}, [1]):
        assert group.asked("POST", path, body).status_code == 400, body


def test_the_second_of_two_edits_is_refused_with_what_the_first_changed(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    running(group)
    read = group.asked("GET", "/connectors/a/config").headers["etag"]
    first = group.asked("PUT", "/connectors/a/config", {**CONFIG, "records": "6"}, If_Match=read)
    assert first.status_code == 200
    group.changes("a")
    for worker in ("w1", "w2"):
        second = group.asked("PUT", "/connectors/a/config", {**CONFIG, "topic": "u"}, worker, If_Match=read)
        assert (second.status_code, second.json()["code"]) == (412, "CRT-1036")
        assert second.json()["diff"] == [{"setting": "records", "before": "5", "after": "6"}]
    patch = group.asked("PATCH", "/connectors/a/config", {"topic": "u"}, follower, If_Match=read)
    assert patch.status_code == 412
    newest, oldest = (change["number"] for change in group.changes("a", "&kind=config"))
    assert group.asked("PATCH", "/connectors/a/config", {"topic": "v"}, If_Match=f'"{oldest}"').status_code == 412
    assert (
        group.asked("PATCH", "/connectors/a/config", {"topic": "v"}, follower, If_Match=f'"{newest}"').status_code
        == 200
    )
    assert group.asked("PUT", "/connectors/a/config", CONFIG, If_Match="what").status_code == 400
    assert group.asked("PUT", "/connectors/a/config", CONFIG, If_Match="*").status_code == 200


@pytest.mark.parametrize(("given", "missing"), [({}, ("p",)), ({"p": "x"}, ())])
def test_value_that_a_rollback_cannot_know_is_missing(given: dict[str, str], missing: tuple[str, ...]) -> None:
    found = rolled_back({"p": "[hidden]", "q": "1"}, {"q": "2"}, given)
    assert found.missing == missing
