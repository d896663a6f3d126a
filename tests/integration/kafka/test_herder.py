"""Herders on a real broker: real topics, real group; the engine and the records stay in memory."""

import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.config.client_properties import log_client_properties, shared_admin_properties
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector, ReadOffsets
from spark_connect_rt.runtime.values import ConnectorOffset
from spark_connect_rt.testing.in_process_cluster import InProcessPeers, MemoryPlugins
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups, MemoryGroupOffsets
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore
from tests.support.group_members import new_member

PLUGINS = MemoryPlugins(
    {
        "MemorySource": MemorySource,
        "StringConverter": StringConverter,
        "SimpleHeaderConverter": SimpleHeaderConverter,
    }
)


class RealGroup:
    """Herders that share one broker, one group, one set of topics."""

    def __init__(self, bootstrap_servers: str) -> None:
        name = f"connect-{uuid.uuid4().hex[:8]}"
        self.raw = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": name,
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "header.converter": "SimpleHeaderConverter",
            "heartbeat.interval.ms": "200",
            "session.timeout.ms": "6000",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        self.topics = MemoryTopics()
        self.by_url: dict[str, DistributedHerder] = {}
        self.peers: PeerClient = InProcessPeers(self.by_url)
        self.name = name

    def start(self, worker: str, offset_load: LatestLoad | None = None) -> DistributedHerder:
        clock, raw = SystemClock(), self.raw
        admin = KafkaAdmin(shared_admin_properties(worker_settings(raw)))
        logs = {
            kind: KafkaCompactedLog(
                TopicSpec(f"{self.name}-{kind}", partitions, 1),
                admin,
                log_client_properties(worker_settings(raw), kind),
                load=offset_load if kind == "offsets" else None,
            )
            for kind, partitions in (("configs", 1), ("offsets", 5), ("statuses", 5))
        }
        herder = DistributedHerder(
            HerderDependencies(
                group_offsets=MemoryGroupOffsets(MemoryConsumerGroups()),
                settings=HerderSettings.of(f"{worker}:8083", f"http://{worker}:8083/", worker_settings(raw)),
                clock=clock,
                member=new_member(raw),
                config_store=ConfigStore(logs["configs"], clock),
                status_store=StatusStore(logs["statuses"], clock),
                offset_store=OffsetStore(logs["offsets"]),
                runner=MemoryTaskRunner(MemoryExecutorClients(self.topics, PLUGINS.class_of)),
                sink_groups=lambda _: pytest.fail("no sinks here"),
                plugins=PLUGINS,
                peers=self.peers,
                new_key=os.urandom,
            )
        )
        self.by_url[herder.views.progress().worker_url] = herder
        herder.start()
        herder.started.result(30)
        return herder

    def until(self, fact: Callable[[], bool], limit_s: float = 30.0) -> None:
        end_s = time.monotonic() + limit_s
        while not fact():
            if time.monotonic() > end_s:
                lines = [
                    f"{h.views.progress().worker_id} {x.step}: {x.reason}"
                    for h in self.by_url.values()
                    for x in h.views.events()[-15:]
                ]
                raise AssertionError("\n".join(lines))
            time.sleep(0.01)

    def leader(self) -> DistributedHerder:
        self.until(lambda: sum(h.views.is_leader() for h in self.by_url.values()) == 1)
        return next(h for h in self.by_url.values() if h.views.is_leader())


@pytest.fixture
def group(broker: EmbeddedKafka) -> Iterator[RealGroup]:
    faults.clear()
    running = RealGroup(broker.bootstrap_servers)
    yield running
    faults.clear()
    for herder in running.by_url.values():
        assert herder.stop(30)


def states(herder: DistributedHerder, name: str) -> list[str]:
    status = herder.views.connector_status(name)
    return [status.connector.state, *(task.state for task in status.tasks)]


def test_the_whole_life_of_a_group_on_a_real_broker(group: RealGroup) -> None:
    first = group.start("w1")
    began_s = time.monotonic()
    config = {"connector.class": "MemorySource", "tasks.max": "4", "topic": "t", "records": "100"}
    assert group.leader().submit(CreateConnector("a", config, None)).result(30).created
    group.until(lambda: states(first, "a") == ["RUNNING"] * 5)
    print(f"create to 4 running tasks: {time.monotonic() - began_s:.2f} s")
    group.until(lambda: len(group.topics.values("t")) == 400)
    offsets = [ConnectorOffset({"task": f"a-{n}"}, {"position": 100}) for n in range(4)]
    group.until(lambda: sorted(first.submit(ReadOffsets("a")).result(5), key=str) == offsets)

    second = group.start("w2")
    began_s = time.monotonic()
    group.until(lambda: len(second.views.progress().tasks) == 2 and len(first.views.progress().tasks) == 2)
    print(f"second worker shares the work after {time.monotonic() - began_s:.2f} s")
    group.until(lambda: states(second, "a") == ["RUNNING"] * 5)

    group.by_url.pop(first.views.progress().worker_url)
    assert first.stop(30)
    group.until(lambda: len([t for t in second.views.progress().tasks if t.state == "RUNNING"]) == 4)
    assert len(group.topics.values("t")) == 400  # nothing was read twice
    group.leader().submit(DeleteConnector("a")).result(30)
    group.until(lambda: second.views.progress().tasks == ())
    assert second.views.list_connectors() == []


def test_a_worker_started_again_runs_what_the_topics_say(group: RealGroup) -> None:
    first = group.start("w1")
    config = {"connector.class": "MemorySource", "topic": "t", "records": "10"}
    group.leader().submit(CreateConnector("a", config, None)).result(30)
    group.until(lambda: len(group.topics.values("t")) == 10)
    group.by_url.pop(first.views.progress().worker_url)
    assert first.stop(30)
    again = group.start("w1")
    group.until(lambda: states(again, "a") == ["RUNNING"] * 2)
    assert len(group.topics.values("t")) == 10
