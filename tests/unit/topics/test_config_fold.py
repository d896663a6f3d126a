import json
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics.config_records import SessionKey, TargetState
from spark_connect_rt.topics.config_state import (
    ClusterConfigState,
    ConfigEvents,
    ConfigFold,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)


class Topic:
    """Feeds a fold as a topic would."""

    def __init__(self) -> None:
        self.fold = ConfigFold()
        self.offset = -1

    def put(self, key: str, value: Any) -> ConfigEvents:
        self.offset += 1
        raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        return self.fold.apply(self.offset, key.encode(), raw)

    def connector(self, name: str = "c", **properties: str) -> ConfigEvents:
        return self.put(f"connector-{name}", {"properties": {"name": name, **properties}})

    def task(self, number: int, name: str = "c", **properties: str) -> ConfigEvents:
        return self.put(f"task-{name}-{number}", {"properties": properties})

    def commit(self, count: int, name: str = "c") -> ConfigEvents:
        return self.put(f"commit-{name}", {"tasks": count})

    @property
    def state(self) -> ClusterConfigState:
        return self.fold.snapshot()


@pytest.fixture
def topic() -> Topic:
    return Topic()


def task(number: int, name: str = "c") -> ConnectorTaskId:
    return ConnectorTaskId(name, number)


def test_before_the_first_record_the_offset_is_minus_one(topic: Topic) -> None:
    assert topic.state.offset == -1
    assert topic.state.connectors() == ()


def test_a_connector_is_started_unless_said_otherwise(topic: Topic) -> None:
    assert topic.connector(a="1") == (ConnectorConfigUpdated("c"),)
    assert topic.state.connector_config("c") == {"name": "c", "a": "1"}
    assert topic.state.target_state("c") is TargetState.STARTED
    assert topic.state.offset == 1


def test_a_target_state_before_the_connector_holds_and_notifies_no_listener(topic: Topic) -> None:
    assert topic.put("target-state-c", {"state": "PAUSED", "state.v2": "STOPPED"}) == ()
    topic.connector()
    assert topic.state.target_state("c") is TargetState.STOPPED


def test_only_a_changed_target_state_is_an_event(topic: Topic) -> None:
    topic.connector()
    assert topic.put("target-state-c", {"state": "PAUSED"}) == (TargetStateChanged("c"),)
    assert topic.put("target-state-c", {"state": "PAUSED", "state.v2": "PAUSED"}) == ()


def test_a_target_state_tombstone_starts_a_connector_that_is_still_there(topic: Topic) -> None:
    topic.connector()
    topic.put("target-state-c", {"state": "PAUSED"})
    assert topic.put("target-state-c", None) == ()
    assert topic.state.target_state("c") is TargetState.STARTED


@pytest.mark.parametrize("value", [{"state.v2": "DOZING", "state": "PAUSED"}, {"state": 1}, [], 1])
def test_an_unknown_target_state_changes_nothing(topic: Topic, value: Any) -> None:
    topic.connector()
    with pytest.raises(DataError):
        topic.put("target-state-c", value)
    assert topic.state.target_state("c") is TargetState.STARTED
    assert topic.state.offset == 2  # readable, so the offset moves


def test_tasks_have_no_effect_before_their_commit(topic: Topic) -> None:
    topic.connector()
    assert topic.task(0, f="x") == ()
    assert topic.state.tasks("c") == ()
    assert topic.state.task_config(task(0)) is None
    topic.task(1, f="y")
    assert topic.commit(2) == (TaskConfigsUpdated("c", (task(0), task(1))),)
    assert topic.state.tasks("c") == (task(0), task(1))
    assert topic.state.task_config(task(1)) == {"f": "y"}
    assert topic.state.applied_config("c") == {"name": "c"}
    assert topic.state.pending_fencing == {"c"}
    assert topic.state.task_config_generation("c") == 0


def test_an_incomplete_set_is_inconsistent_until_a_complete_one(topic: Topic) -> None:
    topic.connector()
    topic.task(0, f="x")
    topic.commit(1)
    topic.task(1, f="y")
    assert topic.commit(2) == (TaskConfigsUpdated("c", ()),)
    assert topic.state.inconsistent == {"c"}
    assert topic.state.tasks("c") == ()
    assert topic.state.task_count("c") == 2
    assert topic.state.task_config_generation("c") == 0
    topic.task(0)  # the earlier task 1 was dropped with the failed commit
    topic.commit(2)
    assert topic.state.inconsistent == {"c"}
    topic.task(0)
    topic.task(1)
    topic.commit(2)
    assert topic.state.inconsistent == set()
    assert len(topic.state.tasks("c")) == 2


