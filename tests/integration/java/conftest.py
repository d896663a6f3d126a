from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.startup.java_home import Java
from tests.support.java_connect import COORDINATES


@pytest.fixture(scope="session")
def file_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Kafka's own file connectors, in a ``plugin.path`` of its own."""
    folder = tmp_path_factory.mktemp("plugin-path") / "file"
    folder.mkdir()
    for jar in resolve_jars(COORDINATES):
        if jar.name.startswith("connect-file-"):
            (folder / jar.name).symlink_to(jar)
    return folder


@pytest.fixture(scope="package")
def session(java: Java) -> Iterator[SparkSession]:
    """One Spark for the tests of sources and of sinks."""
    os.environ["JAVA_HOME"] = str(java.home)
    session = build_session({"spark.master": "local[*]"})
    yield session
    session.stop()
