"""A MirrorSource connector moves from our worker to Java's and back: nothing is copied twice, bytes are the other's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.connectors.mirror.records import OffsetSync
from spark_connect_rt.engine.startup.java_home import Java
from tests.integration.kafka.mirrored import LIMIT_S, Cluster, Flow, unique, until
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.java_connect import JavaConnect
from tests.support.mirror_maker_process import COORDINATES

EACH = 150  # more than offset.lag.max: syncs in between
WORKER = {"offset.flush.interval.ms": "500"}


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[Cluster]:
    with EmbeddedKafka(tmp_path_factory.mktemp("west"), java=java, die_with_parent=True) as kafka:
        yield Cluster("A", kafka.bootstrap_servers)


def test_a_connector_moves_to_java_and_back(tmp_path: Path, west: Cluster, broker: EmbeddedKafka) -> None:
    east, group = Cluster("B", broker.bootstrap_servers), unique("handed-over")
    ours = OurWorkerProcess(tmp_path / "ours", east.servers, group, properties=WORKER)
    theirs = JavaConnect(tmp_path / "java", east.servers, group, properties=WORKER, jars=resolve_jars(COORDINATES))
    topic = west.create(unique("t"), 2)
    copy, name, written = f"A.{topic}", "", 0
    for worker in (ours, theirs, ours):
        for partition in (0, 1):
            west.write(topic, [b"%d" % (written + number) for number in range(EACH)], partition, key=b"k")
        written += EACH
        with worker:
            worker.await_answer("/connectors", LIMIT_S)
            flow = Flow(west, east, worker)
            name = name or flow.start("Source", topics=topic)
            until(lambda: len(east.messages(copy)) >= 2 * written, f"{2 * written} records arrive", flow.logs)  # noqa: B023
            until(lambda: offsets(east, group, name) == [written - 1] * 2, "offsets are stored", flow.logs)  # noqa: B023
        assert east.rows(copy) == west.rows(topic)  # none twice, none missing

    stored = [message for message in east.messages(f"{group}-offsets") if message.key() is not None]
    place = '"cluster":"A","partition":{},"topic":"{}"'
    expected = {f'["{name}",{{{place.format(number, topic)}}}]'.encode() for number in (0, 1)}
    assert {record.key() for record in stored} == expected  # Java's and ours: the very same bytes
    tasks = [message for message in east.messages(f"{group}-configs") if message.key() == f"task-{name}-0".encode()]
    assert {task.value() for task in tasks} == {tasks[0].value()}
    (assigned,) = {orjson.loads(task.value())["properties"]["task.assigned.partitions"] for task in tasks}
    assert assigned == f"{topic}-0,{topic}-1"
    syncs = [
        OffsetSync.decode(message.key(), message.value()) for message in west.messages("mm2-offset-syncs.B.internal")
    ]
    assert all(sync.upstream_offset == sync.downstream_offset for sync in syncs)
    reached = {(sync.partition.topic, sync.upstream_offset // EACH) for sync in syncs}
    assert {(topic, run) for run in range(3)} <= reached  # each of the three wrote some


def offsets(cluster: Cluster, group: str, connector: str) -> list[int]:
    """Return the last stored offset of each partition, in order of their numbers."""
    last: dict[bytes, int] = {}
    for message in cluster.messages(f"{group}-offsets"):
        if message.key().startswith(f'["{connector}"'.encode()):
            last[message.key()] = orjson.loads(message.value())["offset"]
    return [last[key] for key in sorted(last)]
