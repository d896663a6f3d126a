"""Generated task configurations: counted, made raw again, compared."""

import re

import pytest

from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import ConnectError, NotAssignedError, NotLeaderError
from spark_connect_rt.group.peers import GroupStanding, require_leader, require_owner
from spark_connect_rt.runtime.task_configs import (
    checked_count,
    completed_task_config,
    enforces,
    raw_task_config,
    retry_delay_ms,
    task_configs_changed,
)

_TOO_MANY = (
    r"^The connector a has generated 3 tasks, which is greater than 2, the maximum number of tasks it is configured to "
    r"create\."
)


def test_too_many_tasks_are_an_error_or_a_warning() -> None:
    assert checked_count("a", [{}, {}], 2, enforce=True) is None
    with pytest.raises(ConnectError, match=_TOO_MANY):
        checked_count("a", [{}, {}, {}], 2, enforce=True)
    warning = checked_count("a", [{}, {}, {}], 2, enforce=False)
    assert warning is not None
    assert re.search(_TOO_MANY, warning)


def test_tasks_max_is_enforced_unless_the_user_says_otherwise() -> None:
    assert [enforces({"tasks.max.enforce": text}) for text in ("false", " False ", "true", "TRUE")] == [
        False,
        False,
        True,
        True,
    ]
    assert enforces({})


def test_secrets_are_references_again_where_the_value_came_from_the_same_key() -> None:
    raw = StoredConfig({"password": "${file:s:p}", "user": "me"})
    resolved = {"password": "pw", "user": "me"}
    generated = {"password": "pw", "user": "me", "computed": "pw"}
    assert raw_task_config(generated, raw, resolved) == {**generated, "password": "${file:s:p}"}
    assert raw_task_config({"password": "other"}, raw, resolved) == {"password": "other"}


def test_a_task_gets_its_class_and_a_sinks_topics() -> None:
    connector = StoredConfig({"topics": "t", "topics.regex": ""})
    assert completed_task_config({"x": "1"}, "m:C", connector, sink=True) == {
        "x": "1",
        "task.class": "m:C",
        "topics": "t",
    }
    assert completed_task_config({}, "m:C", connector, sink=False) == {"task.class": "m:C"}


def test_a_set_is_rewritten_only_when_something_differs() -> None:
    made_from = StoredConfig({"c": "1"})
    same = ([{"n": "0"}], [StoredConfig({"n": "0"})], made_from, made_from)
    assert task_configs_changed(*same) is None
    assert task_configs_changed([], *same[1:]) == "1 tasks become 0"
    assert task_configs_changed([{"n": "1"}], *same[1:]) == "task 0 has a new configuration"
    assert task_configs_changed(*same[:3], StoredConfig({"c": "0"})) == "the connector's configuration changed"
    assert task_configs_changed(*same[:3], None) == "the connector's configuration changed"


def test_attempts_back_off_to_a_minute() -> None:
    assert [retry_delay_ms(n, 0.5) for n in (0, 1, 2, 8, 50)] == [250, 500, 1_000, 60_000, 60_000]
    assert (retry_delay_ms(1, 0.0), retry_delay_ms(1, 1.0)) == (400, 600)


def test_requests_are_sent_to_the_leader_and_from_there_to_the_owner() -> None:
    leader, other = GroupStanding(True, "http://me/"), GroupStanding(False, "http://leader/")
    require_leader(leader, "delete")
    with pytest.raises(NotLeaderError) as not_leader:
        require_leader(other, "delete")
    assert not_leader.value.leader_url == "http://leader/"
    require_owner(other, True, None, "restart")
    with pytest.raises(NotLeaderError):
        require_owner(other, False, "http://owner/", "restart")
    with pytest.raises(NotAssignedError) as not_owner:
        require_owner(leader, False, "http://owner/", "restart")
    assert not_owner.value.owner_url == "http://owner/"
