"""What a list of Java plug-ins asks of a JVM: a place whose plug-ins end it, or hang, is not asked for each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine.java_host import plugin_answers
from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc, described

LOST = JavaHostGoneError("out of memory: raise connectrt.java.heap", code="CRT-1132")


class Host:
    """A JVM that a folder named ``bad`` ends."""

    def __init__(self, error: ConnectError = LOST) -> None:
        self.asked: Counter[str] = Counter()
        self._error = error

    def ask(self, op: str, question: Mapping[str, Any], *, limit_s: float | None = None) -> Any:
        self.asked[Path(question["place"]).name] += 1
        if question["place"].endswith("bad"):
            raise self._error
        return [{"class": cls, "version": "1.0"} for cls in question["classes"]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Host], DriverAnswers]:
    monkeypatch.setattr(plugin_answers, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(DriverAnswers, "java_major", lambda self: 17)
    connectors: Any = object()  # where connectors live: not asked
    return lambda host: DriverAnswers(connectors, "service_load", host)  # type: ignore[arg-type]


def in_folder(name: str, answers: DriverAnswers) -> list[JavaPluginDesc]:
    kinds = [("source", f"com.example.{name}{number}") for number in range(5)]
    return [
        plugin
        for plugin in described(kinds, Path("/plugins") / name, name, answers)
        if isinstance(plugin, JavaPluginDesc)
    ]


@pytest.mark.parametrize("error", [LOST, ConnectError("no answer", code="CRT-1130")])
def test_unavailable_versions_are_requested_once_for_a_place(
    answers: Callable[[Host], DriverAnswers], error: ConnectError, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(error)
    asks = answers(host)
    bad, good = in_folder("bad", asks), in_folder("good", asks)
    for _ in range(3):
        assert {plugin.version for plugin in bad} == {None}
        assert {plugin.version for plugin in good} == {"1.0"}
    assert host.asked == {"bad": 1, "good": 1}
    monkeypatch.setattr(plugin_answers, "AGAIN_AFTER_S", 0.0)
    assert bad[0].version is None
    assert host.asked["bad"] == 2


def test_without_a_java_it_is_asked_again_for_it_may_come_back(answers: Callable[[Host], DriverAnswers]) -> None:
    host = Host(ConnectError("no Java", code="CRT-1133"))
    (plugin, *_) = in_folder("bad", answers(host))
    assert (plugin.version, plugin.version, host.asked["bad"]) == (None, None, 2)
