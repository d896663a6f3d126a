import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.status_records import ConnectorStatus, State
from spark_connect_rt.topics.status_store import StatusFold, StatusStore
from tests.contract.compacted_log_contract import until

TASK = ConnectorTaskId("c", 0)


class Fixture:
    def __init__(self) -> None:
        self.topic = MemoryLogTopic("statuses", partitions=5)
        self.store = StatusStore(MemoryCompactedLog(self.topic, threaded=False), retry_backoff_ms=5)
        self.store.start()

    def keys(self) -> list[bytes | None]:
        return [record.key for record in self.topic.records()]


@pytest.fixture
def it() -> Iterator[Fixture]:
    fixture = Fixture()
    yield fixture
    fixture.store.stop()


def status(state: State, worker: str = "w1", generation: int = 1) -> ConnectorStatus:
    return ConnectorStatus(state, worker, generation)


def test_stored_statuses_are_read_after_a_flush(it: Fixture) -> None:
    it.store.put_connector("c", status(State.RUNNING))
    it.store.put_task(TASK, status(State.PAUSED))
    it.store.flush(1_000)
    assert it.store.connector("c") == status(State.RUNNING)
    assert it.store.task(TASK) == status(State.PAUSED)
    assert it.store.tasks("c") == {0: status(State.PAUSED)}
    assert it.store.connectors() == {"c"}
    assert it.keys() == [b"status-connector-c", b"status-task-c-0"]


def test_a_safe_put_yields_to_a_newer_worker(it: Fixture) -> None:
    it.store.put_task(TASK, status(State.RUNNING, "w2", 5))
    it.store.flush(1_000)
    it.store.put_task(TASK, status(State.FAILED, "w1", 4), safe=True)
    it.store.flush(1_000)
    assert it.store.task(TASK) == status(State.RUNNING, "w2", 5)
    it.store.put_task(TASK, status(State.FAILED, "w1", 4))
    it.store.flush(1_000)
    assert it.store.task(TASK) == status(State.FAILED, "w1", 4)


def test_destroyed_and_removed_are_tombstones(it: Fixture) -> None:
    it.store.put_connector("c", status(State.RUNNING))
    it.store.put_task(TASK, status(State.RUNNING))
    it.store.put_connector("c", status(State.DESTROYED))
    it.store.remove_task(TASK)
    it.store.flush(1_000)
    assert [record.value for record in it.topic.records()[2:]] == [None, None]
    assert it.store.connectors() == set()


def test_topics_are_written_once_and_reset(it: Fixture) -> None:
    it.store.put_topic("c", "t", 0)
    it.store.flush(1_000)
    it.store.put_topic("c", "t", 1)
    it.store.put_topic("c", "a", 1)
    it.store.flush(1_000)
    assert it.keys() == [b"status-topic-t:connector-c", b"status-topic-a:connector-c"]
    assert it.store.topics("c") == ("a", "t")
    it.store.reset_topics("c")
    it.store.flush(1_000)
    assert it.store.topics("c") == ()


def test_a_refused_status_is_sent_again(it: Fixture) -> None:
    it.topic.fail_next_append(RetriableError("not enough replicas"))
    it.store.put_task(TASK, status(State.FAILED))
    until(lambda: it.keys() == [b"status-task-c-0"])


def test_a_refused_status_is_given_up_for_a_newer_one(it: Fixture) -> None:
    it.topic.fail_next_append(RetriableError("not enough replicas"))
    it.store.put_task(TASK, status(State.RUNNING))
    it.store.put_task(TASK, status(State.FAILED))
    until(lambda: not any(type(thread) is threading.Timer for thread in threading.enumerate()))
    assert len(it.keys()) == 1


def test_a_status_that_cannot_be_written_is_logged(it: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    it.topic.fail_next_append(ConnectError("too large"))
    with caplog.at_level(logging.ERROR):
        it.store.put_task(TASK, status(State.FAILED))
    assert "status-task-c-0 cannot be written: too large" in caplog.text


def test_after_the_stop_a_put_only_logs(it: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    it.store.stop()
    it.store.put_task(TASK, status(State.UNASSIGNED))
    assert "status-task-c-0 cannot be written" in caplog.text


def test_unreadable_records_are_passed_over(it: Fixture) -> None:
    it.topic.write([(b"status-task-c-0", b"{"), (b"huh", b"{}")])
    it.store.put_connector("c", status(State.RUNNING))
    it.store.flush(1_000)
    assert it.store.connector("c") == status(State.RUNNING)
    assert it.store.task(TASK) is None


def test_a_record_that_breaks_the_fold_does_not_end_the_reader(it: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = StatusFold.apply

    def broken(fold: StatusFold, *record: Any) -> Any:
        if record[-1] == b"poison":
            raise OverflowError("cannot convert float infinity to integer")
        return apply(fold, *record)

    monkeypatch.setattr(StatusFold, "apply", broken)
    it.topic.write([(b"any", b"poison")])
    it.store.put_connector("c", status(State.RUNNING))
    it.store.flush(1_000)
    assert it.store.connector("c") == status(State.RUNNING)
