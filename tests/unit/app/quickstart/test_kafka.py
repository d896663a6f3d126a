from __future__ import annotations

import socket
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import broker_properties, free_ports, kept_port, why_it_failed


def properties_file(folder: Path, port: int) -> Path:
    file = folder / "broker.properties"
    settings = broker_properties(folder, port, 1, {})
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


def test_a_broker_keeps_the_port_of_its_earlier_start_while_it_is_free(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file = properties_file(tmp_path, port)
    assert kept_port(file) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert kept_port(file) is None
    assert kept_port(file) == port


def test_a_broker_that_never_started_has_no_port_to_keep(tmp_path: Path) -> None:
    assert kept_port(tmp_path / "broker.properties") is None
    (tmp_path / "broker.properties").write_text("node.id=1\n")
    assert kept_port(tmp_path / "broker.properties") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("java.nio.file.FileSystemException: logs: Read-only file system", "quickstart.directory"),
        ("java.net.BindException: Address already in use", "Run it again"),
        ("Exception in thread main: java.lang.OutOfMemoryError: Java heap space", "too little free memory"),
    ],
)
def test_a_broker_that_did_not_start_names_cause_and_fix(line: str, words: str) -> None:
    assert words in why_it_failed(f"INFO starting\n{line}\n", 10**9)


def test_an_unknown_cause_is_left_to_the_log() -> None:
    assert why_it_failed("java.lang.IllegalStateException: x", 10**9) == ""


def test_a_broker_without_a_log_whose_disk_is_full_says_so() -> None:
    assert "the disk is full" in why_it_failed("", 1_000_000)
