"""The README's first command: all of it, and resumed. `tests/shipped` has it after a kill -9."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from tests.e2e.commands import ROOT, get_json, launch, run, spark_submit, until
from tests.e2e.submitted import plain_environment

FLIGHTS = 336_776


def quickstart(folder: Path, port: int) -> list[str]:
    return spark_submit(
        "conf/quickstart.properties",
        "--set",
        f"quickstart.directory={folder}",
        "--set",
        f"listeners=http://127.0.0.1:{port}",
    )


def table_rows(folder: Path) -> int:
    return int(pq.read_table(folder / "flights.table", columns=["year"]).num_rows)


def processes_below(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if str(folder) in words:
            found.append(words[-200:])
    return found


@contextlib.contextmanager
def quickstart_folder(parent: Path) -> Iterator[Path]:
    """Yield a folder for the quickstart, and stop the broker that it may have left there."""
    yield parent / "quickstart"
    kafka = EmbeddedKafka(parent / "quickstart" / "kafka")
    if (kafka.directory / "broker.json").exists() and kafka._adopt():
        kafka.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quickstart_folder(tmp_path) as made:
        yield made


def kept_until_interrupted(folder: Path, port: int) -> str:
    """Run with ``--keep``, use what stays up, end it with Ctrl-C; return what was printed."""
    folder.mkdir(parents=True)
    log = folder / "kept.log"
    kept = launch([*quickstart(folder, port), "--keep"], log)
    try:
        until(lambda: "Everything stays up" in log.read_text(), 240, "it stays up", lambda: log.read_text()[-2000:])
        assert kept.poll() is None
        listed = get_json(f"http://127.0.0.1:{port}/connectors?expand=status")
        assert isinstance(listed, dict)
        states = [connector["status"]["connector"]["state"] for connector in listed.values()]
        assert states == ["RUNNING", "RUNNING"]
        kept.send_signal(signal.SIGINT)
        assert kept.wait(60) == 0, log.read_text()
    finally:
        kept.kill()
        kept.wait()
    return log.read_text()


def test_first_run_moves_every_flight_and_the_second_only_appended_flights(folder: Path) -> None:
    (port,) = free_ports(1)
    first = kept_until_interrupted(folder, port)
    assert "moved 336,776 new records into topic flights" in first
    assert "rows in the table: 336,776   rows in the file: 336,776" in first
    assert re.search(r"UA\s*│\s*58,665\s*│\s*12\.1", first)
    assert table_rows(folder) == FLIGHTS
    until(lambda: processes_below(folder) == [], 20, "nothing is left running", lambda: processes_below(folder))

    assert f"http://127.0.0.1:{port}/console" in first
    assert "connectrt create orders connector.class=DatagenSource" in first

    csv = folder / "flights.csv"
    some_rows = csv.read_bytes().split(b"\n")[1:1001]
    with csv.open("ab") as file:
        file.write(b"\n".join(some_rows) + b"\n")
    second = run(quickstart(folder, port))
    assert second.returncode == 0, second.stdout + second.stderr
    assert "moved 1,000 new records into topic flights" in second.stdout
    assert "quickstart.properties" in second.stdout.partition("Next: ")[2], "how to start it again"
    assert table_rows(folder) == FLIGHTS + 1_000
    ports = [re.findall(r"Apache Kafka on 127\.0\.0\.1:(\d+)", text) for text in (first, second.stdout)]
    assert len(ports[0]) == 1
    assert ports[0] == ports[1], "Kafka keeps its port"


def test_a_closed_terminal_in_mid_run_stops_the_broker_too(folder: Path) -> None:
    (port,) = free_ports(1)
    folder.mkdir()
    ours, theirs = pty.openpty()
    ended = subprocess.Popen(
        quickstart(folder, port), stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, preexec_fn=take_terminal
    )
    os.close(theirs)
    try:
        said = read_terminal(ours, "serves the Connect REST API", 120)
        assert any("kafka.Kafka" in words for words in processes_below(folder))
        until(lambda: sparks_of(ended.pid) != [], 60, "Spark starts", lambda: said)
        (jvm,) = sparks_of(ended.pid)
        os.close(ours)  # all that have it as their terminal get SIGHUP
        until(lambda: ended.poll() is not None, 60, "it stops", lambda: said)
        assert ended.returncode == 128 + signal.SIGHUP
    finally:
        ended.kill()
        ended.wait()
    until(lambda: processes_below(folder) == [], 20, "nothing is left running", lambda: processes_below(folder))
    until(lambda: not jvm.is_running(), 20, "Spark's JVM ends", lambda: str(jvm))


def take_terminal() -> None:
    """Make standard input the controlling terminal of a session of this process, whose end counts below nohup, too."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_terminal(terminal: int, awaited: str, limit_s: float) -> str:
    said, end_s = "", time.monotonic() + limit_s
    while awaited not in " ".join(said.split()):
        assert select.select([terminal], [], [], max(0.0, end_s - time.monotonic()))[0], said
        try:
            said += os.read(terminal, 4096).decode(errors="replace")
        except OSError as error:  # nobody has the terminal any more
            raise AssertionError(f"it ended before it said {awaited!r}:\n{said}") from error
    return said


def sparks_of(pid: int) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(pid).children(recursive=True) if child.name() == "java" and is_spark(child)
    ]


def is_spark(process: psutil.Process) -> bool:
    return any("org.apache.spark" in word for word in process.cmdline())


def test_a_taken_port_and_a_wrong_setting_are_found_before_anything_is_started(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run(quickstart(folder, port), 60)
    assert refused.returncode == 16, refused.stdout + refused.stderr
    assert f"cannot listen on http://127.0.0.1:{port}" in refused.stderr
    wrong = run([*quickstart(folder, port), "--set", "session.timeout.ms=soon"], 60)
    assert wrong.returncode == 14, wrong.stdout + wrong.stderr
    assert "session.timeout.ms" in wrong.stderr
    assert not (folder / "kafka").exists()


def test_an_installed_wheel_needs_no_file_and_starts_no_broker_when_one_is_named(
    tmp_path: Path, broker: EmbeddedKafka, installed_wheel: Path
) -> None:
    (port,) = free_ports(1)
    empty = tmp_path / "empty"
    empty.mkdir()
    settings = {"listeners": f"http://127.0.0.1:{port}", "bootstrap.servers": broker.bootstrap_servers}
    for name in ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"):
        settings[name] = f"own-broker-{name.split('.')[0]}"
    command = [str(installed_wheel), "-m", "spark_connect_rt", "quickstart"]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = subprocess.run(
        command, cwd=empty, env=plain_environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = empty / ".connectrt" / "quickstart"
    assert not (folder / "kafka").exists()
    assert table_rows(folder) == FLIGHTS
    shutil.rmtree(folder)