def test_a_shrunk_set_hides_the_higher_tasks(topic: Topic) -> None:
    topic.connector()
    for number in range(3):
        topic.task(number)
    topic.commit(3)
    topic.task(0, f="new")
    topic.commit(1)
    assert topic.state.tasks("c") == (task(0),)
    assert topic.state.task_config(task(0)) == {"f": "new"}


def test_no_tasks_are_a_complete_set(topic: Topic) -> None:
    topic.connector()
    topic.task(0)
    topic.commit(1)
    assert topic.commit(0) == (TaskConfigsUpdated("c", ()),)
    assert topic.state.tasks("c") == ()
    assert topic.state.inconsistent == set()


def test_a_commit_is_overtaken_by_what_is_written_after_it(topic: Topic) -> None:
    topic.connector()
    topic.task(0)
    assert topic.state.overtaken == frozenset()  # nothing is committed yet
    topic.commit(1)
    assert topic.state.overtaken == frozenset()
    topic.connector()  # the same configuration, but after the commit
    assert topic.state.overtaken == {"c"}
    topic.task(0)
    topic.commit(1)
    assert topic.state.overtaken == frozenset()
    topic.task(0, f="not committed")
    assert topic.state.overtaken == {"c"}
    topic.put("connector-c", None)
    assert topic.state.overtaken == frozenset()


def test_the_applied_configuration_is_that_of_the_last_commit(topic: Topic) -> None:
    topic.connector(v="1")
    topic.commit(0)
    topic.connector(v="2")
    assert topic.state.applied_config("c") == {"name": "c", "v": "1"}


def test_deletion_forgets_the_tasks_but_not_the_task_count_record(topic: Topic) -> None:
    topic.connector()
    topic.task(0)
    topic.task(1)
    topic.commit(2)
    topic.put("tasks-fencing-c", {"task-count": 2})
    assert topic.put("connector-c", None) == (ConnectorConfigRemoved("c"),)
    topic.put("target-state-c", None)
    state = topic.state
    assert not state.contains("c")
    assert state.tasks("c") == ()
    assert state.task_config(task(0)) is None
    assert state.applied_config("c") is None
    assert state.target_state("c") is None
    assert state.task_count_record("c") == 2


def test_tasks_of_a_deleted_connector_do_not_come_back(topic: Topic) -> None:
    topic.task(0, f="old")  # compaction kept these, and dropped the connector and its tombstone
    topic.task(1, f="old")
    assert topic.commit(2) == ()
    topic.connector()
    assert topic.state.tasks("c") == ()
    topic.task(0, f="new")
    topic.commit(2)
    assert topic.state.inconsistent == {"c"}


def test_a_task_count_record_ends_the_pending_fencing(topic: Topic) -> None:
    topic.connector()
    topic.commit(0)
    assert topic.put("tasks-fencing-c", {"task-count": 3}) == ()
    assert topic.state.pending_fencing == set()
    assert topic.state.task_count_record("c") == 3


def test_names_with_dashes_are_whole_names(topic: Topic) -> None:
    topic.connector("a-b")
    topic.task(0, "a-b", f="x")
    topic.commit(1, "a-b")
    assert topic.state.task_config(task(0, "a-b")) == {"f": "x"}


def test_session_key_restart_and_logger_records_are_events(topic: Topic) -> None:
    key = {"key": "AAE=", "algorithm": "HmacSHA256", "creation-timestamp": 5}
    expected = SessionKey(b"\x00\x01", "HmacSHA256", 5)
    assert topic.put("session-key", key) == (SessionKeyUpdated(expected),)
    assert topic.state.session_key == expected
    assert topic.put("restart-connector-c", {"only-failed": True}) == (RestartRequested("c", False, True),)
    assert topic.put("logger-cluster-org.x", {"level": "debug"}) == (LoggerLevelUpdated("org.x", "debug"),)


def test_an_unreadable_record_does_not_move_the_offset(topic: Topic) -> None:
    topic.connector()
    with pytest.raises(DataError):
        topic.put("connector-d", b"{not json")
    assert topic.state.offset == 1
    topic.connector("e")
    assert topic.state.offset == 3


