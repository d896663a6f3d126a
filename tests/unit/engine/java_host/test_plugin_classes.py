"""The Python classes that stand for Java plug-ins: what each kind of them is, and where it is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.config.config_def import Password, Type
from spark_connect_rt.config.validators import Sentence
from spark_connect_rt.engine.java_host import plugin_answers
from spark_connect_rt.engine.java_host.connectors import connector_class, stage_class
from spark_connect_rt.engine.java_host.declarations import declared
from spark_connect_rt.engine.java_host.plugin_answers import ExecutorAnswers
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc
from spark_connect_rt.plugins.plugin_desc import TYPES

RUNTIME: Any = object()
KEY = {
    "name": "size",
    "type": "INT",
    "required": False,
    "default_value": "3",
    "importance": "LOW",
    "documentation": "d",
    "group": None,
    "width": "NONE",
    "display_name": "size",
    "dependents": [],
    "order": -1,
    "checked": True,
}


def plugin(kind: str, runtime: Any = RUNTIME) -> JavaPluginDesc:
    return JavaPluginDesc(kind, "com.example.Outer$One", Path("/plugins/one"), "digest", runtime, ())


@pytest.mark.parametrize("kind", ["transformation", "predicate", "converter", "header_converter", "configprovider"])
def test_each_kind_is_what_a_python_plug_in_of_it_is(kind: str) -> None:
    made: Any = stage_class(plugin(kind), JavaCode(("/plugins/one",)))
    assert issubclass(made, TYPES[kind][0])
    assert made.__name__ == "Outer_One"
    assert (made.java_class, made.java_code.plugins) == ("com.example.Outer$One", ("/plugins/one",))


@pytest.mark.parametrize(("kind", "base"), [("source", SourceConnector), ("sink", SinkConnector)])
def test_a_connector_answers_from_what_its_jvm_said_of_it(kind: str, base: type[Any]) -> None:
    described = {"version": "2.1", "task_class": "com.example.Task", "keys": [KEY]}
    made = connector_class(plugin(kind), described, RUNTIME)()
    assert isinstance(made, base)
    assert (made.version(), made.java_task_class, made.location) == ("2.1", "com.example.Task", "/plugins/one")
    assert made.executor_task_class.startswith(f"spark_connect_rt.engine.java_host.{kind}_task:Java")
    assert made.config_def()["size"].type is Type.INT


def test_javas_own_check_is_asked_with_text_and_answers_with_its_sentence() -> None:
    asked: list[tuple[str, str | None]] = []

    def complaint(name: str, value: str | None) -> str | None:
        asked.append((name, value))
        return None if value == "3" else "Invalid value, says Java"

    (checked,), (free,) = declared([KEY], complaint), declared([KEY | {"checked": False}], complaint)
    assert checked.parse({"size": "3"}) == (3, [])
    assert checked.parse({"size": "4"}) == (4, ["Invalid value, says Java"])
    assert free.parse({"size": "4"}) == (4, [])
    assert isinstance(checked.check(Password("x")), Sentence)
    assert asked == [("size", "3"), ("size", "4"), ("size", "x")]


def test_an_executor_takes_the_version_that_was_kept_or_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugin_answers, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(ExecutorAnswers, "java_major", lambda self: 17)
    monkeypatch.setattr(
        "spark_connect_rt.engine.java_host.stages.stage.describe", lambda code, name: {"version": "asked"}
    )
    answers = ExecutorAnswers()
    assert plugin("transformation", answers).version == "asked"
    plugin_answers.KeptAnswers(lambda: 17).put("digest", "load ", [{"class": "com.example.Outer$One", "version": "1"}])
    assert plugin("transformation", answers).version == "1"
