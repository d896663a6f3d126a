"""A Spark session for a module; ``SPARK`` in the module: its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.startup.java_home import Java


@pytest.fixture(scope="module")
def spark(java: Java, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    os.environ["JAVA_HOME"] = str(java.home)
    session = build_session(request.module.SPARK)
    yield session
    session.stop()
