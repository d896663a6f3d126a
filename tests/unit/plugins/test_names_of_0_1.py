"""The names of modules and classes in version 0.1 stay valid: in topics, in configurations, in imports of plug-ins.

``names_of_0_1.tsv`` was written by version 0.1, ``config_topic_of_0_1.tsv`` by a worker of it.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt._moved import MODULES, MovedModules, former_names, stored_module
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.plugins.bundled_plugins import BUNDLED, bundled_plugins
from spark_connect_rt.plugins.plugin_desc import GROUPS, load_class
from spark_connect_rt.runtime.herder.steps import publishing
from spark_connect_rt.runtime.worker.launches import stored_task_class
from spark_connect_rt.testing.in_process_cluster import InProcessCluster

HERE = Path(__file__).parent
NAMES: dict[str, list[tuple[str, str]]] = defaultdict(list)
for _line in (HERE / "names_of_0_1.tsv").read_text(encoding="utf-8").splitlines():
    _kind, _name, _answer = _line.split("\t")
    NAMES[_kind].append((_name, _answer))
PLUGINS = [(kind.removeprefix("plug-in "), *row) for kind, rows in NAMES.items() if "plug-in" in kind for row in rows]
NEEDS_DLT = ("spark_connect_rt.connectors.python_sources",)


def test_plugin_answers_to_each_of_its_names() -> None:
    found = [(kind, name, bundled_plugins().find(name, kind).java_class) for kind, name, _ in PLUGINS]
    assert found == PLUGINS


def test_rest_shows_each_class_under_its_name() -> None:
    shown_now = {(plugin.type, plugin.java_class) for plugin in BUNDLED}
    assert {(kind, shown) for kind, _, shown in PLUGINS} <= shown_now  # plug-ins that came later are more


def test_task_class_is_stored_under_its_name() -> None:
    stored = [(name, stored_task_class(bundled_plugins().find(name).cls(), name)) for name, _ in NAMES["task.class"]]
    assert stored == NAMES["task.class"]


@pytest.mark.filterwarnings("ignore:spark_connect_rt:DeprecationWarning")
def test_dead_letters_name_the_class_that_failed() -> None:
    clients = KafkaExecutorClients()
    assert [(name, clients.name_of(load_class(name))) for name, _ in NAMES["dead letter"]] == NAMES["dead letter"]


def test_groups_of_entry_points_keep_their_names() -> None:
    assert list(GROUPS.items()) == NAMES["entry-point group"]


@pytest.mark.parametrize("name", [name for name, _ in NAMES["module"]])
@pytest.mark.filterwarnings("ignore:spark_connect_rt:DeprecationWarning")
def test_module_is_imported_by_its_name(name: str) -> None:
    if name in NEEDS_DLT:
        pytest.importorskip("dlt")
    importlib.import_module(name)


@pytest.mark.parametrize("name", [name for name, _ in NAMES["name"]])
@pytest.mark.filterwarnings("ignore:spark_connect_rt:DeprecationWarning")
def test_documented_name_is_imported_from_its_module(name: str) -> None:
    module, _, wanted = name.partition(":")
    if module in NEEDS_DLT:
        pytest.importorskip("dlt")
    assert callable(getattr(importlib.import_module(module), wanted))


def test_every_old_module_has_a_new_one() -> None:
    assert {f"spark_connect_rt.{old}" for old in MODULES} <= {name for name, _ in NAMES["module"]}


def test_module_that_is_run_by_its_old_name_runs() -> None:
    name = next(name for name, _ in NAMES["module"] if name.endswith(".environments"))
    done = subprocess.run([sys.executable, "-m", name, "--help"], capture_output=True, text=True, check=False)
    assert "an option of pip: --help" in done.stderr  # its own words


def test_old_name_warns_at_the_line_that_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = MovedModules({"old.place": "errors", "old.place.within": "errors"})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from spark_connect_rt.old.place import DataError  # type: ignore[import-not-found]
            from spark_connect_rt.old.place.within import ConnectError  # type: ignore[import-not-found]
        assert [(Path(warning.filename), warning.category) for warning in caught] == [
            (Path(__file__), DeprecationWarning)
        ] * 2
        assert str(caught[0].message) == (
            "spark_connect_rt.old.place is now spark_connect_rt.errors; the old name is removed in version 0.2"
        )
        assert DataError is load_class("spark_connect_rt.errors:DataError")
        assert issubclass(DataError, ConnectError)
        for unknown in ("spark_connect_rt.old.nowhere", "spark_connect_rt.nowhere"):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(unknown)
    finally:
        for name in [name for name in sys.modules if name.startswith("spark_connect_rt.old")]:
            del sys.modules[name]


def test_only_connectors_are_stored_under_former_names() -> None:
    moved = {"connectors.there.x": "connectors.here.x", "converters.x": "records.x", "converters.y": "records.x"}
    assert stored_module("spark_connect_rt.connectors.here.x", moved) == "spark_connect_rt.connectors.there.x"
    assert stored_module("spark_connect_rt.records.x", moved) == "spark_connect_rt.records.x"
    assert stored_module("connectors.here.x", moved) == "connectors.here.x"
    assert former_names("spark_connect_rt.records.x:X", moved) == (
        "spark_connect_rt.converters.x:X",
        "spark_connect_rt.converters.y:X",
    )


def test_upgraded_group_restarts_no_task_and_writes_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker takes over a group of version 0.1: its connector generates the same configurations as in the topic."""
    text = (HERE / "config_topic_of_0_1.tsv").read_text(encoding="utf-8")
    records = [(key.encode(), value.encode()) for key, value in (line.split("\t") for line in text.splitlines())]
    name = next(name for _, name, _ in PLUGINS if f'"{name}"' in text)
    compared: list[tuple[object, str | None]] = []
    compare = publishing.task_configs_changed

    def changed(generated: Sequence[Mapping[str, str]], *others: Any) -> str | None:
        compared.append(([dict(task) for task in generated], compare(generated, *others)))
        return compared[-1][1]

    monkeypatch.setattr(publishing, "task_configs_changed", changed)
    with InProcessCluster({name: bundled_plugins().find(name).cls}) as cluster:
        cluster.config_topic.write(records)
        (before,) = cluster.config_topic.ends()
        worker = cluster.add_worker()
        cluster.until_stable()
        cluster.until(lambda: bool(compared) and list(cluster.states("orders").values()) == ["RUNNING"] * 3)
        stored = [json.loads(value)["properties"] for key, value in records if key.startswith(b"task-")]
        assert compared[0] == (stored, None)
        assert worker.running_tasks() == {"orders-0", "orders-1"}
        written = [record.key or b"" for record in cluster.config_topic.records()[before:]]
        assert [key for key in written if b"orders" in key] == []
