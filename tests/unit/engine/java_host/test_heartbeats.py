"""What a JVM says of a task: gauges and calls on its meter, and what they are called at /admin/metrics."""

from __future__ import annotations

import os
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.java_host.heartbeats import OnMeter, bean_key, resident_bytes, take_heartbeat
from spark_connect_rt.engine.task_runner import TaskMeasured
from spark_connect_rt.rest.metrics import metrics_text
from spark_connect_rt.runtime.worker.plugin_metrics import own_values, plugin_metrics
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

JVM = {
    "heap_bytes": 10,
    "heap_max_bytes": 100,
    "non_heap_bytes": 20,
    "direct_bytes": 30,
    "threads": 4,
    "gc_ms": 5,
}


def bean(domain: str, attribute: str, value: float, **keys: str) -> dict[str, Any]:
    return {"domain": domain, "keys": keys, "attribute": attribute, "value": value}


def shown(meter: TaskMeter, measures: TaskMeasures, host: int = 1) -> str:
    news = meter.news(100.0)
    if news is not None:
        task = ConnectorTaskId("c", 0)
        measures.take(TaskMeasured(task, 1, host, "reader", news["totals"], news["longest"]), 1000)
    return metrics_text(plugin_metrics(measures, 1000, {"connector": "c", "task": "0"})).decode()


def test_memory_and_mbeans_are_gauges_that_keep_their_last_value() -> None:
    meter, measures = TaskMeter("reader"), TaskMeasures(0)
    lag = bean("debezium.postgres", "MilliSecondsBehindSource", 12, type="connector-metrics", server="s")
    other = bean("debezium.postgres", "MilliSecondsBehindSource", 7, type="connector-metrics", task="9")
    own = bean("kafka.connect", "polled", 3, type="plugins", connector="c", task="0", kind="x")
    take_heartbeat(meter, {"jvm": JVM, "beans": [lag, other, own]}, 100.0, os.getpid())
    text = shown(meter, measures)
    assert 'kafka_connect_java_host_direct_bytes{connector="c",task="0"} 30.0' in text
    assert 'kafka_connect_java_host_resident_bytes{connector="c",task="0"}' in text
    name = "debezium_postgres_milli_seconds_behind_source"
    assert f'{name}{{connector="c",server="s",task="0",type="connector-metrics"}} 12.0' in text
    assert f'{name}{{bean_task="9",connector="c",task="0",type="connector-metrics"}} 7.0' in text
    assert text.count(f"# TYPE {name} gauge") == 1
    assert 'kafka_connect_plugins_polled{connector="c",kind="x",task="0"} 3.0' in text
    take_heartbeat(meter, {"beans": [lag | {"value": 5}]}, 101.0, os.getpid())
    text = shown(meter, measures)
    assert f'{name}{{connector="c",server="s",task="0",type="connector-metrics"}} 5.0' in text
    assert 'java_host_direct_bytes{connector="c",task="0"} 30.0' in text
    meter.count("poll.calls")
    meter.moved("poll", 1)
    assert f"{name}{{" not in shown(meter, measures, host=2)  # another hosting has no beans yet


def test_a_connector_and_its_tasks_may_measure_the_same() -> None:
    meter, measures = TaskMeter("reader"), TaskMeasures(0)
    take_heartbeat(meter, {"beans": [bean("kafka.connect", "n", 3, type="plugins", connector="c", task="0")]}, 100.0, 1)
    shown(meter, measures)
    of_task = plugin_metrics(measures, 1000, {"connector": "c", "task": "0"})
    of_connector = {bean_key(bean("kafka.connect", "n", 5, type="plugins", connector="c", kind="x")): 5.0}
    text = metrics_text([*own_values(of_connector, {"connector": "c"}), *of_task]).decode()
    assert 'kafka_connect_plugins_n{connector="c",kind="x"} 5.0' in text
    assert 'kafka_connect_plugins_n{connector="c",task="0"} 3.0' in text


def test_a_call_in_the_jvm_is_the_tasks_call_until_it_is_over() -> None:
    calls = OnMeter()
    calls.on_heartbeat({"call": "commit", "call_ms": 5}, 1)  # before it has a meter: nothing
    meter = TaskMeter("reader")
    take_heartbeat(meter, {"call": "commit", "call_ms": 65_000}, 100.0, 1)
    news = meter.news(100.0)
    assert news is not None
    assert (news["call"], news["call_ms"]) == ("commit", 65_000)
    take_heartbeat(meter, {}, 101.0, 1)
    over = meter.news(101.0)
    assert over is not None
    assert "call" not in over
    assert meter.news(102.0) is None


def test_resident_memory_of_a_process_is_read_where_the_system_has_it() -> None:
    assert (resident_bytes(os.getpid()) or 0) > 1 << 20
    assert resident_bytes(2**30) is None
