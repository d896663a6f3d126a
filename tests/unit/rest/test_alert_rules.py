"""The alerting rules of the docs use metrics and labels that workers export."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from spark_connect_rt.rest.metrics import prometheus_name
from spark_connect_rt.runtime.metric_names import METRICS
from tests.support.code_blocks import blocks_of

PAGE = Path(__file__).parents[3] / "docs/howto/alerts.md"
EXPORTED = {prometheus_name(metric.group, metric.name): set(metric.tags) for metric in METRICS.values()}


def _documents() -> dict[str, object]:
    found: dict[str, object] = {}
    for block in blocks_of(PAGE):
        if block.language == "yaml":
            found |= yaml.safe_load(block.text)
    return found


def test_rules_use_metrics_that_exist() -> None:
    rules = _documents()["groups"][0]["rules"]  # type: ignore[index]
    names = {name for rule in rules for name in re.findall(r"\bkafka_connect_\w+", rule["expr"])}
    assert len(names) >= 3
    assert names <= set(EXPORTED)
    assert all("connector" in EXPORTED[name] for name in names), "by which the lag is summed"
    assert all(rule["alert"] and rule["for"] for rule in rules)


def test_the_scrape_job_has_the_path_and_the_name_that_rules_need() -> None:
    documents = _documents()
    (job,) = documents["scrape_configs"]  # type: ignore[misc]
    assert job["metrics_path"] == "/admin/metrics"
    rules = documents["groups"][0]["rules"]  # type: ignore[index]
    assert f'up{{job="{job["job_name"]}"}} == 0' in [rule["expr"] for rule in rules]
