"""Every change of a group is recorded once, with who made it, before and after; secrets are not among it."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.operations.dead_letters.sink_replay import HerderFeed
from spark_connect_rt.testing.memory_sink_group import MemoryGroupOffsets
from spark_connect_rt.topics import config_records as records
from tests.unit.operations.history.history_workers import HistoryWorkers

CONFIG = {"connector.class": "AlteredSource", "tasks.max": "1", "topic": "t", "records": "5", "db.password": "s3cret-1"}


def test_authors_of_changes_are_the_same_on_every_worker(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG}, worker=follower)
    group.ok("PUT", "/connectors/a/pause", worker=follower, X_Connectrt_Note="OPS-1")
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "9", "db.password": "s3cret-2"}, worker=follower)
    group.ok("PUT", "/connectors/a/stop")
    group.ok("DELETE", "/connectors/a")
    found = group.changes("a")
    group.cluster.until(lambda: group.changes("a", worker=follower) == found)
    assert [(change["kind"], change["action"]) for change in reversed(found)] == [
        ("config", "create"),
        ("state", "pause"),
        ("config", "update"),
        ("state", "stop"),
        ("config", "delete"),
    ]
    assert {change["who"] for change in found} == {"127.0.0.1"}  # forwarded or not: the client, not the worker
    numbers = [change["number"] for change in found]
    assert numbers == sorted(set(numbers), reverse=True)
    create, pause, update = list(reversed(found))[:3]
    assert (create["before"], create["after"]["records"]) == (None, "5")
    assert (pause["before"], pause["after"], pause["note"]) == ({"state": "RUNNING"}, {"state": "PAUSED"}, "OPS-1")
    assert (update["before"]["records"], update["after"]["records"]) == ("5", "9")
    assert update["changed_unseen"] == ["db.password"]
    assert found[0]["after"] is None
    assert "s3cret" not in str(group.topics.changes.records())
    assert [change["number"] for change in group.changes("a", "&kind=state&limit=1")] == [numbers[1]]
    assert [change["number"] for change in group.changes("a", f"&before={numbers[3]}")] == [numbers[4]]
    assert group.ok("GET", f"/admin/history/a/{numbers[2]}") == update
    assert group.asked("GET", f"/admin/history/b/{numbers[2]}").status_code == 404


def test_change_by_another_tool_is_recorded_once_without_an_author(
    group: HistoryWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_connect_rt.operations.history.recorder.LEADER_MS", 50)
    monkeypatch.setattr("spark_connect_rt.operations.history.recorder.OTHERS_MS", 60)
    value = records.encode_properties({**CONFIG, "name": "a"})
    group.cluster.config_topic.write([(records.connector_key("a"), value)])
    group.cluster.until(lambda: len(group.changes("a")) == 1)
    [change] = group.changes("a")
    assert (change["who"], change["worker_id"], change["action"]) == (None, None, "create")
    assert change["after"]["db.password"] == "[hidden]"
    group.ok("PUT", "/connectors/a/pause")
    assert len(group.changes("a")) == 2


def test_the_connector_of_a_replay_names_the_worker_that_made_it(group: HistoryWorkers) -> None:
    leader = group.named(leads=True)
    worker = group.cluster.workers[leader]
    offsets = MemoryGroupOffsets(group.cluster.consumer_groups)
    feed = HerderFeed(worker.herder, offsets, dict, group.histories[leader])
    feed.begin("a-replay-1", CONFIG)
    feed.end("a-replay-1")
    group.cluster.until(lambda: len(group.changes("a-replay-1")) == 2)
    asked = {(change["who"], change["note"]) for change in group.changes("a-replay-1")}
    assert asked == {(f"{leader}:8083", "a replay of dead letters")}


def test_offsets_and_loggers_are_changes_too(group: HistoryWorkers) -> None:
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.cluster.until(lambda: group.position("a") == 5)
    group.ok("PUT", "/connectors/a/stop")
    group.cluster.until(lambda: group.cluster.states("a") == {"a": "STOPPED"})
    partition = {"task": "a-0"}
    group.ok("PATCH", "/connectors/a/offsets", {"offsets": [{"partition": partition, "offset": {"position": 2}}]})
    group.ok("DELETE", "/connectors/a/offsets")
    reset, alter = group.changes("a", "&kind=offsets")
    at = [{"partition": partition, "offset": {"position": 5}}], [{"partition": partition, "offset": {"position": 2}}]
    assert (alter["action"], alter["before"]["offsets"], alter["after"]["offsets"]) == ("alter", *at)
    assert (reset["action"], reset["before"]["offsets"], reset["after"]["offsets"]) == ("reset", at[1], [])
    assert (alter["who"], reset["who"]) == ("127.0.0.1", "127.0.0.1")
    group.ok("PUT", "/admin/loggers/org.x?scope=cluster", {"level": "DEBUG"})
    group.ok("PUT", "/admin/loggers/org.y", {"level": "DEBUG"}, worker="w2")
    group.cluster.until(lambda: len(group.changes("")) == 2)
    loggers = {change["after"]["logger"]: change for change in group.changes("")}
    assert loggers["org.x"]["who"] == "127.0.0.1"
    assert (loggers["org.y"]["worker_id"], loggers["org.y"]["note"]) == ("w2:8083", "of this worker only")


def test_connect_continues_without_the_topic_and_reads_say_so(group: HistoryWorkers) -> None:
    group.topics.changes.reachable = False
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.ok("PUT", "/connectors/a/pause")
    page = group.ok("GET", "/admin/history?connector=a")
    assert (page["changes"], "not recorded yet" in page["problem"]) == ([], True)
    group.topics.changes.reachable = True
    group.cluster.until(lambda: len(group.ok("GET", "/admin/history?connector=a")["changes"]) == 2)
    assert [change["action"] for change in group.changes("a")] == ["pause", "create"]


def test_damaged_records_are_counted_and_the_others_shown(group: HistoryWorkers) -> None:
    group.topics.changes.write([(b"change-7-abc", b"{"), (b"nonsense", b"{}"), (b"change-8-abc", b'{"at_ms":"x"}')])
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    page = group.ok("GET", "/admin/history?connector=a")
    assert [change["action"] for change in page["changes"]] == ["create"]
    assert page["problem"].startswith("3 records of the history cannot be read: offset 0: ")


def test_an_append_that_fails_is_repeated(group: HistoryWorkers) -> None:
    group.topics.changes.fail_next_append(RetriableError("injected"))
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.cluster.until(lambda: len(group.changes("a")) == 1)


@pytest.mark.parametrize(
    "path",
    ["?limit=0", "?limit=2001", "?limit=x", "?kind=config,nothing", "?before=-1", f"?before={10**19}"],
)
def test_odd_parameters_are_refused(group: HistoryWorkers, path: str) -> None:
    assert group.asked("GET", f"/admin/history{path}").status_code == 400


def test_change_made_while_no_worker_ran_is_recorded_by_the_next_leader(group: HistoryWorkers) -> None:
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.ok("POST", "/connectors", {"name": "b", "config": CONFIG})
    for name in ("a", "b"):
        assert len(group.changes(name)) == 1
    for name in ("w1", "w2"):
        group.cluster.stop_worker(name)
        group.histories.pop(name).stop()
    new = {**CONFIG, "name": "a", "records": "7"}
    group.cluster.config_topic.write([(records.connector_key("a"), records.encode_properties(new))])
    group.cluster.config_topic.write([(records.connector_key("b"), None), (records.target_state_key("b"), None)])
    group.cluster.config_topic.compact()
    group.cluster.add_worker("w3")
    group.cluster.until(lambda: len(group.changes("a", worker="w3")) == 2 and len(group.changes("b", worker="w3")) == 2)
    update, create = group.changes("a", worker="w3")
    assert (update["action"], update["who"], update["before"]) == ("update", None, create["after"])
    assert update["after"]["records"] == "7"
    assert [change["action"] for change in group.changes("b", worker="w3")] == ["delete", "create"]


def test_events_of_changes_name_the_client_whichever_worker_served_it(group: HistoryWorkers) -> None:
    follower = group.named(leads=False)
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG}, worker=follower)
    group.ok("PUT", "/connectors/a/config", {**CONFIG, "records": "9"})
    group.cluster.until(lambda: group.position("a") == 9)
    group.ok("PUT", "/connectors/a/stop", worker=follower)
    group.cluster.until(lambda: group.cluster.states("a") == {"a": "STOPPED"})
    body = {"offsets": [{"partition": {"task": "a-0"}, "offset": {"position": 2}}]}
    group.ok("PATCH", "/connectors/a/offsets", body, worker=follower)
    group.ok("PUT", "/admin/loggers/org.x?scope=cluster", {"level": "DEBUG"})
    group.ok("PUT", "/admin/loggers/org.y", {"level": "DEBUG"}, worker=follower)
    value = records.encode_properties({**CONFIG, "name": "b"})
    group.cluster.config_topic.write([(records.connector_key("b"), value)])  # by another tool: nobody is named
    group.ok("DELETE", "/connectors/a", worker=follower)
    wanted = {
        "connector a is created": "127.0.0.1",
        "connector a is reconfigured": "127.0.0.1",
        "connector a: stop requested": "127.0.0.1",
        "offsets of a are altered": "127.0.0.1",
        "logger org.x is at DEBUG on every worker": "127.0.0.1",
        "logger org.y is at DEBUG on this worker": "127.0.0.1",
        "connector b is created": None,
        "connector a is deleted": "127.0.0.1",
    }

    def found() -> dict[str, str | None]:
        events = group.events("config", "state", "offsets", "logger")
        return {event.summary: event.who for event in events if " requested" in event.summary or event.kind != "state"}

    group.cluster.until(lambda: found() == wanted)
