"""A second start of Spark's JVM is one process with the first's options, and may be begun before pyspark is there."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.java_gateway import ensure_callback_server_started

from spark_connect_rt.engine.class_archive_command import end_gateway
from spark_connect_rt.engine.startup import gateway as jvm_gateway
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.engine.startup.session_conf import session_conf

MAIN = "org.apache.spark.api.python.PythonGatewayServer"


@pytest.fixture
def record(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    for name in [name for name in os.environ if name.startswith(("SPARK_", "HADOOP_", "PYSPARK_SUBMIT"))]:
        monkeypatch.delenv(name)
    kept = tmp_path / "kept.args"
    monkeypatch.setattr(jvm_gateway, "record_path", lambda _: kept)
    return kept


def started() -> tuple[list[str], list[str]]:
    """Start a JVM and end it; return its command line, and the processes below it, launchers of it included."""
    conf = session_conf({})
    gateway: Any = jvm_gateway.open_gateway(conf)
    try:
        process = psutil.Process(gateway.proc.pid)
        assert "PYSPARK_GATEWAY_PORT" not in os.environ, "that would say that spark-submit made it"
        assert gateway.jvm.System.getProperty("spark.master") == conf["spark.master"]
        assert gateway.jvm.System.getProperty("java.class.path")
        return process.cmdline(), [child.name() for child in process.children(recursive=True)]
    finally:
        end_gateway(gateway)


def test_a_second_start_needs_no_launcher_and_a_record_that_fails_is_made_again(record: Path) -> None:
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


def test_a_jvm_started_early_is_taken_for_the_same_settings_and_ended_for_others(record: Path) -> None:
    conf = session_conf({})
    assert not jvm_gateway.start_early(conf), "no command is kept"
    assert not jvm_gateway.early_descriptors()
    started()
    assert jvm_gateway.start_early(conf)
    (early,) = jvm_gateway._EARLY
    assert jvm_gateway.early_descriptors() == [early.process.stdin.fileno() if early.process.stdin else -1]
    gateway: Any = jvm_gateway.open_gateway(conf)
    assert gateway.proc is early.process
    assert gateway.jvm.System.getProperty("spark.master") == conf["spark.master"]
    assert not early.folder.exists(), "its secret is kept nowhere"
    end_gateway(gateway)
    assert jvm_gateway.start_early({**conf, "spark.sql.shuffle.partitions": "9"})
    (other,) = jvm_gateway._EARLY
    started()
    assert other.process.returncode is not None, "nobody else would end it"
    assert not other.folder.exists()
    assert jvm_gateway.start_early(conf)
    (unused,) = jvm_gateway._EARLY
    jvm_gateway.end_early()
    assert unused.process.returncode is not None


def test_a_jvm_started_early_that_dies_is_replaced(record: Path) -> None:
    started()
    assert jvm_gateway.start_early(session_conf({}))
    (early,) = jvm_gateway._EARLY
    early.process.kill()
    command, _ = started()
    assert MAIN not in command, "spark-submit was asked"


def arguments(kept: str) -> list[str]:
    """Return the words of an argument file."""
    return [line[1:-1] for line in kept.splitlines()]


class Called:
    """What the JVM calls."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def run(self) -> None:
        self.done.set()

    class Java:
        implements = ("java.lang.Runnable",)


def test_a_jvm_ends_while_a_thread_waits_for_its_callbacks(record: Path) -> None:
    gateway: Any = jvm_gateway.open_gateway(session_conf({}))
    ensure_callback_server_started(gateway)
    called = Called()
    gateway.jvm.java.util.concurrent.Executors.newFixedThreadPool(1).execute(called)  # its thread keeps the connection
    assert called.done.wait(60), "the JVM did not call"
    codes = list[int]()
    ending = threading.Thread(target=lambda: codes.append(end_gateway(gateway)), daemon=True)
    ending.start()
    ending.join(60)
    assert codes == [0]
