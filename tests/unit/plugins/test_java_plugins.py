"""Java plug-ins of plugin.path, found by their service files; a runtime that only remembers stands for the JVM."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.config.connectrt_config import PluginSettings
from spark_connect_rt.errors import BadConfigError, ConnectError, NotFoundError
from spark_connect_rt.operations.plugin_install.report import refuse_unlisted
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc, Scanned
from spark_connect_rt.plugins.registry import Plugins

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
ORDERS = "com.example.OrdersConnector"
TRANSFORMATION = "org.apache.kafka.connect.transforms.Transformation"
UNWRAP = "com.example.Unwrap"


class Runtime:
    """Returns the answers that a test wants of a JVM."""

    def __init__(self, discovery: str = "service_load", versions: Mapping[str, str] | None = None) -> None:
        self.discovery = discovery
        self.versions = versions or {}
        self.scanned: Sequence[Scanned] | ConnectError = ()
        self.asked: list[str] = []

    def java_major(self) -> int:
        return 17

    def version(self, plugin: JavaPluginDesc) -> str | None:
        self.asked.append(plugin.java_class)
        return self.versions.get(Path(plugin.location).name, "1.0")

    def broken(self, plugin: JavaPluginDesc) -> str:
        return ""

    def scan(self, place: Path, digest: str) -> Sequence[Scanned]:
        self.asked.append(f"scan {place.name}")
        if isinstance(self.scanned, ConnectError):
            raise self.scanned
        return self.scanned

    def class_of(self, plugin: JavaPluginDesc) -> type[Any]:
        return type(plugin.java_class, (), {})


def jar(path: Path, services: Mapping[str, str], *, java: int = 17, classes: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for interface, names in services.items():
            archive.writestr(f"META-INF/services/{interface}", f"# of ours\n{names}\n")
            for name in names.split("\n") if classes else ():
                head = b"\xca\xfe\xba\xbe\0\0" + (44 + java).to_bytes(2, "big")
                archive.writestr(f"{name.replace('.', '/')}.class", head + b"...")
    return path


def registry(folder: Path, runtime: Runtime) -> Plugins:
    return Plugins(BUNDLED, lambda: discover([str(folder)], with_environment=False, java=runtime))


def test_jar_folder_and_uber_jar_are_found_without_a_jvm_next_to_a_python_plugin(tmp_path: Path) -> None:
    jar(tmp_path / "orders-2.1" / "lib" / "orders.jar", {SOURCE: ORDERS})
    jar(tmp_path / "labels.jar", {"org.apache.kafka.connect.transforms.Transformation": "com.example.Label$Key"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "entry_points.txt").write_text("[spark_connect_rt.predicates]\nP = m:P\n")
    runtime = Runtime()
    plugins = registry(tmp_path, runtime)
    for name in (ORDERS, "OrdersConnector", "Orders"):
        found = plugins.find(name)
        assert (found.java_class, found.type, found.location) == (ORDERS, "source", str(tmp_path / "orders-2.1"))
    assert plugins.find("com.example.Label$Key").type == "transformation"
    assert plugins.find("m:P").type == "predicate"
    assert runtime.asked == []
    assert plugins.find(ORDERS).version == "1.0"


def test_the_python_one_runs_unless_java_or_a_version_only_the_jar_has_is_asked_for(tmp_path: Path) -> None:
    jar(tmp_path / "file" / "connect-file.jar", {SOURCE: FILE_SOURCE})
    plugins = registry(tmp_path, Runtime(versions={"file": "4.1.1"}))
    assert plugins.find("FileStreamSource").location == "bundled"
    assert plugins.find("FileStreamSource%python").location == "bundled"
    assert plugins.find("FileStreamSource%java").location == str(tmp_path / "file")
    assert plugins.find("FileStreamSource@4.1.1").location == str(tmp_path / "file")
    with pytest.raises(NotFoundError, match=r"connectrt\.runtime=python allows no other"):
        plugins.find("nothing.Such%python")


def test_a_name_that_nothing_has_starts_no_jvm(tmp_path: Path) -> None:
    """Every start of a task looks its chain up in Python first: the versions of 40 Java ones cost six seconds there."""
    jar(tmp_path / "orders" / "orders.jar", {SOURCE: ORDERS})
    runtime = Runtime()
    with pytest.raises(NotFoundError, match=f"available connectors are: .*{ORDERS}"):
        registry(tmp_path, runtime).find("com.example.Nothing%java")
    assert runtime.asked == []


def test_versions_stand_side_by_side_and_the_newest_is_taken(tmp_path: Path) -> None:
    for version in ("9.0.0.Final", "10.0.0.Beta1", "10.0.0.Final"):
        jar(tmp_path / version / "orders.jar", {SOURCE: ORDERS})
    names = {version: version for version in ("9.0.0.Final", "10.0.0.Beta1", "10.0.0.Final")}
    plugins = registry(tmp_path, Runtime(versions=names))
    assert plugins.versions(ORDERS) == ["9.0.0.Final", "10.0.0.Beta1", "10.0.0.Final"]
    assert plugins.find(ORDERS).version == "10.0.0.Final"
    assert plugins.find(f"{ORDERS}@(,10.0.0.Beta1]").version == "10.0.0.Beta1"
    assert plugins.find(f"{ORDERS}@9.0.0.Final").version == "9.0.0.Final"


def test_two_of_one_name_and_version_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for folder in ("a", "b"):
        jar(tmp_path / folder / "orders.jar", {SOURCE: ORDERS})
    plugins = registry(tmp_path, Runtime())
    found = plugins.find(ORDERS)
    assert found.location == str(tmp_path / "b")
    assert [plugin.location for plugin in plugins.list() if plugin.java_class == ORDERS] == [found.location]
    (twin,) = plugins.broken()
    assert (twin.location, twin.error) == (
        str(tmp_path / "a"),
        f"version 1.0 is also at {tmp_path / 'b'}, which is used. Remove one of them from plugin.path",
    )
    assert f"({tmp_path / 'a'}, {tmp_path / 'b'}), and that of {tmp_path / 'b'} is used" in caplog.text


@pytest.mark.parametrize("kind", ["converter", "header_converter"])
def test_a_class_of_two_kinds_is_of_the_kind_that_is_meant(tmp_path: Path, kind: str) -> None:
    storage = "org.apache.kafka.connect.storage"
    jar(tmp_path / "both" / "both.jar", {f"{storage}.HeaderConverter": "com.example.Both"})
    jar(tmp_path / "both" / "services.jar", {f"{storage}.Converter": "com.example.Both"}, classes=False)
    assert registry(tmp_path, Runtime()).find("com.example.Both", kind).type == kind


def test_a_transformation_that_two_connectors_bring_is_not_a_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in ("a", "b"):
        jar(tmp_path / folder / "orders.jar", {TRANSFORMATION: UNWRAP})
    plugins = registry(tmp_path, Runtime())
    assert plugins.find(UNWRAP).location == str(tmp_path / "b")
    assert not plugins.broken()
    assert not caplog.text


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(b"no zip"), "bad.jar is not a valid jar: File is not a zip file"),
        (lambda path: jar(path, {}), "META-INF/services in its jars names no plug-in"),
        (lambda path: jar(path, {SOURCE: ORDERS}, java=25), "is compiled for Java 25, but the JVM of Java plug-ins is"),
        (lambda path: jar(path, {SOURCE: ORDERS}, classes=False), "none of the jars there contains its class"),
    ],
)
def test_unusable_jar_is_reported_and_harms_no_other(tmp_path: Path, make: Any, why: str) -> None:
    make(tmp_path / "bad.jar")
    jar(tmp_path / "good.jar", {SOURCE: "com.example.Good"})
    plugins = registry(tmp_path, Runtime())
    assert plugins.find("Good").location == str(tmp_path / "good.jar")
    problems = [
        broken_plugin.error for broken_plugin in plugins.broken() if broken_plugin.location == str(tmp_path / "bad.jar")
    ]
    assert any(why in problem for problem in problems), problems
    with pytest.raises(NotFoundError, match=r"Failed to find any class that implements Connector .*"):
        plugins.find(ORDERS)


def test_the_answer_about_a_name_has_the_reason(tmp_path: Path) -> None:
    jar(tmp_path / "orders.jar", {SOURCE: ORDERS}, java=25)
    with pytest.raises(NotFoundError, match=r"OrdersConnector of .*orders\.jar: is compiled for Java 25"):
        registry(tmp_path, Runtime()).find("OrdersConnector")


def test_a_plugin_path_that_is_gone_is_a_problem_with_the_setting(tmp_path: Path) -> None:
    broken = registry(tmp_path / "gone", Runtime()).broken()
    assert [broken_plugin.error for broken_plugin in broken] == [
        "it is in plugin.path, but cannot be read: No such file or directory"
    ]


def test_unknown_name_starts_a_search_beyond_service_files(tmp_path: Path) -> None:
    jar(tmp_path / "orders.jar", {SOURCE: ORDERS})
    runtime = Runtime("hybrid_warn")
    runtime.scanned = [Scanned("source", ORDERS, "1.0"), Scanned("sink", "com.example.Hidden", "1.0")]
    plugins = registry(tmp_path, runtime)
    assert plugins.find(ORDERS).type == "source"
    assert runtime.asked == []
    assert plugins.find("com.example.Hidden").type == "sink"
    assert runtime.asked == ["scan orders.jar"]
    assert [plugin.java_class for plugin in plugins.list() if plugin.is_java] == [
        "com.example.Hidden",
        ORDERS,
    ]


def test_a_jar_that_is_not_a_plug_in_and_a_jvm_that_cannot_look(tmp_path: Path) -> None:
    jar(tmp_path / "library.jar", {})
    runtime = Runtime("hybrid_warn")
    plugins = registry(tmp_path, runtime)
    plugins.everything()
    assert "a jar without plug-ins" in plugins.broken()[0].error
    runtime.scanned = ConnectError("no JVM: connectrt.java.heap=1k")
    plugins = registry(tmp_path, runtime)
    plugins.everything()
    assert "only its service files could be read: no JVM: connectrt.java.heap=1k" in plugins.broken()[0].error


def test_hybrid_fail_refuses_what_no_service_file_names(tmp_path: Path) -> None:
    jar(tmp_path / "orders.jar", {SOURCE: ORDERS})
    runtime = Runtime("hybrid_fail")
    runtime.scanned = [Scanned("sink", "com.example.Hidden", "1.0")]
    settings = PluginSettings.of({"plugin.discovery": "HYBRID_FAIL"})
    with pytest.raises(
        BadConfigError, match=r"plugin.discovery: .*no file in META-INF/services names .*com.example.Hidden"
    ):
        refuse_unlisted(settings, registry(tmp_path, runtime))
    runtime.scanned = [Scanned("source", ORDERS, "1.0")]
    refuse_unlisted(settings, registry(tmp_path, runtime))


def test_a_links_circle_ends_and_a_jar_alone_may_be_named(tmp_path: Path) -> None:
    jar(tmp_path / "a" / "orders.jar", {SOURCE: ORDERS})
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert registry(tmp_path, Runtime()).find(ORDERS).location == str(tmp_path / "a")
    assert registry(tmp_path / "a" / "orders.jar", Runtime()).find(ORDERS).location == str(tmp_path / "a/orders.jar")


def test_libraries_next_to_a_plugin_are_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(30):
        jar(tmp_path / f"library-{number:02}.jar", {})
    jar(tmp_path / "orders" / "orders.jar", {SOURCE: ORDERS})
    plugins = registry(tmp_path, Runtime())
    plugins.everything()
    plugins.everything()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "30 of the places" in caplog.text
    assert "library-00.jar" in caplog.text
    assert len(plugins.broken()) == 30


def test_a_packed_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "debezium-plugin.tar.gz").write_bytes(b"packed")
    (tmp_path / "notes.txt").write_text("not an archive")
    (broken,) = registry(tmp_path, Runtime()).broken()
    assert broken.name == "debezium-plugin.tar.gz"
    assert "Unpack it" in broken.error


def test_two_places_of_a_version_are_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for place in ("a", "b"):
        jar(tmp_path / place / "orders.jar", {SOURCE: ORDERS})
    plugins = registry(tmp_path, Runtime())
    for _ in range(3):
        plugins.find(ORDERS)
    assert sum("is in several places" in record.message for record in caplog.records) == 1
