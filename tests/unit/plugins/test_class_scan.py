"""A JVM that reads classes for a long time, or cannot: lists are answered in time and report it, the rest continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.plugins import registry as registry_module
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc, Scanned
from spark_connect_rt.plugins.registry import Plugins
from tests.unit.plugins.test_java_plugins import ORDERS, SOURCE, Runtime, jar, registry

HIDDEN = {"a": "com.example.HiddenA", "b": "com.example.HiddenB"}
LIMIT_S = 60


class SlowRuntime(Runtime):
    """Finds one class in each folder; at the second it hangs until the test lets it continue."""

    def __init__(self) -> None:
        super().__init__("hybrid_warn")
        self.go_on = threading.Event()
        self.hangs = threading.Event()

    def scan(self, place: Path, digest: str) -> Sequence[Scanned]:
        super().scan(place, digest)
        if place.name == "b":
            self.hangs.set()
            assert self.go_on.wait(LIMIT_S)
        return [Scanned("sink", HIDDEN[place.name], None)]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowRuntime]:
    monkeypatch.setattr(registry_module, "WAIT_LIMIT_S", 0.2)
    runtime = SlowRuntime()
    yield runtime
    runtime.go_on.set()


@pytest.fixture
def plugins(runtime: SlowRuntime, tmp_path: Path) -> Plugins:
    for place in HIDDEN:
        jar(tmp_path / place / "orders.jar", {SOURCE: f"{ORDERS}{place}"})
    return registry(tmp_path, runtime)


def searching(plugins: Plugins, runtime: SlowRuntime) -> threading.Thread:
    """Return a thread that has all searched, as at a worker's start; it hangs at the second place."""
    thread = threading.Thread(target=lambda: plugins.everything(patient=True), daemon=True)
    thread.start()
    assert runtime.hangs.wait(LIMIT_S)
    return thread


def java_names(plugins: Plugins) -> set[str]:
    return {plugin.java_class for plugin in plugins.list() if isinstance(plugin, JavaPluginDesc)}


def test_a_list_waits_no_longer_than_its_limit_and_says_what_is_missing(
    plugins: Plugins, runtime: SlowRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = {f"{ORDERS}a", f"{ORDERS}b", HIDDEN["a"]}
    searching(plugins, runtime)
    assert java_names(plugins) == known
    assert java_names(plugins) == known
    (late,) = plugins.broken()
    assert late.location == str(tmp_path / "b")
    for setting in ("plugin.discovery", "connectrt.java.heap"):
        assert setting in late.error
    assert caplog.text.count("a JVM has been reading its classes") == 1
    with pytest.raises(NotFoundError, match=r"a JVM has been reading its classes for more than 0\.2 s"):
        plugins.find("com.example.HiddenB")
    runtime.go_on.set()
    plugins.everything(patient=True)
    assert java_names(plugins) == {*known, HIDDEN["b"]}
    assert plugins.broken() == []
    assert plugins.find("HiddenB").java_class == HIDDEN["b"]


def test_known_names_are_found_while_a_jvm_looks(plugins: Plugins, runtime: SlowRuntime) -> None:
    """The search of a start held the registry's lock: no Java connector could start until it was done."""
    search = searching(plugins, runtime)
    began_s = time.monotonic()
    assert plugins.find(f"{ORDERS}b").location.endswith("/b")
    assert time.monotonic() - began_s < LIMIT_S / 2
    assert search.is_alive()
    runtime.go_on.set()
    search.join(LIMIT_S)
    assert plugins.find("HiddenB").java_class == HIDDEN["b"]


def test_result_of_an_older_search_is_dropped(plugins: Plugins, runtime: SlowRuntime, tmp_path: Path) -> None:
    searching(plugins, runtime)
    (tmp_path / "b" / "orders.jar").unlink()
    (tmp_path / "b").rmdir()
    plugins.refresh()
    runtime.go_on.set()
    plugins.everything(patient=True)
    assert java_names(plugins) == {f"{ORDERS}a", HIDDEN["a"]}
    assert plugins.broken() == []


def test_a_place_that_cannot_be_searched_is_named_where_a_class_is_missed(tmp_path: Path) -> None:
    jar(tmp_path / "orders.jar", {SOURCE: ORDERS})
    runtime = Runtime("hybrid_warn")
    runtime.scanned = ConnectError("out of memory: raise connectrt.java.heap")
    with pytest.raises(NotFoundError, match=r"orders\.jar: only its service files .* raise connectrt\.java\.heap"):
        registry(tmp_path, runtime).find("com.example.Hidden")
