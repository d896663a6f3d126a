"""A worker serves while its offset topic is still being read; whoever needs offsets waits for the right ones."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.memory_connectors import faults
from tests.integration.kafka.test_herder import RealGroup
from tests.support.connect_rest import ConnectRest

LIMIT_S = 60.0
RECORDS, KEYS = 5_000, 10
CONFIG = {"connector.class": "MemorySource", "name": "old", "topic": "t"}


class HeldLoad(LatestLoad):
    """Reads no further until it is let go: the slowest broker there is."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.go = threading.Event(), threading.Event()

    def take(self, messages: Sequence[Any], last: Mapping[int, Any]) -> bool:
        self.began.set()
        assert self.go.wait(LIMIT_S)
        return super().take(messages, last)


@pytest.fixture
def group(broker: EmbeddedKafka) -> Iterator[RealGroup]:
    """One stopped connector, a long history of its offsets."""
    faults.clear()
    group = RealGroup(broker.bootstrap_servers)
    admin = KafkaAdmin(group.raw)
    for kind, partitions in (("configs", 1), ("offsets", 5)):
        admin.create_topic(TopicSpec(f"{group.name}-{kind}", partitions, 1, {"cleanup.policy": "compact"}))
    admin.close()
    # A retry to a topic that was just created must not overtake: the last record of a key counts.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value in (
        ("target-state-old", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ("connector-old", {"properties": CONFIG}),
        ("commit-old", {"tasks": 0}),
    ):
        producer.produce(f"{group.name}-configs", json.dumps(value), key)
    for number in range(RECORDS):
        producer.produce(f"{group.name}-offsets", b'{"position":%d}' % number, b'["old",{"n":%d}]' % (number % KEYS))
    assert producer.flush(30) == 0
    yield group
    faults.clear()
    for herder in group.by_url.values():
        assert herder.stop(30)


@contextlib.contextmanager
def served(herder: DistributedHerder, limit_ms: int) -> Iterator[ConnectRest]:
    server = RestServer(create_app(herder, request_limit_ms=limit_ms), "127.0.0.1", 0)
    server.start()
    try:
        with ConnectRest(f"http://127.0.0.1:{server.port}") as rest:
            yield rest
    finally:
        server.stop()


def test_everything_but_offsets_is_answered_while_the_offset_topic_is_read(group: RealGroup) -> None:
    load = HeldLoad()
    herder = group.start("w1", load)
    with contextlib.ExitStack() as stack:
        hasty_rest, rest = (stack.enter_context(served(herder, limit_ms)) for limit_ms in (500, 90_000))
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(load.go.set)  # also when this fails: somebody waits for it
        assert load.began.wait(LIMIT_S)
        asked = pool.submit(rest.request, "GET", "/connectors/old/offsets")
        rest.until(lambda: rest.probe("/health"), True, LIMIT_S, "health")
        assert rest.request("GET", "/connectors").json() == ["old"]
        rest.await_states("old", "STOPPED", [], LIMIT_S)
        assert rest.request("GET", "/connectors/old/config").json() == CONFIG
        rest.create("new", {"connector.class": "MemorySource", "topic": "t", "records": "10"})
        assert sorted(rest.request("GET", "/connectors?expand=info").json()) == ["new", "old"]
        late = hasty_rest.request("GET", "/connectors/old/offsets")
        assert (late.status, late.json()["message"].split(".")[0]) == (500, "Request timed out")
        assert not asked.done()
        load.go.set()
        found = asked.result(LIMIT_S).json()["offsets"]
        assert {entry["partition"]["n"]: entry["offset"]["position"] for entry in found} == {
            number: RECORDS - KEYS + number for number in range(KEYS)
        }
        rest.await_states("new", "RUNNING", ["RUNNING"], LIMIT_S)
