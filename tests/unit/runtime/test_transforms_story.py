"""Transformations and predicates in connectors of a running worker: what arrives, what is refused, what is dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.bundled_plugins import PREDICATES, TRANSFORMATIONS
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import delivered, faults
from tests.unit.runtime.cluster_stories import create

JAVA = "org.apache.kafka.connect.transforms"
PLUGINS = {plugin.java_class: plugin.cls for plugin in (*TRANSFORMATIONS, *PREDICATES)} | {
    "JsonConverter": JsonConverter
}


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    delivered.clear()
    with InProcessCluster(plugins=PLUGINS) as running:
        yield running
        faults.clear()


SOURCE = {
    "connector.class": "MemorySource", "tasks.max": "1", "topic": "raw", "records": "5",
    "value.converter": "JsonConverter", "value.converter.schemas.enable": "false",
    "transforms": "hoist,stamp,copy,key,route",
    "transforms.hoist.type": f"{JAVA}.HoistField$Value", "transforms.hoist.field": "line",
    "transforms.stamp.type": f"{JAVA}.InsertField$Value", "transforms.stamp.topic.field": "origin",
    "transforms.stamp.static.field": "by", "transforms.stamp.static.value": "us",
    "transforms.copy.type": f"{JAVA}.HeaderFrom$Value", "transforms.copy.fields": "by",
    "transforms.copy.headers": "author", "transforms.copy.operation": "move",
    "transforms.key.type": f"{JAVA}.ValueToKey", "transforms.key.fields": "line",
    "transforms.route.type": f"{JAVA}.RegexRouter", "transforms.route.regex": "(r)aw",
    "transforms.route.replacement": "$1eady",
}  # fmt: skip


def test_a_source_writes_what_its_transformations_make(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    create(cluster, "src", SOURCE)
    cluster.until(lambda: len(cluster.topics.values("ready")) == 5)
    assert [json.loads(value) for value in cluster.topics.values("ready")] == [
        {"line": f"src-0:{number}", "origin": "raw"} for number in range(5)
    ]
    assert cluster.topics.values("raw") == []


def test_a_sink_gets_what_its_transformations_make_and_offsets_pass_what_they_drop(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    cluster.write("in", ['{"n": 1, "secret": "a"}', '{"n": 300, "secret": "b"}'])
    cluster.write("skipped", ['{"n": 9}'] * 3)
    create(
        cluster,
        "snk",
        {
            "connector.class": "MemorySink", "tasks.max": "1", "topics": "in,skipped",
            "value.converter": "JsonConverter", "value.converter.schemas.enable": "false",
            "transforms": "drop,cast,mask,where",
            "transforms.drop.type": f"{JAVA}.Filter", "transforms.drop.predicate": "wanted",
            "transforms.drop.negate": "true",
            "transforms.cast.type": f"{JAVA}.Cast$Value", "transforms.cast.spec": "n:int8",
            "transforms.mask.type": f"{JAVA}.MaskField$Value", "transforms.mask.fields": "secret",
            "transforms.where.type": f"{JAVA}.InsertField$Value", "transforms.where.offset.field": "at",
            "predicates": "wanted", "predicates.wanted.type": f"{JAVA}.predicates.TopicNameMatches",
            "predicates.wanted.pattern": "in",
        },
    )  # fmt: skip
    cluster.until(lambda: len(delivered["snk"]) == 2)
    assert [record.value for record in delivered["snk"]] == [
        {"n": 1, "secret": "", "at": 0},
        {"n": 44, "secret": "", "at": 1},
    ]
    cluster.until(lambda: sum(cluster.consumer_groups.committed("connect-snk").values()) == 5)
    assert worker.herder.views.connector_info("snk").type == "sink"


def test_a_chain_that_cannot_work_is_refused_before_it_is_written(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    wrong = {**SOURCE, "transforms.key.fields": "", "transforms.route.regex": "(", "transforms.copy.headers": "a,b"}
    with pytest.raises(BadConfigError) as caught:
        create(cluster, "src", wrong)
    assert {"transforms.key.fields", "transforms.route.regex", "transforms.copy.headers"} <= set(caught.value.problems)
