"""Plain spark-submit on local-cluster[2,1,1024]: the package comes by --py-files, readers and writers run elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.embedded.java import Java
from spark_connect_rt.embedded.kafka import EmbeddedKafka, free_ports
from spark_connect_rt.testing.connect_rest import ConnectRest
from spark_connect_rt.testing.worker_process import worker_properties
from tests.e2e.commands import ROOT, until, worker_file
from tests.topics import count_records

LINES = 20_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def plain_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}


@pytest.fixture(scope="module")
def python_without_the_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that sees the dependencies but not the editable install of this repository."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    probe = subprocess.run(
        [str(python), "-c", "import spark_connect_rt"],
        capture_output=True,
        cwd=folder,
        env=plain_environment(),
        check=False,
    )
    assert probe.returncode != 0, "the editable install shines through: this test would prove nothing"
    return python


def descendants(root: psutil.Process) -> list[tuple[psutil.Process, str]]:
    """Return the live processes below ``root`` with their command lines; zombies have none."""
    found = []
    for process in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.append((process, " ".join(process.cmdline())))
    return found


def executors_of(pid: int) -> list[psutil.Process]:
    return [process for process, words in descendants(psutil.Process(pid)) if "CoarseGrainedExecutorBackend" in words]


def named(processes: list[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline())[-200:])
    return found


def test_tasks_run_on_executors_with_a_shipped_wheel(
    tmp_path: Path, broker: EmbeddedKafka, java: Java, wheel: Path, python_without_the_package: Path
) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "shipped", port)
    file = worker_file(tmp_path, settings)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master",
        "local-cluster[2,1,1024]",
        "--py-files",
        str(wheel),
        "--conf",
        "spark.executor.memory=1g",
        str(ROOT / "jobs" / "connect_distributed.py"),
        str(file),
    ]
    environment = plain_environment() | {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    log = tmp_path / "submit.log"
    with log.open("wb") as out:
        driver = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    rest = ConnectRest(f"http://127.0.0.1:{port}")
    everything: list[psutil.Process] = []
    try:
        until(lambda: rest.probe("/health"), 120, "the worker is healthy", lambda: log.read_text()[-3000:])
        rest.create("shipped", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "shipped"})
        until(
            lambda: count_records(broker.bootstrap_servers, "shipped") == LINES,
            120,
            "every line is in the topic",
            lambda: (rest.request("GET", "/connectors/shipped/status").json(), log.read_text()[-3000:]),
        )
        executors = executors_of(driver.pid)
        assert len(executors) == 2
        workers = [words for one in executors for _, words in descendants(one) if "pyspark.worker" in words]
        assert len(workers) >= 2, "a reader and a writer process below the executors"
        rest.delete("shipped")
        everything = psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(signal.SIGTERM)
        driver.wait(60)
        _, alive = psutil.wait_procs(everything, timeout=20)
        assert named(alive) == [], log.read_text()[-3000:]
    finally:
        rest.close()
        if driver.poll() is None:
            everything = psutil.Process(driver.pid).children(recursive=True)
            driver.kill()
            driver.wait()
        for process in everything:
            with contextlib.suppress(psutil.Error):
                process.kill()
