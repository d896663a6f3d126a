"""Plug-ins by Java class, alias and Python name."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.engine.process_plugins import plugins_in, plugins_of
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.plugins.bundled_plugins import BUNDLED, bundled_plugins
from spark_connect_rt.plugins.discovery import Discovered
from spark_connect_rt.plugins.plugin_desc import IN_REST, PluginDesc
from spark_connect_rt.plugins.registry import TYPES, Plugins, bundled, kind_of


class OwnPredicate(Predicate):
    """A predicate as a user's plug-in."""

    def test(self, record: object) -> bool:
        return True


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        " FileStreamSource ",
        "spark_connect_rt.connectors.files.file_stream_source:FileStreamSourceConnector",
        "spark_connect_rt.connectors.files.file_stream_source.FileStreamSourceConnector",
        "spark_connect_rt.connectors.file_stream_source:FileStreamSourceConnector",  # before the wings
        "spark_connect_rt.connectors.file_stream_source.FileStreamSourceConnector",
    ],
)
def test_every_spelling_finds_the_file_source(name: str) -> None:
    found = bundled_plugins().find(name)
    assert (found.type, found.java_class) == ("source", "org.apache.kafka.connect.file.FileStreamSourceConnector")
    assert found.cls.__name__ == "FileStreamSourceConnector"


def test_every_bundled_plugin_is_what_its_description_says() -> None:
    for plugin in BUNDLED:
        assert issubclass(plugin.cls, TYPES[plugin.type][0]), plugin
        first = next(other for other in BUNDLED if other.target == plugin.target)  # a converter is of two kinds
        assert bundled_plugins().find(plugin.java_class) is first


def test_short_names_of_the_bundled_ones() -> None:
    plugins = bundled_plugins()
    for name in (
        "FileStreamSink",
        "DelimitedFileSource",
        "SparkTableSink",
        "StringConverter",
        "Json",
        "EnvVar",
        "SimpleHeader",
    ):
        assert plugins.find(name).target.startswith("spark_connect_rt.")


def test_users_own_plugins_need_no_registration() -> None:
    for name in (f"{__name__}:OwnPredicate", f"{__name__}.OwnPredicate"):
        found = Plugins().find(name)
        assert (found.cls, found.type, found.version) == (OwnPredicate, "predicate", None)
        assert found.java_class == f"{__name__}.OwnPredicate"


def test_a_name_from_rest_imports_only_what_the_worker_lists_names_itself_or_allows() -> None:
    forbidden = "tests.unit.plugins.never_imported"
    for raw in ({}, {"connectrt.plugins.modules": "mine, tests.unit.plugin"}):
        for name in (f"{forbidden}:Any", f"{forbidden}.Any"):
            with pytest.raises(NotFoundError, match=r"connectrt\.plugins\.modules"):
                plugins_of(raw).class_of(name)
            assert forbidden not in sys.modules
    own = f"{__name__}:OwnPredicate"
    for raw in (
        {"key.converter": own},
        {"config.providers": f"x, {own}"},
        {"connectrt.plugins.modules": "mine, tests.unit.plugins"},
        {"connectrt.plugins.modules": __name__},
        {"connectrt.plugins.modules": "*"},
    ):
        assert plugins_of(raw).class_of(own) is OwnPredicate
    assert plugins_of({}).find("FileStreamSource").cls
    assert plugins_in(()).class_of(own) is OwnPredicate  # on executors: the worker has looked at the names


@pytest.mark.parametrize(
    "name", ["Nope", "no.such.module:Nope", "no.such.Nope", "os:path", "builtins:int", "builtins:nope", ":", "."]
)
def test_unknown_names_are_not_found(name: str) -> None:
    with pytest.raises(NotFoundError):
        bundled_plugins().class_of(name)


def test_an_unknown_connector_lists_those_there_are() -> None:
    with pytest.raises(NotFoundError, match=r"which name matches Nope, available connectors are: org\.apache"):
        bundled_plugins().find("Nope")


def test_an_alias_of_two_is_ambiguous_but_whole_names_are_not() -> None:
    plugins = Plugins([bundled("a.b:XSource", "source"), bundled("c.d:XSource", "source")])
    with pytest.raises(NotFoundError, match="ambiguous"):
        plugins.find("XSource")
    assert plugins.find("a.b:XSource").target == "a.b:XSource"


def test_the_list_is_sinks_then_sources_by_name() -> None:
    plugins = bundled_plugins()
    listed = [(plugin.type, plugin.java_class) for plugin in plugins.list(connectors_only=True)]
    assert listed == sorted(listed)
    assert {kind for kind, _ in listed} == {"sink", "source"}
    in_rest = [plugin for plugin in BUNDLED if plugin.type in IN_REST and plugin.listed]
    assert len(plugins.list(connectors_only=False)) == len(in_rest)
    assert len(plugins.everything()) == len(BUNDLED)
    assert kind_of(int) is None


def test_listing_imports_no_plugin() -> None:
    code = (
        "import sys; from spark_connect_rt.plugins.bundled_plugins import bundled_plugins; "
        "bundled_plugins().list(False); "
        "assert not [m for m in sys.modules if '.connectors.' in m or '.converters.' in m]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_refresh_waits_for_a_search_that_began_before_it() -> None:
    here: list[PluginDesc] = []
    looked, may_end = threading.Event(), threading.Event()

    def discover() -> Discovered:
        found = Discovered(tuple(here))
        looked.set()
        may_end.wait(5.0)
        return found

    plugins = Plugins((), discover)
    first = threading.Thread(target=plugins.everything)
    first.start()
    assert looked.wait(5.0)
    here.append(bundled(f"{__name__}:OwnPredicate", "predicate"))  # installed after it looked
    refreshing = threading.Thread(target=plugins.refresh)
    refreshing.start()
    may_end.set()
    for thread in (first, refreshing):
        thread.join(5.0)
    assert [plugin.target for plugin in plugins.everything()] == [f"{__name__}:OwnPredicate"]
