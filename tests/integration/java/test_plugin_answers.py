"""REST about Java plug-ins, asked of their JVM: the answers that Java Connect gave on the same plugin.path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.java_host.driver_host import JvmSettings, driver_host
from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.dependencies import HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.parity.conversation import Ask
from tests.parity.golden.plugin_answers import WORKER, answer_of, differences, javas_plugins, with_errors
from tests.parity.golden.test_plugins import ANSWERS
from tests.parity.golden.wanted_of_plugins import WANTED
from tests.parity.plugin_scripts import ABOUT_PLUGINS
from tests.support.java_connect import COORDINATES

IN_JAVA = ("org.apache.kafka.connect.file.", "org.apache.kafka.connect.transforms.")
PARITY = [step for step in ABOUT_PLUGINS if step.name not in WANTED or not WANTED[step.name].status]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverAnswers]:
    patch = pytest.MonkeyPatch()
    cache = tmp_path_factory.mktemp("no-answers")
    fast = JvmSettings("128m", "-XX:TieredStopAtLevel=1")
    found = DriverAnswers(driver_host(fast), "hybrid_warn")
    real = found._kept._file
    patch.setattr(found._kept, "_file", lambda digest, question: cache / digest / real(digest, question).name)
    yield found
    found.host.close()
    patch.undo()


@pytest.fixture(scope="module")
def plugins(answers: DriverAnswers, file_plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Plugins:
    """The file connectors, transformations and predicates are Java's, the rest is of the same name in Python."""
    transforms = tmp_path_factory.mktemp("transforms") / "transforms.jar"
    transforms.symlink_to(next(jar for jar in resolve_jars(COORDINATES) if jar.name.startswith("connect-transforms-")))
    folders = [str(file_plugin.parent), str(transforms)]
    ours = [plugin for plugin in javas_plugins().everything() if not plugin.java_class.startswith(IN_JAVA)]
    return Plugins(ours, lambda: discover(folders, with_environment=False, java=answers))


@pytest.fixture(scope="module")
def worker(plugins: Plugins) -> Iterator[ASGIApp]:
    with InProcessCluster() as cluster:
        any_worker = cluster.add_worker().herder
        settings = HerderSettings.of("h:8083", "http://h:8083/", worker_settings(WORKER))
        yield create_app(DistributedHerder(replace(any_worker._deps, settings=settings, plugins=plugins)))


@pytest.mark.parametrize("step", PARITY, ids=lambda step: step.name)
def test_java_connectors_answer_as_in_java_connect(worker: ASGIApp, step: Ask) -> None:
    java, wanted = ANSWERS["All"][step.name], WANTED.get(step.name)
    ours = answer_of(worker, step)
    found = differences(ours["body"], java["body"])
    if found and wanted:  # what Python's plug-ins say otherwise
        found = differences(ours["body"], with_errors(java["body"], wanted.errors))
    assert (ours["status"], found) == (java["status"], [])
