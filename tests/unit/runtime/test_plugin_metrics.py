"""What a task measures itself is shown under Java's names, also after its task was hosted anew."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics, TaskMeter
from spark_connect_rt.engine.task_runner import TaskMeasured
from spark_connect_rt.rest.metrics import prometheus_name
from spark_connect_rt.runtime.worker.plugin_metrics import plugin_metrics
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

TASK = ConnectorTaskId("c", 0)
TAGS = {"connector": "c", "task": "0"}


class Hosted:
    """A task that is hosted on an executor, now and then anew, and what its worker shows of it."""

    def __init__(self) -> None:
        self.measures = TaskMeasures(now_ms=0)
        self.host = 0
        self.begin()

    def begin(self) -> None:
        self.host += 1
        self.meter = TaskMeter("reader")
        self.metrics = MeteredPluginMetrics(self.meter)

    def tell(self, now_ms: int) -> None:
        news = self.meter.news(now_ms / 1_000, anyway=True)
        assert news is not None
        event = TaskMeasured(TASK, 1, self.host, news["half"], news["totals"], news["longest"])
        self.measures.take(event, now_ms)

    def shown(self, now_ms: int) -> dict[tuple[str, str, str], float]:
        found = plugin_metrics(self.measures, now_ms, TAGS)
        return {
            (measured.metric.group, measured.metric.name, measured.tags.get("topic", "")): measured.value
            for measured in found
        }


def test_counts_continue_over_hostings_and_values_are_of_the_window() -> None:
    task = Hosted()
    task.metrics.count("record", 10, topic="a")
    task.metrics.count("record", 1, topic="b")
    task.metrics.observe("age-ms", [4.0, 8.0])
    task.tell(now_ms=10_000)
    task.begin()
    task.metrics.count("record", 5, topic="a")
    task.metrics.observe("age-ms", [3.0])
    task.metrics.observe("age-ms", [])
    task.tell(now_ms=20_000)
    assert task.shown(20_000) == {
        ("plugins", "record-count", "a"): 15,
        ("plugins", "record-rate", "a"): 0.8,  # within 20 s
        ("plugins", "record-count", "b"): 1,
        ("plugins", "record-rate", "b"): 0.1,
        ("plugins", "age-ms", ""): 3,
        ("plugins", "age-ms-avg", ""): 5,
        ("plugins", "age-ms-min", ""): 3,
        ("plugins", "age-ms-max", ""): 8,
    }
    later = task.shown(1_000_000)
    assert later["plugins", "record-count", "a"] == 15
    assert ("plugins", "age-ms", "") not in later  # nothing within the window


def test_values_below_zero_have_a_greatest_and_a_least() -> None:
    task = Hosted()
    task.metrics.observe("drift", [-5.0, -2.0])
    task.tell(now_ms=1_000)
    shown = task.shown(1_000)
    assert (shown["plugins", "drift-max", ""], shown["plugins", "drift-min", ""]) == (-2, -5)


def test_tags_are_those_of_the_task_and_its_own_and_any_name_can_be_asked_for() -> None:
    task = Hosted()
    task.metrics.count("record", 1, "mirror-MirrorSourceConnector", topic="t", partition="0")
    task.tell(now_ms=1_000)
    tags: set[tuple[tuple[str, str], ...]] = set()
    for metric in plugin_metrics(task.measures, 1_000, TAGS):
        mapping: Mapping[str, str] = metric.tags
        tags.add(tuple(mapping.items()))
    assert tags == {(("connector", "c"), ("task", "0"), ("partition", "0"), ("topic", "t"))}
    assert prometheus_name("mirror-MirrorSourceConnector", "record-count") == (
        "kafka_connect_mirror_mirrorsourceconnector_record_count"
    )
    assert prometheus_name("plugins", "rows.read %-max") == "kafka_connect_plugins_rows_read___max"


def test_gauge_keeps_its_value_until_it_changes_and_is_sent_once() -> None:
    task = Hosted()
    task.metrics.gauge("open", 3)
    task.tell(now_ms=1_000)
    task.metrics.gauge("open", 3)
    assert task.meter.news(2.0) is None
    assert task.shown(1_000_000) == {("plugins", "open", ""): 3}
    task.metrics.gauge("open", -1, topic="a")
    task.tell(now_ms=3_000)
    assert task.shown(3_000) == {("plugins", "open", ""): 3, ("plugins", "open", "a"): -1}
    task.begin()
    task.tell(now_ms=4_000)
    assert task.shown(4_000) == {}


def test_counts_after_the_last_record_are_also_reported() -> None:
    task = Hosted()
    task.meter.moved("poll", 5)
    task.tell(now_ms=1_000)
    assert task.meter.news(2.0) is None
    task.metrics.count("record", 5)
    assert task.meter.news(3.0) is not None
    assert task.meter.news(4.0) is None
