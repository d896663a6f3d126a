"""Plug-ins of ``plugin.path``: found by metadata, imported apart from each other, broken ones reported and harmless."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_connect_rt.api.plugin_modules import public_module, versioned
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.registry import Plugins
from tests.unit.plugins.plugin_folders import (
    STAMP,
    TRANSFORMATION,
    dist_files,
    make_folder,
    make_venv,
    make_wheel,
    stamp_plugin,
)


def registry(*folders: Path) -> Plugins:
    return Plugins(BUNDLED, lambda: discover([str(folder) for folder in folders], with_environment=False))


def stamp_of(plugins: Plugins, name: str) -> object:
    return plugins.class_of(name)().apply(None)


def test_a_folder_a_wheel_and_a_venv_each_have_their_own_copy_of_a_dependency(tmp_path: Path) -> None:
    make_folder(tmp_path / "in-folder", stamp_plugin("kinds_folder", "1.0"))
    wheel = stamp_plugin("kinds_wheel", "2.0")
    make_wheel(tmp_path, "kinds_wheel", "2.0", wheel, STAMP.format(module="kinds_wheel"))
    make_venv(tmp_path / "in-venv", stamp_plugin("kinds_venv", "3.0"))
    plugins = registry(tmp_path)
    for name, version in (("kinds_folder", "1.0"), ("kinds_wheel", "2.0"), ("kinds_venv", "3.0")):
        assert stamp_of(plugins, f"{name}.Stamp") == f"{name} has {version}"
        found = plugins.find(f"{name}:Stamp")
        assert (found.type, found.version) == ("transformation", version)
        assert public_module(found.cls.__module__) == name
    assert plugins.broken() == []
    assert "dep" not in sys.modules


def test_late_import_of_a_plugin_is_its_own(tmp_path: Path) -> None:
    late = """
import importlib
from importlib import import_module
from spark_connect_rt.api.transformation import Transformation

class Stamp(Transformation):
    def apply(self, record):
        import dep.inner
        from dep import inner
        from . import beside
        loaded = importlib.import_module("dep.inner")
        assert dep.inner is inner is loaded is import_module("dep.inner")
        return inner.NAME, beside.NAME, importlib.metadata.version("httpx") > "0"
