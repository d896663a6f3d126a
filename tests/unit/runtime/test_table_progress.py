"""The progress of a table sink is read from its metrics, and added up over tasks and workers."""

from __future__ import annotations

from dataclasses import asdict

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.connectors.lakehouse.sink_task import METRICS
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics, TaskMeter
from spark_connect_rt.engine.task_runner import TaskMeasured
from spark_connect_rt.runtime.values import TableProgress
from spark_connect_rt.runtime.worker.table_progress import GROUP, added_up, progress_of, table_progress
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures


def measured(*hostings: int) -> TaskMeasures:
    """Return the measures of a task that was hosted once for each number, and made as many commits."""
    measures = TaskMeasures(now_ms=0)
    for host, commits in enumerate(hostings, 1):
        meter = TaskMeter("writer")
        metrics = MeteredPluginMetrics(meter)
        metrics.count("records", 3, "plugins", table="not a table sink's")
        for number in range(commits):
            metrics.count("table-commits", 1, METRICS, table="shop.orders")
            metrics.count("table-rows", 10, METRICS, table="shop.orders")
            metrics.observe("table-commit-ms", [100 + number], METRICS, table="shop.orders")
        metrics.gauge("table-waiting-rows", 7, METRICS, table="shop.orders")
        metrics.gauge("table-lag-s", 1.25, METRICS, table="shop.orders")
        metrics.gauge("table-waiting-rows", 2, METRICS, table="shop.items")
        news = meter.news(host, anyway=True)
        assert news is not None
        task = ConnectorTaskId("lake", 0)
        measures.take(TaskMeasured(task, 1, host, news["half"], news["totals"], news["longest"]), host * 1_000)
    return measures


def test_progress_of_a_task_has_a_row_for_each_table() -> None:
    assert METRICS == GROUP
    items, orders = table_progress(measured(1, 2))
    assert items == TableProgress("shop.items", waiting_rows=2)
    assert orders == TableProgress("shop.orders", commits=3, rows=30, waiting_rows=7, commit_ms=100.3, lag_s=1.25)
    assert table_progress(TaskMeasures(now_ms=0)) == ()


def test_tables_of_several_tasks_are_added_up() -> None:
    parts = [
        TableProgress("b", commits=1, rows=5, waiting_rows=2, commit_ms=10.0, lag_s=3.0),
        TableProgress("a", rows=1),
        TableProgress("b", commits=2, rows=6, waiting_rows=1, commit_ms=4.0),
    ]
    assert added_up(parts) == (
        TableProgress("a", rows=1),
        TableProgress("b", commits=3, rows=11, waiting_rows=3, commit_ms=10.0, lag_s=3.0),
    )


def test_progress_of_another_version_is_read_as_far_as_it_is_known() -> None:
    table = TableProgress("a", rows=1)
    assert progress_of({**asdict(table), "newer": 1}) == table
    assert progress_of({"table": "a"}) == TableProgress("a")
    assert progress_of({"rows": 1}) is None
