"""Connectors that are created while a write is under way share the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import pytest

from spark_connect_rt.errors import AlreadyExistsError
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector
from spark_connect_rt.runtime.herder.requests.create_connector import LARGE_CHARACTERS
from spark_connect_rt.runtime.values import ConfigWritten
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.key_places import Write

LIMIT_S = 20.0
CONFIG = {"connector.class": "MemorySource", "topic": "t"}


class Writes:
    """The names of the connectors in each write of a topic."""

    def __init__(self, topic: MemoryLogTopic) -> None:
        self.names: list[list[str]] = []
        self._write, topic.write_placed = topic.write_placed, self.note  # type: ignore[method-assign]

    def note(self, records: Iterable[Write]) -> None:
        noted = list(records)
        keys = [key.decode() for key, value, *_ in noted if key and key.startswith(b"connector-") and value is not None]
        if keys:
            self.names.append([key.removeprefix("connector-") for key in keys])
        self._write(noted)


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster() as cluster:
        cluster.add_worker()
        cluster.until_stable()
        _create(cluster, "before").result(LIMIT_S)  # the session key is written then
        yield cluster


def _create(cluster: InProcessCluster, name: str, **more: str) -> Future[ConfigWritten]:
    return cluster.leader().submit(CreateConnector(name, {**CONFIG, **more}, TargetState.STOPPED))


def _queued(cluster: InProcessCluster, count: int) -> None:
    queue = cluster.leader()._loop._requests
    cluster.until(lambda: len(queue.waiting()) == count)


def test_creations_waiting_for_a_write_share_the_next_write(cluster: InProcessCluster) -> None:
    writes = Writes(cluster.config_topic)
    cluster.config_topic.stall(True)
    first = _create(cluster, "first")
    cluster.until(lambda: writes.names == [["first"]])
    others = [_create(cluster, f"c{number:02d}") for number in range(20)]
    twice = _create(cluster, "c07")
    _queued(cluster, 21)
    large = _create(cluster, "large", much="x" * LARGE_CHARACTERS)
    _queued(cluster, 22)
    gone = cluster.leader().submit(DeleteConnector("first"))
    _queued(cluster, 23)
    cluster.config_topic.stall(False)
    assert first.result(LIMIT_S).created
    # Two requests for one name: whichever was queued first is the one.
    outcomes = [future.exception(LIMIT_S) for future in [*others, twice]]
    assert [type(error) for error in outcomes if error is not None] == [AlreadyExistsError]
    assert [future.result(LIMIT_S).info.name for future in others if future.exception() is None] == sorted(
        future.result().info.name for future in others if future.exception() is None
    )
    assert large.result(LIMIT_S).created
    gone.result(LIMIT_S)
    assert [len(names) for names in writes.names] == [1, 20, 1]
    assert writes.names[2] == ["large"]
    assert sorted(writes.names[1]) == [f"c{number:02d}" for number in range(20)]


def test_a_write_that_fails_is_the_answer_of_each(cluster: InProcessCluster) -> None:
    writes = Writes(cluster.config_topic)
    cluster.config_topic.stall(True)
    first = _create(cluster, "first")
    cluster.until(lambda: writes.names == [["first"]])
    others = [_create(cluster, f"c{number}") for number in range(3)]
    _queued(cluster, 3)
    cluster.config_topic.fail_next_append(OSError("the disk is full"))
    cluster.config_topic.stall(False)
    first.result(LIMIT_S)
    for future in others:
        assert "the disk is full" in str(future.exception(LIMIT_S))
    assert _create(cluster, "c1").result(LIMIT_S).created
