"""The JVM beside a driver: what connectors ask and are asked, and what becomes of them when it is lost."""

from __future__ import annotations

import os
import queue
import signal
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.connector import ConnectorTransactionBoundaries, ExactlyOnceSupport
from spark_connect_rt.engine.java_host.connectors import JavaSourceConnector
from spark_connect_rt.engine.java_host.driver_host import DriverHost, JavaError, JvmSettings, Limits, driver_host
from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.task_runner import VALUE, PluginMetricKey, part_of
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.registry import Plugins
from tests.support.java_test_plugins import (
    OBEDIENT_SOURCE,
    SINK,
    SOURCE,
    SOURCE_TASK,
    UNRULY,
    java_plugin_path,
    other_version,
    part_of_jar,
)

LIMIT_S = 60
LIMITS = Limits(answer_s=2, idle_s=1, hang_s=3, look_s=0.3)


class Context:
    """What a connector asked of its worker."""

    def __init__(self) -> None:
        self.said: queue.Queue[str] = queue.Queue()
        self.measures: dict[str, float] = {}

    def request_task_reconfiguration(self) -> None:
        self.said.put("reconfigure")

    def raise_error(self, error: Exception) -> None:
        self.said.put(f"failed: {error}")

    def measured(self, values: Mapping[str, float]) -> None:
        self.measures |= values

    def stored_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        assert partitions == [{"p": "1"}]
        return [{"at": 7}]

    def next(self) -> str:
        return self.said.get(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def host() -> Iterator[DriverHost]:
    host = driver_host(JvmSettings("96m"), LIMITS)
    yield host
    host.close()


def registry(host: DriverHost, folder: Path) -> Plugins:
    answers = DriverAnswers(host, "service_load")
    return Plugins((), lambda: discover([str(folder)], with_environment=False, java=answers))


@pytest.fixture(scope="module")
def plugins(host: DriverHost) -> Plugins:
    return registry(host, java_plugin_path())


@pytest.fixture
def started(plugins: Plugins) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def start(name: str, misbehave: str = "", **more: str) -> Any:
        connector = plugins.class_of("MisbehavingSource")()
        connector.context = Context()
        connector.start({"name": name, "connector.class": SOURCE, "misbehave": misbehave, **more})
        made.append(connector)
        return connector

    yield start
    for opened in made:
        opened.stop()


def until(fact: Callable[[], Any]) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while not fact():
        assert time.monotonic() < limit_s
        time.sleep(0.05)


def test_a_connector_answers_all_that_the_runtime_asks(plugins: Plugins, started: Callable[..., Any]) -> None:
    connector = started("a")
    assert isinstance(connector, JavaSourceConnector)
    assert (connector.version(), connector.java_task_class) == ("1.0", SOURCE_TASK)
    assert connector.config_def()["records"].default == "1000"
    assert [config["task.number"] for config in connector.task_configs(2)] == ["0", "1"]
    assert connector.exactly_once_support({}) is ExactlyOnceSupport.SUPPORTED
    assert connector.alter_offsets({}, [({"p": 1}, {"at": 2}), ({"p": 2}, None)])
    assert connector.validate({"records": "x"})["records"][0].endswith("Not a number of type LONG")


def test_connector_answers_whether_it_defines_transaction_boundaries(plugins: Plugins) -> None:
    for name, answer in ((OBEDIENT_SOURCE, "SUPPORTED"), (SOURCE, "UNSUPPORTED")):
        said = plugins.class_of(name)().can_define_transaction_boundaries({})
        assert said is ConnectorTransactionBoundaries[answer], name


def test_two_versions_of_one_class_run_in_one_jvm(host: DriverHost, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(java_plugin_path() / "misbehaving")
    other_version(tmp_path / "two", "2.0")
    plugins = registry(host, tmp_path)
    assert plugins.class_of(SOURCE)().version() == "2.0", "the newest, unless one is asked for"
    started: dict[str, Any] = {}
    for version in ("1.0", "2.0"):
        started[version] = connector = plugins.class_of(f"{SOURCE}@{version}")()
        connector.context = Context()
        connector.start({"name": f"v{version}", "connector.class": SOURCE})
    pid = host.pid
    for version, connector in started.items():
        assert connector.version() == version
        assert len(connector.task_configs(2)) == 2
        connector.stop()
    assert host.pid == pid


def test_connector_error_has_the_java_stack(started: Callable[..., Any], plugins: Plugins) -> None:
    with pytest.raises(JavaError, match="misbehaves on purpose") as caught:
        started("b", "connector.start:throw")
    assert "MisbehavingSource.start(MisbehavingSource.java" in str(caught.value.__cause__)
    with pytest.raises(BadRequestError, match="must return a configuration that is not null"):
        plugins.class_of(SOURCE)().validate({"misbehave": "validate:null"})
    reading = started("b", "connector.start:offsets")
    assert reading.context.next() == "failed: stored {at=7}"
    raising = started("b", "connector.start:raise")
    assert raising.context.next() == "failed: raised on purpose"


@pytest.mark.parametrize("deed", ["throw", "checked", "error", "missing", "overflow"])
def test_connector_error_of_any_kind_is_the_answer_of_that_call(
    deed: str, started: Callable[..., Any], plugins: Plugins
) -> None:
    tasks, ended = started("t", f"taskConfigs:{deed}"), started("t", f"connector.stop:{deed}")
    nobody = plugins.class_of(SOURCE)()
    calls = {
        "start": lambda: started("t", f"connector.start:{deed}"),
        "taskClass": lambda: started("t", f"taskClass:{deed}"),
        "taskConfigs": lambda: tasks.task_configs(1),
        "validate": lambda: nobody.validate({"misbehave": f"validate:{deed}"}),
        "exactlyOnceSupport": lambda: nobody.exactly_once_support({"misbehave": f"exactlyOnceSupport:{deed}"}),
        "alterOffsets": lambda: nobody.alter_offsets({"misbehave": f"alterOffsets:{deed}"}, []),
        "stop": ended.stop,
    }
    for name, call in calls.items():
        with pytest.raises(JavaError) as caught:
            call()
        assert "Misbehaviour" in str(caught.value.__cause__), name


def test_a_failure_to_say_one_thing_about_exactly_once_leaves_the_other(plugins: Plugins) -> None:
    connector = plugins.class_of(SOURCE)()
    config = {"misbehave": "exactlyOnceSupport:throw"}
    assert connector.can_define_transaction_boundaries(config) is ConnectorTransactionBoundaries.UNSUPPORTED
    with pytest.raises(JavaError):
        connector.exactly_once_support(config)


def test_a_sink_connector_has_a_context_of_its_kind(plugins: Plugins) -> None:
    connector: Any = plugins.class_of("MisbehavingSink")()
    connector.context = Context()
    connector.start({"name": "s", "connector.class": SINK, "topics": "t", "misbehave": "connector.start:raise"})
    assert connector.context.next() == "failed: raised on purpose"
    connector.stop()


def test_one_that_starts_again_may_measure_again_however_it_ended(started: Callable[..., Any]) -> None:
    started("m", measured="yes").stop()
    with pytest.raises(JavaError, match="on purpose"):
        started("m", "connector.start:late", measured="yes")
    started("m", measured="yes")


def test_connector_measures_belong_to_its_worker(started: Callable[..., Any]) -> None:
    first, second = started("m1", measured="yes"), started("m2", measured="yes")
    silent = started("m3")
    wanted = {part_of(PluginMetricKey("plugins", "started", {}).encode(), VALUE): 1.0}
    until(lambda: first.context.measures and second.context.measures)
    assert (first.context.measures, second.context.measures, silent.context.measures) == (wanted, wanted, {})


def test_one_that_hangs_in_any_call_holds_up_no_other() -> None:
    host = driver_host(JvmSettings("96m"), LIMITS)
    plugins = registry(host, java_plugin_path())

    def new(misbehave: str = "") -> Any:
        connector = plugins.class_of("MisbehavingSource")()
        connector.context = Context()
        return connector, {"name": misbehave or "c", "connector.class": SOURCE, "misbehave": misbehave}

    def begun(misbehave: str) -> Any:
        connector, config = new(misbehave)
        connector.start(config)
        return connector

    (nobody, _), (starting, config) = new(), new("connector.start:hang")
    splitting, ending = begun("taskConfigs:hang"), begun("connector.stop:hang")
    bounded = {
        "validate": lambda: nobody.validate({"misbehave": "validate:hang"}),
        "exactly_once": lambda: nobody.exactly_once_support({"misbehave": "exactlyOnceSupport:hang"}),
        "alter_offsets": lambda: nobody.alter_offsets({"misbehave": "alterOffsets:hang"}, []),
    }
    with ThreadPoolExecutor() as threads:
        late = {op: threads.submit(call) for op, call in bounded.items()}
        calls = (lambda: starting.start(config), lambda: splitting.task_configs(1), ending.stop)
        unbounded = [threads.submit(call) for call in calls]  # the worker gives them up, and goes on
        for op, call in late.items():
            assert f"did not answer '{op}' within 2 s" in str(call.exception(LIMIT_S))
        assert len(begun("").task_configs(3)) == 3
        assert [call.done() for call in unbounded] == [False, False, False]
        host.close()
        for call in unbounded:
            assert call.exception(LIMIT_S) is None or isinstance(call.exception(), JavaHostGoneError)


def test_a_killed_jvm_is_started_again_with_its_connectors(host: DriverHost, started: Callable[..., Any]) -> None:
    connector = started("d")
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    assert connector.context.next() == "reconfigure"
    assert len(connector.task_configs(2)) == 2
    assert host.trouble() == ""


def test_a_jvm_that_hangs_is_noticed_and_replaced(host: DriverHost, started: Callable[..., Any]) -> None:
    connector = started("e")
    before = host.pid
    assert before is not None
    os.kill(before, signal.SIGSTOP)
    assert connector.context.next() == "reconfigure"
    assert host.pid != before


def test_a_connector_that_calls_system_exit_fails_and_its_neighbour_continues(started: Callable[..., Any]) -> None:
    good, bad = started("f"), started("g", "taskConfigs:exit")
    with pytest.raises(JavaHostGoneError, match=r"called System\.exit"):
        bad.task_configs(1)
    assert "called System.exit" in bad.context.next()
    assert good.context.next() == "reconfigure"
    assert len(good.task_configs(1)) == 1


def test_one_that_ends_the_jvm_in_which_plug_ins_are_looked_for_ends_no_connector(
    host: DriverHost, started: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part_of_jar(tmp_path / "exits", "source.SourceConnector", f"{UNRULY}ExitsInVersion")
    connector, before = started("h"), host.pid
    searches = driver_host(JvmSettings("64m"), LIMITS)
    answers = DriverAnswers(host, "hybrid_warn", searches)
    plugins = Plugins((), lambda: discover([str(tmp_path)], with_environment=False, java=answers))
    assert [plugin.version for plugin in plugins.list()] == [None]
    (place,) = plugins.broken()
    assert place.error.startswith("only its service files could be read")
    for words in (place.error, caplog.text):
        assert "called System.exit" in words
    assert host.pid == before
    assert len(connector.task_configs(1)) == 1
    searches.close()


def test_an_idle_jvm_ends_and_the_next_question_starts_one(host: DriverHost, plugins: Plugins) -> None:
    plugins.class_of(SOURCE)().validate({})
    until(lambda: host.pid is None)
    assert plugins.class_of(SOURCE)().validate({}) == {}


def test_missing_classes_are_named_with_the_folder(host: DriverHost, tmp_path: Path) -> None:
    (jar,) = java_plugin_path().rglob("*.jar")
    with zipfile.ZipFile(jar) as whole, zipfile.ZipFile(tmp_path / "half.jar", "w") as half:
        service = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
        for name in (service, f"{SOURCE.replace('.', '/')}.class"):
            half.writestr(name, whole.read(name))
    broken = registry(host, tmp_path)
    with pytest.raises(NotFoundError, match=r"NoClassDefFoundError.*Misbehaviour.*a jar that it needs is not in"):
        broken.class_of(SOURCE)
    broken.everything()
    assert "NoClassDefFoundError" in broken.broken()[0].error
    assert list(broken.list()) == []


def test_a_heap_that_is_too_small_is_reported_with_the_setting(tmp_path: Path) -> None:
    small = driver_host(JvmSettings("1k"))
    with pytest.raises(BadConfigError, match=r"connectrt\.java\.heap: 1k is too small for a Java host"):
        registry(small, java_plugin_path()).class_of(SOURCE)().validate({})
