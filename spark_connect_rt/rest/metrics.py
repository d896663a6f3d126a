"""``GET /admin/metrics``: Connect's metrics as Prometheus reads them (ours; Java has JMX).

Owns the names: ``kafka.connect:type=sink-task-metrics,connector=c,task=0`` ``put-batch-avg-time-ms`` becomes
``kafka_connect_sink_task_put_batch_avg_time_ms{connector="c",task="0"}``, as common rules of the JMX exporter have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.samples import Sample

from spark_connect_rt.engine.task_runner import JMX
from spark_connect_rt.runtime.metric_names import MetricValue

CONTENT_TYPE = CONTENT_TYPE_LATEST


def prometheus_name(group: str, name: str) -> str:
    """Return the name of a metric of ``kafka.connect:type=<group>``; of an MBean: its domain and attribute."""
    if group.startswith(JMX):
        attribute = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name)
        return re.sub("[^a-z0-9_]", "_", f"{group.removeprefix(JMX)}_{attribute}".lower())
    words = group.removesuffix("-metrics").removeprefix("connect-")
    return re.sub("[^a-z0-9_]", "_", f"kafka_connect_{words}_{name}".lower())


def metrics_text(values: Iterable[MetricValue]) -> bytes:
    """Return the text that ``CONTENT_TYPE`` names."""
    families: dict[str, Metric] = {}
    for measured in values:
        name = prometheus_name(measured.metric.group, measured.metric.name)
        if name not in families:
            kind = (
                CounterMetricFamily
                if name.endswith("_total") and JMX not in measured.metric.group
                else GaugeMetricFamily
            )
            families[name] = kind(name, measured.metric.doc)
        # Values of one name differ in their tags: beans of a domain, what a connector and its tasks measure.
        labels = {re.sub("[^a-zA-Z0-9_]", "_", key): text for key, text in measured.tags.items()}
        families[name].samples.append(Sample(name, labels, measured.value))
    return generate_latest(_Gathered(families.values()))


class _Gathered:
    """The part of a registry that ``generate_latest`` uses."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
