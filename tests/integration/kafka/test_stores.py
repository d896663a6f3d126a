"""The three stores on a real broker: what one worker writes, another reads; what Java wrote, both read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_records import SessionKey, TargetState
from spark_connect_rt.topics.config_state import ConfigEvent, RestartRequested
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_records import ConnectorStatus, State
from spark_connect_rt.topics.status_store import StatusStore
from tests.contract.compacted_log_contract import fresh_name, until

NewLog = Callable[[str, int], KafkaCompactedLog]
LIMIT_MS = 20_000


@pytest.fixture
def new_log(broker: EmbeddedKafka) -> Iterator[NewLog]:
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    clients = log_client_properties(
        worker_settings({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}), "configs"
    )
    logs: list[KafkaCompactedLog] = []

    def made(topic: str, partitions: int) -> KafkaCompactedLog:
        logs.append(KafkaCompactedLog(TopicSpec(topic, partitions, 1), admin, clients))
        return logs[-1]

    yield made
    for log in logs:
        log.stop()
    admin.close()


def test_two_config_stores_agree_on_state_and_offset(new_log: NewLog) -> None:
    topic, events = fresh_name("configs"), list[ConfigEvent]()
    store, other = ConfigStore(new_log(topic, 1)), ConfigStore(new_log(topic, 1))
    store.start(lambda _: None)
    other.start(events.append)
    store.put_session_key(SessionKey(b"k" * 32, "HmacSHA256", 1))
    store.put_connector_config("a-b", {"name": "a-b", "x": "ü"}, TargetState.PAUSED)
    store.put_task_configs({"a-b": [{"f": "1"}, {"f": "2"}]})
    store.put_connector_config("gone", {"name": "gone"})
    store.remove_connector_config("gone")
    other.put_target_state("a-b", TargetState.STOPPED)
    store.put_restart_request("a-b", include_tasks=True, only_failed=False)
    store.put_task_count_record("a-b", 2)
    assert other.refresh(LIMIT_MS) == store.refresh(LIMIT_MS)
    assert store.snapshot().connectors() == ("a-b",)
    assert store.snapshot().tasks("a-b") == (ConnectorTaskId("a-b", 0), ConnectorTaskId("a-b", 1))
    assert store.snapshot().target_state("a-b") is TargetState.STOPPED
    assert RestartRequested("a-b", True, False) in events
    late = ConfigStore(new_log(topic, 1))
    late.start(lambda _: None)
    assert late.snapshot() == store.snapshot()


def test_offsets_are_durable_when_they_are_reported(new_log: NewLog) -> None:
    topic = fresh_name("offsets")
    store, reader = OffsetStore(new_log(topic, 5)), OffsetStore(new_log(topic, 5))
    store.start()
    reader.start()
    answers: list[Exception | None] = []
    count = 2_000
    for position in range(count):
        store.put("c", [({"file": str(position % 7)}, {"position": position})], answers.append)
    until(lambda: len(answers) == count)
    assert set(answers) == {None}
    partitions = [{"file": str(number)} for number in range(7)]
    expected = [{"position": count - 1 - (count - 1 - number) % 7} for number in range(7)]
    assert reader.read("c", partitions) == expected
    store.put("c", [(partitions[0], None)])
    store.flush(LIMIT_MS)
    assert reader.read("c", partitions[:1]) == [None]
    assert len(reader.connector_offsets("c")) == 6


def test_statuses_reach_the_other_worker_without_asking(new_log: NewLog) -> None:
    topic = fresh_name("statuses")
    store, other = StatusStore(new_log(topic, 5)), StatusStore(new_log(topic, 5))
    store.start()
    other.start()
    running = ConnectorStatus(State.RUNNING, "w1", 1, version="4.1.1")
    store.put_connector("c", running)
    store.put_task(ConnectorTaskId("c", 0), running)
    store.put_topic("c", "t", 0)
    until(lambda: other.connector("c") == running and bool(other.tasks("c")) and other.topics("c") == ("t",))
    other.remove_task(ConnectorTaskId("c", 0))
    other.put_connector("c", ConnectorStatus(State.DESTROYED, "w2", 2))
    until(lambda: store.connectors() == set())
