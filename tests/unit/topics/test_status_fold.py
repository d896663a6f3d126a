import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import status_records as records
from spark_connect_rt.topics.status_records import ConnectorStatus, State, TopicStatus, may_replace
from spark_connect_rt.topics.status_store import StatusFold, from_fields, to_fields

TASK = ConnectorTaskId("c", 0)


def value(status: ConnectorStatus) -> bytes:
    return records.encode_status(to_fields(status))


def status(state: State, worker: str = "w1", generation: int = 1) -> ConnectorStatus:
    return ConnectorStatus(state, worker, generation)


def test_a_status_goes_through_its_record() -> None:
    failed = ConnectorStatus(State.FAILED, "w", 3, "boom", "1.0")
    assert from_fields(to_fields(failed)) == failed


def test_the_last_status_counts_and_a_tombstone_forgets() -> None:
    fold = StatusFold()
    fold.apply(b"status-connector-c", value(status(State.RUNNING)))
    fold.apply(b"status-task-c-1", value(status(State.RUNNING)))
    fold.apply(b"status-task-c-0", value(status(State.PAUSED)))
    assert fold.connectors["c"].state is State.RUNNING
    assert [(n, s.state) for n, s in fold.tasks("c").items()] == [(0, State.PAUSED), (1, State.RUNNING)]
    fold.apply(b"status-connector-c", None)
    assert fold.connectors == {}
    assert fold.known() == {"c"}
    fold.apply(b"status-task-c-0", None)
    fold.apply(b"status-task-c-1", None)
    assert fold.known() == set()


@pytest.mark.parametrize(
    ("previous", "goodbye", "kept"),
    [
        (status(State.RUNNING, "w2", 3), status(State.UNASSIGNED, "w1", 2), State.RUNNING),
        (status(State.RUNNING, "w2", 2), status(State.UNASSIGNED, "w1", 2), State.RUNNING),
        (status(State.RUNNING, "w2", 1), status(State.UNASSIGNED, "w1", 2), State.UNASSIGNED),
        (status(State.RUNNING, "w1", 2), status(State.UNASSIGNED, "w1", 2), State.UNASSIGNED),
        (status(State.FAILED, "w2", 3), status(State.UNASSIGNED, "w1", 2), State.UNASSIGNED),
    ],
)
def test_a_late_goodbye_does_not_hide_the_next_owner(
    previous: ConnectorStatus, goodbye: ConnectorStatus, kept: State
) -> None:
    fold = StatusFold()
    fold.apply(b"status-task-c-0", value(previous))
    fold.apply(b"status-task-c-0", value(goodbye))
    found = fold.task(TASK)
    assert found is not None
    assert found.state is kept


def test_topics_are_remembered_until_reset() -> None:
    fold = StatusFold()
    for topic in ("t2", "t1"):
        topic_value = records.encode_topic_status(TopicStatus(topic, "c", 0, 1))
        fold.apply(f"status-topic-{topic}:connector-c".encode(), topic_value)
    assert fold.topics("c") == ("t1", "t2")
    assert fold.topics("d") == ()
    fold.apply(b"status-topic-t1:connector-c", None)
    fold.apply(b"status-topic-t9:connector-z", None)
    assert fold.topics("c") == ("t2",)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (b"other", b"{}"),
        (b"status-connector-c", b"{"),
        (b"status-connector-c", b'{"state":"DOZING","trace":null,"worker_id":"w","generation":1}'),
    ],
)
def test_unreadable_record_is_refused(key: bytes, raw: bytes) -> None:
    fold = StatusFold()
    with pytest.raises(DataError):
        fold.apply(key, raw)
    assert fold.known() == set()


def test_a_safe_put_yields_to_a_later_generation_of_another_worker() -> None:
    assert may_replace(None, status(State.FAILED))
    assert may_replace(status(State.RUNNING, "w1", 5), status(State.FAILED, "w1", 4))
    assert may_replace(status(State.RUNNING, "w2", 4), status(State.FAILED, "w1", 4))
    assert not may_replace(status(State.RUNNING, "w2", 5), status(State.FAILED, "w1", 4))