@pytest.mark.parametrize("key", ["task-c-0", "commit-c", "tasks-fencing-c", "session-key", "restart-connector-c"])
def test_a_null_value_of_what_is_never_deleted_is_ignored(topic: Topic, key: str) -> None:
    topic.connector()
    before = topic.state
    with pytest.raises(DataError):
        topic.put(key, None)
    assert topic.state.offset == before.offset + 1
    assert topic.state.task_counts == before.task_counts
    assert topic.state.pending_fencing == before.pending_fencing


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unknown-c", {}),
        ("task-c-x", {"properties": {}}),
        ("connector-c", {"properties": []}),
        ("connector-c", {"properties": {"a": 1}}),
        ("connector-c", 1),
        ("commit-c", {"tasks": "2"}),
        ("commit-c", {}),
        ("commit-c", 2),
        ("tasks-fencing-c", {}),
        ("tasks-fencing-c", {"task-count": 1.5}),
        ("restart-connector-c", []),
        ("logger-cluster-org.x", {}),
        ("logger-cluster-org.x", {"level": 1}),
        ("task-c-0", {"properties": {"a": 1}}),
        ("task-0", {"properties": {}}),
        ("session-key", {"key": "AAE=", "algorithm": "HmacSHA256", "creation-timestamp": 1.5}),
    ],
)
def test_a_record_of_the_wrong_form_changes_nothing_but_the_offset(topic: Topic, key: str, value: Any) -> None:
    topic.connector(a="1")
    before = topic.state
    with pytest.raises(DataError):
        topic.put(key, value)
    after = topic.state
    assert after.offset == before.offset + 1
    assert after.connector_configs == before.connector_configs
    assert (after.task_counts, after.session_key) == (before.task_counts, before.session_key)


def test_a_snapshot_does_not_change_afterwards(topic: Topic) -> None:
    topic.connector()
    before = topic.state
    topic.connector("d")
    topic.put("connector-c", None)
    assert before.connectors() == ("c",)


def test_deletion_touches_neither_generation_nor_inconsistency_nor_pending_fencing(topic: Topic) -> None:
    """Java keeps all of these apart from the configuration, and the recreated connector fences the old producers."""
    topic.connector()
    topic.task(0)
    topic.commit(1)
    topic.put("tasks-fencing-c", {"task-count": 1})
    topic.task(0)
    topic.commit(2)
    before = topic.state
    assert (before.inconsistent, before.pending_fencing) == ({"c"}, {"c"})
    topic.put("connector-c", None)
    after = topic.state
    assert (after.inconsistent, after.pending_fencing) == ({"c"}, {"c"})
    assert after.generations == before.generations == {"c": 0}
    topic.connector()
    topic.task(0)
    topic.commit(1)
    assert topic.state.inconsistent == set()
    assert topic.state.task_config_generation("c") == 1
    assert topic.state.task_count_record("c") == 1


def test_tasks_beyond_the_count_are_reported_and_hidden(topic: Topic) -> None:
    topic.connector()
    topic.task(0)
    topic.task(5)
    assert topic.commit(1) == (TaskConfigsUpdated("c", (task(0), task(5))),)
    assert topic.state.tasks("c") == (task(0),)
    assert topic.state.task_config(task(5)) == {}


def test_the_generation_moves_with_task_sets_only(topic: Topic) -> None:
    topic.connector()
    topic.commit(0)
    assert topic.state.task_config_generation("c") is None  # no task was ever written
    topic.task(0)
    topic.commit(1)
    topic.commit(0)  # the set that the last commit emptied is a set all the same
    assert topic.state.task_config_generation("c") == 1


def test_an_incomplete_set_waits_for_fencing_too(topic: Topic) -> None:
    topic.connector()
    topic.commit(1)
    assert topic.state.inconsistent == topic.state.pending_fencing == {"c"}
    assert topic.state.task_count("c") == 1


def test_a_second_configuration_leaves_state_and_tasks_alone(topic: Topic) -> None:
    topic.connector()
    topic.put("target-state-c", {"state": "PAUSED"})
    topic.task(0)
    topic.commit(1)
    assert topic.connector(v="2") == (ConnectorConfigUpdated("c"),)
    assert topic.state.target_state("c") is TargetState.PAUSED
    assert topic.state.tasks("c") == (task(0),)


def test_waiting_tasks_are_dropped_with_their_connector(topic: Topic) -> None:
    topic.connector()
    topic.task(0)
    topic.put("connector-c", None)
    topic.connector()
    topic.commit(1)
    assert topic.state.inconsistent == {"c"}


def test_a_target_state_of_an_unknown_connector_is_forgotten_by_its_tombstone(topic: Topic) -> None:
    topic.put("target-state-c", {"state": "PAUSED"})
    topic.put("target-state-c", None)
    topic.connector()
    assert topic.state.target_state("c") is TargetState.STARTED
