"""The Java half of the host: compiled without a JDK, put into a wheel, started from an archive of its classes."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine import class_archive_command as class_archive_command
from spark_connect_rt.engine.class_archive_command import make_host_archive
from spark_connect_rt.engine.java_host import class_archive
from spark_connect_rt.engine.java_host.class_archive import (
    HostProgram,
    archive_options,
    archive_path,
    make_archive,
    make_in_background,
)
from spark_connect_rt.engine.java_host.compiler import compile_jar, compiler_command, connect_jars
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.plugin_folders import with_plugins
from spark_connect_rt.engine.java_host.process import JavaProcess, command_line
from spark_connect_rt.engine.startup.java_home import Java, find_java
from spark_connect_rt.errors import ConnectError
from tests.support.java_plugins import FILES, plugin_folder

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": STRING, "value.converter": STRING, "plugin.discovery": "service_load"}
ROOT = Path(__file__).parents[3]
FAST = ["-XX:TieredStopAtLevel=1"]


def hosted(java: Java, jars: Sequence[Path], options: Sequence[str] = FAST) -> None:
    """Start a host and end it. Raises what is wrong with it."""
    _end(HostProgram(java.executable, tuple(jars)), WORKER, options)


def hosted_of(place: Path, program: HostProgram, options: Sequence[str]) -> None:
    """Start a host of one plug-in and end it, as a slot does."""
    _end(program, with_plugins(WORKER, [str(place)]), options)


def _end(program: HostProgram, worker: Mapping[str, str], options: Sequence[str]) -> None:
    process = JavaProcess(lambda path: command_line(program, path, "64m", options), worker, lambda frame: None, print)
    process.close()


def test_eclipses_compiler_makes_a_host_where_there_is_no_jdk(tmp_path: Path) -> None:
    java, connect = find_java(), connect_jars()
    sources = sorted((ROOT / "java" / "src").rglob("*.java"))
    (tmp_path / "classes").mkdir()
    command = compiler_command(java.home, connect, tmp_path / "classes", javac=None)
    assert "javac" not in " ".join(command)
    compile_jar(command, tmp_path / "classes", sources, tmp_path / "host.jar")
    hosted(java, [*connect, tmp_path / "host.jar"])


def test_the_build_of_a_wheel_compiles_it_or_says_that_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from hatch_build import IN_WHEEL, JavaHostHook

    said: list[str] = []
    app = type("App", (), {"display_info": said.append, "display_warning": said.append})
    monkeypatch.setattr(JavaHostHook, "app", app)
    hook = JavaHostHook(str(ROOT), {}, None, None, str(tmp_path), "wheel")  # type: ignore[arg-type]
    build: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", build)
    jar = next(path for path, place in build["force_include"].items() if place == IN_WHEEL)
    assert IN_WHEEL == "spark_connect_rt/engine/java_host/java-host.jar"
    with zipfile.ZipFile(jar) as content:
        major = content.read("org/sparkconnectrt/host/Host.class")[7]
    assert (major, Path(said[0].rpartition(" ")[2]).name) in ((61, "javac"), (61, "compiler"))
    hook.finalize("standard", build, "")
    assert not Path(jar).exists()

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    build = {"force_include": {}}
    hook.initialize("standard", build)
    assert (IN_WHEEL in build["force_include"].values(), len(said)) == (False, 2)
    assert "runs no Java plug-ins" in said[1]
    monkeypatch.setenv("CONNECTRT_BUILD_JAVA", "require")
    with pytest.raises(RuntimeError, match="there is no Java"):
        hook.initialize("standard", build)


def test_an_archive_is_made_once_and_taken_by_the_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java, all_jars = find_java(), program_jars(find_java())
    (tmp_path / "jars").mkdir()
    jars = [tmp_path / "jars" / jar.name for jar in all_jars]
    for here, jar in zip(jars, all_jars, strict=True):
        shutil.copy2(jar, here)
    monkeypatch.setattr(class_archive, "cache_directory", lambda: tmp_path)
    (tmp_path / "java-host").mkdir()
    monkeypatch.setattr(class_archive_command, "program_jars", lambda _: jars)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(FAST))
    program = HostProgram(java.executable, tuple(jars))

    assert archive_options(program) == []
    path = make_host_archive()
    made_ns = path.stat().st_mtime_ns
    assert path == archive_path(program) == make_host_archive()
    assert path.stat().st_mtime_ns == made_ns
    assert path.stat().st_size > 5_000_000
    assert not list((tmp_path / "java-host").glob("archive-draft-*"))
    options = archive_options(program)
    assert options[0] == f"-XX:SharedArchiveFile={path}"
    for jar in jars:
        second_ns = int(jar.stat().st_mtime) * 1_000_000_000
        os.utime(jar, ns=(second_ns, second_ns))  # as a layer of a container's image keeps it
    assert archive_options(program) == options
    hosted(java, jars, [*FAST, "-Xshare:on"])  # the JVM ends at once unless it takes the archive

    jars[-1].unlink()
    jars[-1].write_bytes(all_jars[-1].read_bytes() + b"\0")
    assert archive_options(program) == []  # which would be left alone without a word


def test_the_archive_of_a_plugin_has_its_classes_wherever_its_jars_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, jars = find_java(), tuple(program_jars(find_java()))
    place = plugin_folder(tmp_path / "plugins", "file", FILES)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "no.jar").write_bytes(b"no jar")
    monkeypatch.setattr(class_archive, "cache_directory", lambda: tmp_path)
    (tmp_path / "java-host").mkdir()
    own, foreign = (HostProgram(java.executable, jars, (archive,)) for archive in (place, tmp_path / "broken"))

    path = make_host_archive([place])
    assert path == archive_path(own) != archive_path(replace(own, plugins=()))
    with_another = replace(own, plugins=(place, tmp_path / "broken"))
    assert archive_options(with_another) == archive_options(own), (
        "that of the connector's own place, while there is none"
    )
    assert archive_options(foreign) == []
    assert make_host_archive([tmp_path / "broken"]) == archive_path(foreign), "what cannot be read is left out"

    elsewhere = Path(shutil.copytree(place, tmp_path / "elsewhere"))
    assert archive_options(replace(own, plugins=(elsewhere,))) == archive_options(own)
    loads = tmp_path / "loads.txt"
    hosted_of(elsewhere, replace(own, plugins=(elsewhere,)), [*FAST, f"-Xlog:class+load:file={loads}"])
    lines = [line for line in loads.read_text().splitlines() if "connect.file.FileStreamSourceConnector " in line]
    assert [line.partition("source: ")[2] for line in lines] == ["shared objects file (top)"]


def test_a_jvm_that_makes_none_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = HostProgram(find_java().executable, tuple(program_jars(find_java())))
    monkeypatch.setattr(class_archive, "cache_directory", lambda: tmp_path)
    (tmp_path / "java-host").mkdir()
    started: list[str] = []

    def start(*_: object) -> JavaProcess:
        started.append("x")
        raise ConnectError("no HotSpot")

    with pytest.raises(ConnectError, match="no HotSpot"):
        make_archive(program, start)
    make_in_background(program, start)
    assert len(started) == 1
