"""Connect's metrics of a worker: what was counted, by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt._version import __version__
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.worker_config import RuntimeSettings
from spark_connect_rt.engine.task_runner import VALUE, PluginMetricKey, TaskMeasured, part_of
from spark_connect_rt.rest.metrics import metrics_text, prometheus_name
from spark_connect_rt.runtime.herder.herder_requests import SetTargetState
from spark_connect_rt.runtime.metric_names import METRICS
from spark_connect_rt.runtime.worker.task_measures import StateTimes, TaskMeasures, metrics_window_ms
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, source


def values(cluster: InProcessCluster) -> dict[str, float]:
    """Return ``group.name{tags}`` -> value, of the only worker."""
    (worker,) = cluster.workers.values()
    found = {}
    for metric in worker.herder.views.metrics():
        assert METRICS[metric.metric.group, metric.metric.name] is metric.metric
        assert set(metric.metric.tags) <= set(metric.tags)
        found[metric.metric.name + "".join(f" {name}={tag}" for name, tag in metric.tags.items())] = metric.value
    return found


def test_a_worker_with_a_source_a_sink_and_a_failed_task(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    cluster.write("in", ["one", "two"])
    faults.raises("bad-0.start", ValueError("no"))
    create(cluster, "a", source(250, tasks=1))
    create(cluster, "s", {"connector.class": "MemorySink", "topics": "in"})
    create(cluster, "bad", source(1) | {"topic": "u"})
    cluster.until(lambda: emitted(cluster) == expected("a-0", 250))
    of_a, of_s = " connector=a task=0", " connector=s task=0"
    wanted: Mapping[str, float] = {
        f"source-record-poll-total{of_a}": 250,
        f"source-record-write-total{of_a}": 250,
        f"source-record-active-count{of_a}": 0,
        f"batch-size-max{of_a}": 100,
        f"offset-commit-success-percentage{of_a}": 1,
        f"status{of_a} status=running": 1,
        f"sink-record-read-total{of_s}": 2,
        f"sink-record-send-total{of_s}": 2,
        f"sink-record-active-count{of_s}": 0,
        f"partition-count{of_s}": 1,
        f"offset-commit-completion-total{of_s}": 1,
        f"offset-commit-seq-no{of_s}": 1,
        f"deadletterqueue-produce-requests{of_s}": 0,
        "connector-type connector=s connector_type=sink": 1,
        "connector-class connector=s connector_class=MemorySink": 1,
        f"connector-version connector=a connector_version={__version__}": 1,
        f"stalled{of_s}": 0,
        "status connector=bad task=0 status=failed": 1,
        "connector-failed-task-count connector=bad": 1,
        "connector-running-task-count connector=a": 1,
        "connector-count": 3,
        "task-count": 3,
        "assigned-tasks": 3,
        "connector-startup-success-total": 3,
        "task-startup-attempts-total": 3,
        "task-startup-success-total": 2,
        "task-startup-failure-total": 1,
        "rebalancing": 0,
        "leader-name leader_name=http://w1:8083/": 1,
        "connect-protocol connect_protocol=SESSIONED": 1,
    }

    def differs() -> dict[str, float | None]:
        now = values(cluster)
        return {name: now.get(name) for name, value in wanted.items() if now.get(name) != value}

    cluster.until(lambda: not differs(), limit_s=60)
    now = values(cluster)
    assert now[f"poll-batch-max-time-ms{of_a}"] >= now[f"poll-batch-avg-time-ms{of_a}"] > 0
    assert now[f"put-batch-max-time-ms{of_s}"] >= now[f"put-batch-avg-time-ms{of_s}"] > 0
    assert now[f"offset-commit-completion-rate{of_s}"] > 0
    assert 0 < now[f"running-ratio{of_a}"] <= 1
    assert now["epoch"] >= now["completed-rebalances-total"] >= 1
    (worker,) = cluster.workers.values()
    text = metrics_text(worker.herder.views.metrics()).decode()
    assert 'kafka_connect_source_task_source_record_poll_total{connector="a",task="0"} 250.0' in text
    assert 'kafka_connect_connector_task_status{connector="bad",status="failed",task="0"} 1.0' in text


def test_connector_metrics_are_shown_while_it_runs(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own = part_of(PluginMetricKey("plugins", "tables", {"kind": "x"}).encode(), VALUE)
    start = MemorySource.start

    def measuring(connector: Any, config: Mapping[str, str]) -> None:
        start(connector, config)
        connector.context.measured({own: 1.0})  # as the Java host does
        connector.context.measured({own: 7.0})
        metrics = connector.context.metrics  # as one in Python does
        metrics.count("looks", kind="y")
        metrics.count("looks", 2, kind="y")
        metrics.observe("age", [])
        metrics.observe("age", [4.0, 1.0])
        metrics.observe("age", [7.0])
        metrics.gauge("open", 3)
        metrics.gauge("open", 2)

    monkeypatch.setattr(MemorySource, "start", measuring)
    worker = cluster.add_worker()
    create(cluster, "a", source(0))

    def shown() -> list[tuple[Mapping[str, str], float]]:
        return [
            (metric.tags, metric.value) for metric in worker.herder.views.metrics() if metric.metric.name == "tables"
        ]

    there = [({"connector": "a", "kind": "x"}, 7.0)]
    cluster.until(lambda: shown() == there)
    found = {metric.metric.name: metric for metric in worker.herder.views.metrics() if metric.metric.group == "plugins"}
    counted = {"looks-count": 3, "age": 7, "age-avg": 4, "age-min": 1, "age-max": 7, "open": 2}
    assert {name: measured.value for name, measured in found.items() if name != "tables"} == counted
    assert found["looks-count"].tags == {"connector": "a", "kind": "y"}
    worker.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
    cluster.until(lambda: shown() == [])
    worker.herder.submit(SetTargetState("a", TargetState.STARTED)).result(5)
    cluster.until(lambda: shown() == there)
    (again,) = [metric.value for metric in worker.herder.views.metrics() if metric.metric.name == "looks-count"]
    assert again == 3  # from zero, as in Java


def test_names_are_those_of_the_jmx_exporters_common_rules() -> None:
    assert (
        prometheus_name("sink-task-metrics", "put-batch-avg-time-ms") == "kafka_connect_sink_task_put_batch_avg_time_ms"
    )
    assert prometheus_name("connect-worker-rebalance-metrics", "epoch") == "kafka_connect_worker_rebalance_epoch"
    assert prometheus_name("connector-metrics", "status") == "kafka_connect_connector_status"
    assert len({prometheus_name(*key) for key in METRICS}) == len(METRICS)


def told(host: int, half: str, **totals: float) -> TaskMeasured:
    names = {name.replace("_", "."): number for name, number in totals.items()}
    return TaskMeasured(ConnectorTaskId("a", 0), 1, host, half, names, {})


def test_counts_continue_in_a_new_hosting_and_old_ones_leave_the_window() -> None:
    measures = TaskMeasures(0, window_ms=1_000)
    measures.take(told(1, "reader", read_records=10), 100)
    measures.take(told(1, "writer", taken_records=7), 200)
    assert measures.waiting() == 3
    measures.take(told(2, "reader", read_records=4), 900)  # what was under way is lost, and read again
    assert (measures.total("read.records"), measures.waiting(), measures.moved_at_ms) == (14, 4, 900)
    assert measures.recent("read.records", 1_050) == 14
    assert measures.recent("read.records", 1_150) == 4
    assert measures.window_s(1_150) == 1


def test_the_window_is_javas_two_settings() -> None:
    assert metrics_window_ms(RuntimeSettings.of({})) == 60_000
    assert (
        metrics_window_ms(RuntimeSettings.of({"metrics.sample.window.ms": "10000", "metrics.num.samples": "3"}))
        == 30_000
    )


def test_shares_of_time() -> None:
    times = StateTimes("UNASSIGNED", 0)
    times.enter("RUNNING", 100)
    times.enter("PAUSED", 300)
    assert (times.share("RUNNING", 400), times.share("PAUSED", 400)) == (0.5, 0.25)
