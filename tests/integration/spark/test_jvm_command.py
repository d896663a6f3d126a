"""A second start of Spark's JVM is one process with the options of the first; a record that fails is made again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from spark_connect_rt.embedded.java import Java
from spark_connect_rt.spark.driver import session

MAIN = "org.apache.spark.api.python.PythonGatewayServer"


@pytest.fixture
def record(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    for name in [name for name in os.environ if name.startswith(("SPARK_", "HADOOP_", "PYSPARK_SUBMIT"))]:
        monkeypatch.delenv(name)
    kept = tmp_path / "kept.args"
    monkeypatch.setattr(session, "record_path", lambda _: kept)
    return kept


def started() -> tuple[list[str], list[str]]:
    """Start a JVM and end it; return its command line, and the processes below it, launchers of it included."""
    conf = session.session_conf({})
    gateway: Any = session._gateway(conf)
    try:
        process = psutil.Process(gateway.proc.pid)
        assert gateway.jvm.System.getProperty("spark.master") == conf["spark.master"]
        assert gateway.jvm.System.getProperty("java.class.path")
        return process.cmdline(), [child.name() for child in process.children(recursive=True)]
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def test_a_second_start_needs_no_launcher_and_a_record_that_fails_is_made_again(record: Path) -> None:
    assert SparkContext._gateway is None, "another test left its JVM"
    first, _ = started()
    assert MAIN not in first
    kept = record.read_text()
    second, below = started()
    assert (second[-1], below) == (MAIN, [])
    assert set(first[1 : first.index("org.apache.spark.deploy.SparkSubmit")]) <= set(second) | set(arguments(kept))
    record.write_text(kept.replace('"-Xmx1g"', '"-Xmx1x"'))
    third, _ = started()
    assert MAIN not in third
    assert record.read_text() == kept


def arguments(kept: str) -> list[str]:
    """Return the words of an argument file."""
    return [line[1:-1] for line in kept.splitlines()]
