"""Converters beside a Java task, as in Java: their own class loader, metrics of their own, closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.engine.java_host.wire import FromJava, ToJava, produce_batches
from tests.support.hosted_java import HostedJava
from tests.support.java_test_plugins import LABEL, MARKED

FILES = "org.apache.kafka.connect.file.FileStreamSource"
HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@pytest.fixture(scope="module")
def host(
    file_plugin: Path, misbehaving_plugins: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostedJava]:
    """A JVM with two plug-ins: Kafka's file connectors, and converters elsewhere."""
    plugins = tmp_path_factory.mktemp("plugins")
    (plugins / "file").symlink_to(file_plugin)
    (plugins / "converters").symlink_to(misbehaving_plugins / "misbehaving")
    host = HostedJava(plugins)
    yield host
    host.process.close()


def start(host: HostedJava, number: int, folder: Path, **more: str) -> None:
    connector = {
        "name": "lines",
        "connector.class": f"{FILES}Connector",
        "file": str(folder / "lines"),
        "topic": "t",
        "value.converter": MARKED,
        "value.converter.notes": str(folder / "notes"),
        "header.converter": HEADERS,
        **more,
    }
    task = connector | {"task.class": f"{FILES}Task"}
    host.process.send(
        ToJava.START, number, {"name": "lines", "number": 0, "sink": False, "connector": connector, "task": task}
    )
    host.process.send(ToJava.ROOM, number, 1)


def end(host: HostedJava, number: int) -> None:
    host.process.send(ToJava.STOP, number)
    host.next(number, FromJava.ENDED)


def test_a_converter_of_another_plugin_is_at_home_counts_and_is_closed(host: HostedJava, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    start(host, 1, tmp_path)
    frame = host.next(1, FromJava.BATCH)
    (batch,) = produce_batches(frame.head["sections"], frame.data)
    assert [row["value"] for row in batch.to_pylist()] == [b"M\xfea", b"M\xfeb"]
    (bean,) = host.beat(1, "beans")["beans"]
    assert (bean["domain"], bean["attribute"], bean["value"]) == ("kafka.connect", "marked", 2)
    assert bean["keys"] == {"type": "plugins", "connector": "lines", "task": "0", "converter": "value"}
    end(host, 1)
    assert (tmp_path / "notes").read_text() == "closed true\n"


def test_a_task_that_could_not_be_made_leaves_no_converter_behind(host: HostedJava, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\n")
    refused = {"type": LABEL, "label": "x", "misbehave": "configure:throw"}
    start(host, 2, tmp_path, transforms="x", **{f"transforms.x.{name}": value for name, value in refused.items()})
    assert "misbehaves on purpose" in host.next(2, FromJava.FAILED).head["trace"]
    assert (tmp_path / "notes").read_text() == "closed true\n"
    start(host, 3, tmp_path)  # its metrics have the same names
    host.next(3, FromJava.BATCH)
    end(host, 3)
