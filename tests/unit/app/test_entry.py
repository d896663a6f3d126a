"""For which command lines a JVM is started first, and that it is started by next to no imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_connect_rt.app import entry
from spark_connect_rt.app.settings_file import REQUIRED
from spark_connect_rt.config.config_def import REQUIRED as REQUIRED_VALUE
from spark_connect_rt.config.worker_settings import DISTRIBUTED
from spark_connect_rt.engine.startup import gateway

COMPLETE = {**dict.fromkeys(REQUIRED, "x"), "group.id": "g", "spark.driver.memory": "2g"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in COMPLETE.items()))
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    monkeypatch.setattr(gateway, "start_before_imports", lambda settings: found.append(dict(settings)) or True)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return found


@pytest.mark.parametrize("words", [["worker"], ["standalone"], ["submit"], ["submit", "--standalone"]])
def test_a_worker_s(words: list[str], file: Path, started: list[dict[str, str]]) -> None:
    assert entry.begin_jvm([*words, str(file), "connector.json", "--set", "group.id = h=i"])
    assert started == [{**COMPLETE, "group.id": " h=i"}]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_distributed_worker_whose_file_lacks_a_required_setting_starts_no_jvm(
    name: str, file: Path, started: list[dict[str, str]]
) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in COMPLETE.items() if key != name))
    for words in (["worker"], ["submit"]):
        assert not entry.begin_jvm([*words, str(file)])
    assert started == []
    for words in (["standalone"], ["submit", "--standalone"], ["submit", "--set", "connectrt.job=quickstart"]):
        assert entry.begin_jvm([*words, str(file)]), "which have other required settings"


def test_the_required_settings_are_those_that_are_declared_without_a_default() -> None:
    assert set(REQUIRED) == {key.name for key in DISTRIBUTED if key.default is REQUIRED_VALUE}


@pytest.mark.parametrize(
    "words", [[], ["--version"], ["get", "FILE"], ["worker"], ["worker", "FILE", "--help"], ["worker", "/no/file"]]
)
def test_no_other(words: list[str], file: Path, started: list[dict[str, str]]) -> None:
    assert not entry.begin_jvm([word.replace("FILE", str(file)) for word in words])
    assert started == []


def test_not_below_spark_submit(file: Path, started: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not entry.begin_jvm(["worker", str(file)])
    assert started == []


@pytest.mark.parametrize(
    "line",
    ["connectrt.job=quickstart", "spark.driver.memory=${file:/x:memory}", "spark.master=spark://host:7077", "\\u12"],
)
def test_not_for_what_is_made_otherwise(line: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/none")
    monkeypatch.setenv("PYSPARK_PYTHON", "/none")
    with file.open("a") as lines:
        lines.write(f"{line}\n")
    assert not entry.begin_jvm(["worker", str(file)])
    assert os.environ["PYSPARK_PYTHON"] == "/none"


def test_nothing_heavy_is_imported_before_the_jvm_is_started(file: Path) -> None:
    code = (
        "import json, sys\n"
        "from spark_connect_rt.app import entry\n"
        "from spark_connect_rt.engine.startup import gateway\n"
        "gateway.start_early = lambda conf: not print(json.dumps(sorted({*sys.modules})))\n"
        f"assert entry.begin_jvm(['worker', {str(file)!r}])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    heavy = {"pyspark", "py4j", "pyarrow", "numpy", "typer", "fastapi", "confluent_kafka", "pydantic"}
    assert heavy.isdisjoint(json.loads(shown.splitlines()[0]))


def test_a_worker_s_start_imports_no_command_line_of_a_library() -> None:
    """``httpx`` brings one, with ``rich`` and ``pygments``: 0.05 CPU s of each start, for who asks another worker."""
    code = "import sys, spark_connect_rt.app.distributed\nprint(*sys.modules)\n"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert {"httpx", "rich", "pygments", "pandas"}.isdisjoint(shown.split())
