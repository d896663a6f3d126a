"""What executors on other machines are sent: folders of plug-ins, single jars, and the jars that host Java plug-ins."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles, TaskContext

from spark_connect_rt.engine.driver.spark_session import ship_plugins
from spark_connect_rt.engine.executor.shipped_plugins import copies_here, folders_here
from spark_connect_rt.engine.java_host.jar import program_jars


class Context:
    """A SparkContext that unpacks what it is given at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def addArchive(self, path: str) -> None:  # noqa: N802 - Spark's name
        file, _, name = path.partition("#")
        with zipfile.ZipFile(file) as archive:
            archive.extractall(self.root / name)


def test_shipped_plugins_are_found_on_the_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, jar, host = tmp_path / "plugins", tmp_path / "uber.jar", tmp_path / "connect-api-4.1.1.jar"
    (folder / "orders").mkdir(parents=True)
    (folder / "orders" / "orders.jar").write_bytes(b"1")
    jar.write_bytes(b"2")
    host.write_bytes(b"3")
    folders = [str(folder), str(tmp_path / "gone"), str(jar)]
    root = tmp_path / "executor"
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(root))
    context: Any = Context(root)
    assert ship_plugins(context, folders, [host]) == [
        "connectrt-plugins-0",
        "connectrt-plugins-2",
        "connectrt-java-host",
    ]
    assert folders_here(folders, copies_here()) == tuple(folders)  # on the driver
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    first, gone, single = folders_here(folders, copies_here())
    assert (Path(first) / "orders" / "orders.jar").read_bytes() == b"1"
    assert gone == folders[1]
    assert Path(single) == root / "connectrt-plugins-2" / "uber.jar"
    sent = program_jars(context)  # no Java is asked, nothing is looked up
    assert [path.name for path in sent] == ["connect-api-4.1.1.jar"]
