"""Where a source's chain is cut between a JVM and Python."""

from __future__ import annotations

from spark_connect_rt.engine.java_host.chains import cut_source_chain
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config, with_converters

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": STRING, "value.converter": JSON, "value.converter.schemas.enable": "false"}
CHAIN = {
    "name": "c",
    "transforms": "a,b,c",
    "transforms.a.type": "J",
    "transforms.a.x": "1",
    "transforms.b.type": "J",
    "transforms.b.predicate": "p",
    "transforms.c.type": "J",
    "predicates": "p",
    "predicates.p.type": "J",
}


def in_java(name: str, version: str | None) -> bool:
    return not name.startswith("python")


def test_a_chain_that_java_has_stays_whole() -> None:
    assert cut_source_chain(CHAIN, WORKER, in_java) is None


def test_chain_behind_the_first_python_part_runs_in_python() -> None:
    cut = cut_source_chain({**CHAIN, "transforms.b.type": "python:B"}, WORKER, in_java)
    assert cut is not None
    assert (cut.java["transforms"], cut.python["transforms"]) == ("a", "b,c")
    assert cut.java["transforms.a.x"] == "1"
    assert "predicates" not in cut.java
    assert cut.python["predicates.p.type"] == "J"
    assert (cut.java["value.converter"], cut.java["value.converter.schemas.enable"]) == (JSON, "true")
    assert "value.converter" not in cut.python  # the worker's
    predicate = cut_source_chain({**CHAIN, "predicates.p.type": "python:P"}, WORKER, in_java)
    assert predicate is not None
    assert predicate.java["transforms"] == "a"


def test_a_python_converter_cuts_behind_all_transformations() -> None:
    cut = cut_source_chain({**CHAIN, "key.converter": "python:K"}, WORKER, in_java)
    assert cut is not None
    assert (cut.java["transforms"], "transforms" in cut.python) == ("a,b,c", False)
    assert cut.python["key.converter"] == "python:K"
    of_worker = cut_source_chain({}, {**WORKER, "header.converter": "python:H"}, in_java)
    assert of_worker is not None


def test_a_task_brings_the_worker_s_converters_where_it_has_none() -> None:
    own = {"key.converter": JSON, "value.converter.schemas.enable": "true"}
    assert with_converters(own, WORKER) == WORKER | {"key.converter": JSON}
    seen = jvm_worker_config(WORKER | {"value.converter": "python:V", "config.providers": "x", "a": "b"})
    assert seen == {"a": "b", "key.converter": JSON, "value.converter": JSON}
