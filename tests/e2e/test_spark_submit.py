"""Plain spark-submit: the package comes by --py-files; on local-cluster[2,1,1024] readers and writers run elsewhere."""

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
from spark_connect_rt.protocol.java_serialization import decode_byte_map
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


def submitted(
    job: str, files: list[Path], wheel: Path, where: list[str], environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start ``spark-submit ... jobs/JOB FILE ...`` beside its log; nothing of this repository is on its path."""
    spark_submit = str(Path(sys.executable).with_name("spark-submit"))
    command = [spark_submit, *where, "--py-files", str(wheel), str(ROOT / "jobs" / job), *map(str, files)]
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            cwd=log.parent,
            env=plain_environment() | environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def test_tasks_run_on_executors_with_a_shipped_wheel(
    tmp_path: Path, broker: EmbeddedKafka, java: Java, wheel: Path, python_without_the_package: Path
) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "shipped", port)
    file = worker_file(tmp_path, settings)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    where = ["--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=1g"]
    log = tmp_path / "submit.log"
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    driver = submitted("connect_distributed.py", [file], wheel, where, environment, log)
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


def test_a_standalone_worker_with_a_shipped_wheel(
    tmp_path: Path, broker: EmbeddedKafka, java: Java, wheel: Path, python_without_the_package: Path
) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "unused", port)
    offsets = tmp_path / "offsets.file"
    file = worker_file(tmp_path, settings | {"offset.storage.file.filename": str(offsets)})
    lines, source = tmp_path / "lines.txt", tmp_path / "source.properties"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    source.write_text(f"name=alone\nconnector.class=FileStreamSource\nfile={lines}\ntopic=submitted-alone\n")
    log = tmp_path / "submit.log"
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    worker = submitted("connect_standalone.py", [file, source], wheel, ["--master", "local[2]"], environment, log)
    below: list[psutil.Process] = []

    def kept() -> list[bytes]:
        return list(decode_byte_map(offsets.read_bytes()).values()) if offsets.exists() else []

    try:
        end = b'{"position":%d}' % lines.stat().st_size
        until(lambda: kept() == [end], 240, "the offset is that of the file's end", lambda: log.read_text()[-3000:])
        assert count_records(broker.bootstrap_servers, "submitted-alone") == LINES
        below = psutil.Process(worker.pid).children(recursive=True)
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
        _, alive = psutil.wait_procs(below, timeout=30)
        assert named(alive) == [], log.read_text()[-3000:]
        assert kept() == [end]
    finally:
        if worker.poll() is None:
            below = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            worker.wait()
        for process in below:
            with contextlib.suppress(psutil.Error):
                process.kill()