"""
    files = {
        "late/__init__.py": late,
        "late/beside.py": "import importlib.metadata\nNAME = 'beside'\n",
        "dep/__init__.py": "",
        "dep/inner.py": "import os.path\nNAME = os.path.join('its', 'own')\n",
    }
    make_folder(tmp_path / "late", dist_files("late", "1", files, STAMP.format(module="late")))
    assert stamp_of(registry(tmp_path), "late.Stamp") == ("its/own", "beside", True)


def test_a_plugin_cannot_replace_what_the_worker_runs_on(tmp_path: Path) -> None:
    files = {
        "keeps/__init__.py": TRANSFORMATION.replace("from dep import VERSION", "import json; VERSION = json.__name__"),
        "json.py": "raise SystemExit('replaced')\n",
        "spark_connect_rt/__init__.py": "raise SystemExit('replaced')\n",
    }
    make_folder(tmp_path / "keeps", dist_files("keeps", "1", files, STAMP.format(module="keeps")))
    assert stamp_of(registry(tmp_path), "keeps.Stamp") == "json"


def test_of_two_versions_the_newest_is_taken_unless_another_is_asked_for(tmp_path: Path) -> None:
    for version in ("1.0", "1.5", "10.0"):
        make_folder(tmp_path / f"many-{version}", stamp_plugin("many", version))
    plugins = registry(tmp_path)
    assert [plugin.version for plugin in plugins.list(False) if plugin.java_class == "many.Stamp"] == [
        "1.0",
        "1.5",
        "10.0",
    ]
    assert stamp_of(plugins, "Stamp") == "many has 10.0"
    assert stamp_of(plugins, versioned("Stamp", "1.0")) == "many has 1.0"
    assert stamp_of(plugins, versioned("many.Stamp", "[1.0,2.0)")) == "many has 1.5"
    with pytest.raises(NotFoundError, match=r"range \[3,4\], available versions: \[1\.0, 1\.5, 10\.0\]"):
        plugins.find(versioned("Stamp", "[3,4]"))


def test_an_alias_of_two_plugins_is_ambiguous_and_a_java_name_is_one_name(tmp_path: Path) -> None:
    java_name = "[spark_connect_rt.transformations]\ncom.example.Stamp = {}:Stamp\n"
    for name in ("first", "second"):
        files = {f"{name}.py": TRANSFORMATION, "dep.py": f"VERSION = '{name}'\n"}
        make_folder(tmp_path / name, dist_files(name, "1", files, java_name.format(name)))
        make_folder(tmp_path / f"{name}_too", stamp_plugin(f"{name}_too", "1"))
    plugins = registry(tmp_path)
    assert plugins.find("com.example.Stamp").java_class == "com.example.Stamp"
    with pytest.raises(NotFoundError, match="ambiguous"):
        plugins.find("Stamp")


def test_every_broken_plugin_is_reported_with_its_reason_and_harms_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = "[spark_connect_rt.transformations]\nBad = {}\n"
    make_folder(tmp_path / "no-entry", {"no_entry.py": ""})
    make_folder(tmp_path / "no-target", dist_files("no_target", "1", {}, bad.format("no colon")))
    make_folder(tmp_path / "no-group", dist_files("no_group", "1", {}, "[spark_connect_rt.tasks]\nX = a:b\n"))
    make_folder(tmp_path / "bad-ini", {"entry_points.txt": "no section\n"})
    make_venv(tmp_path / "old-venv", {"x.py": ""}, python="2.7")
    (tmp_path / "compiled-1.0-cp39-cp39-linux_x86_64.whl").write_bytes(b"")
    (tmp_path / "uber.jar").write_bytes(b"")
    make_folder(tmp_path / "jars", {"connect-x-1.0.jar": "", "slf4j.jar": ""})
    (tmp_path / "torn-1.0-py3-none-any.whl").write_bytes(b"no zip")
    make_folder(
        tmp_path / "raises", dist_files("raises", "1", {"r.py": "raise RuntimeError('mine')"}, bad.format("r:R"))
    )
    make_folder(tmp_path / "exits", dist_files("exits", "1", {"e.py": "raise SystemExit(1)"}, bad.format("e:E")))
    make_folder(tmp_path / "other", dist_files("other", "1", {"o.py": "class O: pass"}, bad.format("o:O")))
    make_folder(tmp_path / "whole", stamp_plugin("whole", "1.0"))
    plugins = registry(tmp_path, tmp_path / "is-not-there")
    with caplog.at_level(logging.ERROR):
        assert stamp_of(plugins, "whole.Stamp") == "whole has 1.0"
        for name in ("r.R", "e.E", "o.O"):
            assert name in {plugin.java_class for plugin in plugins.list(False)}
            with pytest.raises(NotFoundError) as refused:
                plugins.class_of(name)
            assert refused.value.code == "CRT-1022"
            assert name not in {plugin.java_class for plugin in plugins.list(False)}
    told = {Path(broken_plugin.location).name: broken_plugin.error for broken_plugin in plugins.broken()}
    expected = {
        "no-entry": "no entry point in any of the groups",
        "no-target": "is not package.module:Class",
        "no-group": "spark_connect_rt.tasks is not a group of plug-ins",
        "bad-ini": "metadata cannot be read",
        "old-venv": "a virtual environment of python2.7",
        "compiled-1.0-cp39-cp39-linux_x86_64.whl": "a wheel with compiled modules",
        "torn-1.0-py3-none-any.whl": "not a wheel",
        "uber.jar": "a Java plug-in",
        "jars": "a Java plug-in",
        "raises": "RuntimeError: mine",
        "exits": "SystemExit: 1",
        "other": "is not a Transformation",
        "is-not-there": "cannot be read: No such file",
    }
    assert set(told) == set(expected)
    for name, why in expected.items():
        assert why in told[name], name
        assert name in caplog.text


def test_compiled_modules_of_the_worker_are_used_and_two_copies_are_refused(tmp_path: Path) -> None:
    uses = TRANSFORMATION.replace("from dep import VERSION", "import {0}; VERSION = {0}.__name__")
    extension = {"orjson/fake.abi3.so": "", "orjson/__init__.py": "raise SystemExit('the plug-in\\'s copy')"}
    make_folder(
        tmp_path / "fast",
        dist_files("fast", "1", {"fast.py": uses.format("orjson"), **extension}, STAMP.format(module="fast")),
    )
    for name in ("one", "two"):
        files = {f"{name}.py": uses.format("only_plugins_have"), "only_plugins_have/__init__.py": "import lent\n"}
        files |= {"only_plugins_have/fake.abi3.so": "", "lent.py": ""}
        make_folder(tmp_path / name, dist_files(name, "1", files, STAMP.format(module=name)))
    plugins = registry(tmp_path)
    assert stamp_of(plugins, "fast.Stamp") == "orjson"
    assert stamp_of(plugins, "one.Stamp") == "only_plugins_have"
    with pytest.raises(NotFoundError, match="the copy of plug-in one is already in use"):
        plugins.class_of("two.Stamp")


def test_a_hundred_plugins_are_found_without_an_import(tmp_path: Path) -> None:
    """The time is printed, not tested (house: no timed test); ``pytest -s`` shows it."""
    for number in range(100):
        make_folder(tmp_path / f"p{number}", stamp_plugin(f"hundred_{number}", "1.0"))
    code = """
import sys, time
from spark_connect_rt.engine.process_plugins import plugins_in
began = time.perf_counter()
plugins = plugins_in((sys.argv[1],))
found = [one for one in plugins.everything() if one.java_class.startswith("hundred_")]
print(f"discovery of {len(found)} plug-ins and the environment's: {(time.perf_counter() - began) * 1000:.0f} ms")
assert len(found) == 100
assert not plugins.broken()
assert not [name for name in sys.modules if "hundred_" in name or name == "dep"]
"""
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)


def test_the_version_of_a_connector_is_that_of_its_wheel_unless_it_says_another(tmp_path: Path) -> None:
    source = """
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.api.connector import SourceConnector

class Plain(SourceConnector):
    def config_def(self): return ConfigDef()
    def task_class(self): return object
    def task_configs(self, max_tasks): return []
    def start(self, config): pass
    def stop(self): pass

class Says(Plain):
    def version(self): return "own"
"""
    points = "[spark_connect_rt.source_connectors]\nPlain = queues:Plain\nSays = queues:Says\n"
    make_wheel(tmp_path, "queues", "0.3", {"queues/__init__.py": source}, points)
    plugins = registry(tmp_path)
    made = [plugins.class_of(f"queues.{name}")() for name in ("Plain", "Says")]
    assert [connector.version() for connector in made] == ["0.3", "own"]
