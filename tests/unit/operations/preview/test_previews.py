"""Previews on a worker in memory: what is refused, where they begin, what crosses, and that nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from spark_connect_rt.api.connector import SinkConnector, SourceConnector, SparkSinkConnector
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder, PreviewOutcome
from spark_connect_rt.errors import BadConfigError, BadRequestError, ConnectError, NotFoundError, ShuttingDownError
from spark_connect_rt.operations.preview.model import From, PreviewRequest
from spark_connect_rt.operations.preview.service import ConnectorPreviews, planned_config, positions_of, topics_of
from spark_connect_rt.rest.shapes import RestError
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import MemorySink, MemorySource
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
NEVER = threading.Event()


class Stubborn(MemorySource):
    """Leaves something behind."""

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        return "it writes topics of its own"


class BySpark(SparkSinkConnector, MemorySink):
    """Written by Spark."""


class Runner:
    """PreviewRunner that keeps its order; with ``wait`` it goes on when that is set."""

    def __init__(self) -> None:
        self.orders: list[PreviewOrder] = []
        self.wait: threading.Event | None = None
        self.outcome = PreviewOutcome((), Ended.NOTHING_MORE)

    def run(self, order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        self.orders.append(order)
        if self.wait is not None:
            assert self.wait.wait(10)
        return self.outcome


class Previewing:
    """A worker with one connector that has moved its records."""

    def __init__(self, cluster: InProcessCluster, worker: InProcessWorker) -> None:
        self.cluster, self.worker, self.runner = cluster, worker, Runner()
        self.topics: dict[str, int] = {"t": 2}
        self.previews = ConnectorPreviews(
            worker.herder._deps, worker.herder, lambda: self.runner, lambda properties: self.topics
        )

    def order(self, **asked: Any) -> PreviewOrder:
        self.previews.preview(PreviewRequest(**asked), NEVER)
        return self.runner.orders[-1]


@pytest.fixture(scope="module")
def group() -> Iterator[tuple[InProcessCluster, InProcessWorker]]:
    plugins = {"Stubborn": Stubborn, "BySpark": BySpark}
    with InProcessCluster(plugins, worker_config=STRINGS) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until_stable()
        create(cluster, "src", source(10))
        cluster.until(lambda: emitted(cluster) == expected("src-0", 10))
        cluster.until(lambda: len(worker.herder._deps.offset_store.connector_offsets("src")) == 1)
        yield cluster, worker


@pytest.fixture
def previewing(group: tuple[InProcessCluster, InProcessWorker]) -> Previewing:
    return Previewing(*group)


def test_preview_begins_at_the_stored_offsets_and_cannot_write(
    previewing: Previewing,
) -> None:
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    order = previewing.order(config=source(10, **letters), name="src", records=7)
    assert [offset for _, offset in order.offsets] == [{"number": 9}] or order.offsets
    launch = order.launch
    assert (order.records, order.planned) == (7, False)
    assert not any([launch.client_config, launch.dead_letter_producer, launch.dead_letter_admin, launch.topic_admin])
    assert launch.offsets_topic == ""
    assert previewing.order(name="src", begin=From.START).offsets == ()
    given = [({"a": 1}, {"b": 2})]
    assert previewing.order(name="src", begin=From.GIVEN, offsets=given).offsets == given
    assert previewing.order(config=source(10), name="unknown").offsets == []


def test_impossible_preview_is_refused_with_the_reason(previewing: Previewing) -> None:
    refusals = [
        ({"name": "none"}, NotFoundError, "Connector none not found"),
        ({"config": {"connector.class": "Nothing"}}, BadRequestError, "Nothing"),
        ({"config": source(1) | {"tasks.max": "0"}}, BadConfigError, "tasks.max"),
        ({"config": source(1) | {"connector.class": "Stubborn"}}, BadRequestError, "it writes topics of its own"),
        ({"config": source(1), "put": True}, BadRequestError, "only valid for a sink connector"),
        ({"config": {"connector.class": "BySpark", "topics": "t"}, "put": True}, BadRequestError, "preview_put"),
        ({"config": {"connector.class": "MemorySink", "topics": "t"}, "put": True}, BadRequestError, "preview_put"),
        ({"config": {"connector.class": "MemorySink", "topics": "absent"}}, BadRequestError, "absent"),
        (
            {"name": "src", "begin": From.GIVEN, "offsets": [({"a": [1]}, {})]},
            BadRequestError,
            "primitive types",
        ),
    ]
    for asked, kind, words in refusals:
        with pytest.raises(kind, match=words):
            previewing.order(**asked)
    assert previewing.runner.orders == []


def test_a_sink_begins_where_its_group_is_and_the_group_is_not_changed(previewing: Previewing) -> None:
    groups = previewing.worker.herder._deps.group_offsets
    place = TopicPartition("t", 1)
    previewing.cluster.write("t", ["x"] * 5, 1)
    groups.alter({}, "connect-out", {place: 4})
    config = {"connector.class": "MemorySink", "topics": "t"}
    order = previewing.order(config=config, name="out")
    assert order.positions == [("t", 0, -1), ("t", 1, 4)]
    assert previewing.order(config=config, name="out", begin=From.START).positions == [("t", 0, -1), ("t", 1, -1)]
    given = [({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3})]
    order = previewing.order(config=config, name="out", begin=From.GIVEN, offsets=given)
    assert order.positions == [("t", 0, 3), ("t", 1, -1)]
    assert groups.committed({}, "connect-out") == {place: 4}


def test_a_sink_that_spark_writes_is_read_as_others_are(previewing: Previewing) -> None:
    order = previewing.order(config={"connector.class": "BySpark", "topics": "t"}, begin=From.START)
    assert order.positions == [("t", 0, -1), ("t", 1, -1)]
    assert order.launch.client_config["group.id"]


def test_previews_end_with_their_worker(previewing: Previewing) -> None:
    seen: list[threading.Event] = []

    def run(order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        seen.append(cancelled)
        previewing.previews.stop()
        assert cancelled.is_set()
        return previewing.runner.outcome

    previewing.runner.run = run  # type: ignore[method-assign]
    previewing.previews.preview(PreviewRequest("src"), threading.Event())
    with pytest.raises(ShuttingDownError):
        previewing.previews.preview(PreviewRequest("src"), threading.Event())
    assert len(seen) == 1


def test_a_third_preview_side_by_side_is_refused_and_leaves_its_place(previewing: Previewing) -> None:
    previewing.runner.wait = threading.Event()
    two = [threading.Thread(target=lambda: previewing.order(name="src")) for _ in range(2)]
    for thread in two:
        thread.start()
    previewing.cluster.until(lambda: len(previewing.runner.orders) == 2)
    with pytest.raises(RestError, match="already runs 2 previews") as refused:
        previewing.order(name="src")
    assert refused.value.status == 429
    previewing.runner.wait.set()
    for thread in two:
        thread.join(10)
    previewing.order(name="src")


def test_the_engine_in_memory_previews_too_and_no_topic_status_or_offset_changes(previewing: Previewing) -> None:
    cluster, deps = previewing.cluster, previewing.worker.herder._deps
    made = previewing.worker.runner.previews()

    def everything() -> list[Any]:
        logs = (cluster.config_topic, cluster.status_topic, cluster.offset_topic)
        return [[len(log.records()) for log in logs], sorted(map(str, cluster.topics.partitions)), emitted(cluster)]

    before = everything()
    previews = ConnectorPreviews(deps, previewing.worker.herder, lambda: made, lambda properties: {})
    found = previews.preview(PreviewRequest("src", begin=From.START, records=3), NEVER)
    assert (found.ended, found.error) == ("records", None)
    values = [record.stages[0].record.value for record in found.records if record.stages[0].record]
    assert values == ["src-0:0", "src-0:1", "src-0:2"]
    assert everything() == before


def test_topics_by_name_or_pattern_and_where_each_partition_is_read() -> None:
    assert topics_of({"topics": "b, a ,b"}, ()) == ["a", "b"]
    assert topics_of({"topics.regex": "a.*"}, ["b", "ab", "a"]) == ["a", "ab"]
    with pytest.raises(BadConfigError):
        topics_of({"topics.regex": "("}, ())
    places = positions_of({"b": 1, "a": 2}, {TopicPartition("a", 1): 5}, -2)
    assert places == [("a", 0, -2), ("a", 1, 5), ("b", 0, -2)]


class Hung(MemorySource):
    """Does not return."""

    def start(self, config: Mapping[str, str]) -> None:
        threading.Event().wait(0.6)


class Empty(SourceConnector):
    """Has no work."""

    config_def = MemorySource.config_def
    task_class = MemorySource.task_class

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


def test_a_connector_that_is_asked_for_its_task_may_hang_or_have_none() -> None:
    with pytest.raises(ConnectError, match="did not return its task configurations"):
        planned_config(Hung(), {}, 0.05)
    with pytest.raises(ConnectError, match="no task"):
        planned_config(Empty(), {}, 5)
    assert issubclass(BySpark, SinkConnector)
