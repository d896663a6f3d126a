"""Shared fixtures: a real broker, a Java, the wheel. A service that is missing FAILS; nothing is skipped."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.cache import KAFKA_VERSION, exclusive
from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS
from spark_connect_rt.connectors.mirror import named_class
from spark_connect_rt.engine.executor import task_logs
from spark_connect_rt.engine.startup.java_home import Java, find_java
from tests.e2e.submitted import plain_environment
from tests.support.java_test_plugins import java_plugin_path
from tests.support.s3_server import S3Server

ROOT = Path(__file__).parents[1]
MOST_FILES = 700  # py4j waits by select(2): above 1023 it hears the JVM's calls no more, and streams hang


@pytest.fixture(scope="module", autouse=True)
def _few_open_files() -> Iterator[None]:
    """Say which module left clients open before others hang by it."""
    yield
    count = len(os.listdir("/proc/self/fd"))
    assert count < MOST_FILES, f"{count} open files: something is not closed"


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Spell out lone surrogates: a report of hostile text would end xdist's whole run, not be one failure."""
    return _encodable((yield))


def _encodable(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, dict):
        return {_encodable(key): _encodable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(_encodable, data))
    return data


@pytest.fixture(scope="module", autouse=True)
def _as_it_was() -> Iterator[None]:
    """A worker in this process sets what may be imported, the hidden values and the levels of loggers: undo that."""
    level = logging.getLogger().level
    yield
    named_class.import_only(lambda name, module: True)
    hidden_values.forget()
    logging.getLogger().removeHandler(task_logs.EXECUTOR_LOGS)  # of a slot that ran in this process
    JAVA_LOG_LEVELS.forget(task_logs.set_levels)
    JAVA_LOG_LEVELS.replace({})
    logging.getLogger().setLevel(level)


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout: built once for all processes of a run, for it compiles the Java host."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "shared-wheel"
    with exclusive(shared / "shared-wheel.lock"):
        if not folder.exists():
            draft = tmp_path_factory.mktemp("wheel")
            command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(draft)]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            draft.rename(folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def python_without_the_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that sees the dependencies but not the editable install of this repository."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    probe = subprocess.run(
        # A module: an editable install leaves a folder of the package's name next to it, with what the wheel takes in.
        [str(python), "-c", "import spark_connect_rt._version"],
        capture_output=True,
        cwd=folder,
        env=plain_environment(),
        check=False,
    )
    assert probe.returncode != 0, "the editable install shines through: this test would prove nothing"
    return python


@pytest.fixture(scope="session")
def misbehaving_plugins() -> Path:
    """A ``plugin.path`` with the jar of ``tests.support.java_test_plugins``."""
    return java_plugin_path()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[EmbeddedKafka]:
    """One real Kafka for the whole session; tests use topics and groups of their own names."""
    directory: Path = tmp_path_factory.mktemp("kafka")
    version = os.environ.get("CONNECTRT_TESTS_KAFKA", KAFKA_VERSION)
    kafka = EmbeddedKafka(directory, java=java, die_with_parent=True, version=version)
    kafka.start()
    yield kafka
    kafka.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[S3Server]:
    """One real S3 server for the whole session; tests use buckets of their own names."""
    server = S3Server(tmp_path_factory.mktemp("s3"), java)
    server.start()
    yield server
    server.remove()
