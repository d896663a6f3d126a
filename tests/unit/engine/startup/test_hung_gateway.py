"""Spark's JVM that says nothing of where it listens is given up, with a sentence, and ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark import SparkConf

from spark_connect_rt.engine.startup import gateway
from spark_connect_rt.engine.startup.gateway import StartingJvm

SLEEPS = "import time; time.sleep(60)"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "START_LIMIT_S", 0.3)


def test_a_jvm_that_was_started_early_and_hangs_is_given_up(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=subprocess.PIPE)
    started = StartingJvm(process, tmp_path, tmp_path / "record", {}, None)
    with pytest.raises(TimeoutError, match="did not report its port within"):
        started.connection()
    started.end()
    assert process.returncode is not None


def test_a_jvm_that_pyspark_starts_and_hangs_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{SLEEPS}'\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(TimeoutError, match="did not report its port within"):
        gateway._launched(SparkConf(loadDefaults=False))
    assert not [child for child in psutil.Process().children(recursive=True) if SLEEPS in child.cmdline()]
