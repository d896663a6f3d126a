from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.config_records import SessionKey, TargetState
from spark_connect_rt.topics.config_state import (
    ConfigEvent,
    ConfigFold,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from spark_connect_rt.topics.config_store import ConfigStore


class Fixture:
    def __init__(self, topic: MemoryLogTopic) -> None:
        self.topic = topic
        self.events: list[ConfigEvent] = []
        self.store = ConfigStore(MemoryCompactedLog(topic, exact_partitions=1, threaded=False))

    def start(self) -> "Fixture":
        self.store.start(self.events.append)
        return self

    def written(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.topic.records()]


@pytest.fixture
def topic() -> MemoryLogTopic:
    return MemoryLogTopic("configs")


@pytest.fixture
def it(topic: MemoryLogTopic) -> Iterator[Fixture]:
    fixture = Fixture(topic).start()
    yield fixture
    fixture.store.stop()


def test_an_empty_topic_gives_offset_minus_one(it: Fixture) -> None:
    assert it.store.snapshot().offset == -1


def test_a_write_is_read_back_before_it_returns(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    assert it.store.snapshot().connector_config("c") == {"name": "c"}
    assert it.events == [ConnectorConfigUpdated("c")]
    assert it.written() == [(b"connector-c", b'{"properties":{"name":"c"}}')]


def test_an_initial_state_goes_before_the_connector(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"}, TargetState.STOPPED)
    assert [key for key, _ in it.written()] == [b"target-state-c", b"connector-c"]
    assert it.store.snapshot().target_state("c") is TargetState.STOPPED
    assert it.events == [ConnectorConfigUpdated("c")]


def test_deleting_writes_two_tombstones(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.store.remove_connector_config("c")
    assert it.written()[1:] == [(b"connector-c", None), (b"target-state-c", None)]
    assert it.store.snapshot().connectors() == ()
    assert it.events[1:] == [ConnectorConfigRemoved("c")]


def test_task_configs_become_visible_by_their_commit(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.store.put_task_configs({"c": [{"f": "x"}, {"f": "y"}]})
    assert [key for key, _ in it.written()[1:]] == [b"task-c-0", b"task-c-1", b"commit-c"]
    tasks = (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))
    assert it.store.snapshot().tasks("c") == tasks
    assert it.events[1:] == [TaskConfigsUpdated("c", tasks)]


def test_no_tasks_are_only_a_commit(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.store.put_task_configs({"c": []})
    assert it.written()[1:] == [(b"commit-c", b'{"tasks":0}')]


def test_a_stop_is_one_append(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.store.put_task_configs({"c": [{"f": "x"}]})
    it.store.put_stopped("c")
    assert [key for key, _ in it.written()[-2:]] == [b"commit-c", b"target-state-c"]
    assert it.store.snapshot().tasks("c") == ()
    assert it.store.snapshot().target_state("c") is TargetState.STOPPED


def test_the_other_writes(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.store.put_target_state("c", TargetState.PAUSED)
    key = SessionKey(b"k", "HmacSHA256", 1)
    it.store.put_session_key(key)
    it.store.put_restart_request("c", include_tasks=True, only_failed=False)
    it.store.put_task_count_record("c", 2)
    it.store.put_logger_level("root", "warn")
    assert it.events[1:4] == [
        TargetStateChanged("c"),
        SessionKeyUpdated(key),
        RestartRequested("c", True, False),
    ]
    assert it.store.snapshot().task_count_record("c") == 2
    assert it.store.snapshot().session_key == key
    assert it.written()[-1] == (b"logger-cluster-root", b'{"level":"warn"}')


def test_replayed_records_cause_no_events(topic: MemoryLogTopic) -> None:
    topic.write(
        [
            (b"connector-c", b'{"properties":{}}'),
            (b"restart-connector-c", b'{"include-tasks":true,"only-failed":true}'),
            (b"logger-cluster-org.x", b'{"level":"DEBUG"}'),
            (b"session-key", b'{"key":"AAE=","algorithm":"HmacSHA256","creation-timestamp":5}'),
        ]
    )
    late = Fixture(topic).start()
    assert late.events == []
    assert late.store.snapshot().connectors() == ("c",)
    assert late.store.snapshot().session_key == SessionKey(b"\x00\x01", "HmacSHA256", 5)  # holds from the start on
    assert late.store.snapshot().offset == 4


def test_one_store_sees_what_another_writes(topic: MemoryLogTopic) -> None:
    fixture, other = Fixture(topic).start(), Fixture(topic).start()
    fixture.store.put_connector_config("c", {"name": "c"})
    assert other.store.snapshot().connectors() == ()
    assert other.store.refresh(1_000).connectors() == ("c",)
    assert other.store.snapshot().offset == fixture.store.snapshot().offset == 1


def test_an_unreadable_record_is_passed_over(it: Fixture) -> None:
    it.store.put_connector_config("c", {"name": "c"})
    it.topic.write([(b"connector-d", b"{"), (b"what", b"{}")])
    assert it.store.refresh(1_000).offset == 3  # the first is unreadable, the second is merely unknown
    assert it.store.snapshot().connectors() == ("c",)


def test_a_failed_write_raises(it: Fixture) -> None:
    it.topic.fail_next_append(RetriableError("no leader"))
    with pytest.raises(ConnectError, match="no leader"):
        it.store.put_connector_config("c", {"name": "c"})


def test_an_unreachable_broker_is_a_time_out(it: Fixture) -> None:
    it.topic.reachable = False
    with pytest.raises((TimedOutError, RetriableError)):
        it.store.refresh(10)


def test_a_record_that_breaks_the_fold_does_not_end_the_reader(it: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ConfigFold.apply

    def broken(fold: ConfigFold, *record: Any) -> Any:
        if record[-1] == b"poison":
            raise OverflowError("cannot convert float infinity to integer")
        return apply(fold, *record)

    monkeypatch.setattr(ConfigFold, "apply", broken)
    it.topic.write([(b"any", b"poison")])
    it.store.put_connector_config("c", {"name": "c"})
    assert it.store.refresh(1_000).connectors() == ("c",)
