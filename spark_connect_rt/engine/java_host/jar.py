"""The jars of a Java host: Connect's own classes, and ours, compiled once where a wheel does not bring them.

A checkout compiles ``java/`` with the machine's ``javac``; where there is only a JRE, with Eclipse's compiler (one
jar from Maven Central). The result is kept in the cache under a hash of the sources, so no start compiles twice.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.engine.executor.late_plugins import fetch_java_host
from spark_connect_rt.engine.executor.shipped_plugins import copies_here, java_host_here
from spark_connect_rt.engine.java_host import compiler
from spark_connect_rt.engine.java_host.compiler import compile_jar, connect_jars, javac_of
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ConnectError

__all__ = ["compiler_command", "connect_jars", "host_jar", "jars_of_tests", "packaged_jar", "program_jars"]

TEST_JARS = "CONNECTRT_TEST_JARS"

_SOURCES = Path(__file__).resolve().parents[3] / "java" / "src"
_HERE = files(__package__)

log = logging.getLogger(__name__)


def program_jars(java: Java) -> list[Path]:
    """Return the class path of a host: the jars that the driver sent here, else Connect's jars and ours. Raises as both
    do.
    """
    sent = java_host_here() or _asked_for()
    if sent is not None:
        return sorted(sent.glob("*.jar"))
    connect = connect_jars()
    return [*jars_of_tests(), *connect, host_jar(java, connect)]


def jars_of_tests() -> list[Path]:
    """Return the jars that precede Connect's own on the class path; none but for a worker under test.

    Kafka's own test connectors live in packages that are never loaded from ``plugin.path`` (Java
    ``PluginUtils.shouldLoadInIsolation``).
    """
    return [Path(jar) for jar in os.environ.get(TEST_JARS, "").split(os.pathsep) if jar]


def _asked_for() -> Path | None:
    """Return the same of a session that began before there were Java plug-ins, None: it is not a remote executor."""
    root = copies_here()
    return java_host_here() if root is not None and fetch_java_host(root) else None


def host_jar(java: Java, connect: Sequence[Path]) -> Path:
    """Return the jar of our classes: the wheel's, else one compiled from the checkout. Raises ConnectError."""
    if (packaged := packaged_jar(_HERE)) is not None:
        return packaged
    sources = sorted(_SOURCES.rglob("*.java"))
    if not sources:
        raise ConnectError(
            "this installation has no Java host, because its wheel was built without a Java compiler", code="CRT-1120"
        )
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_directory() / "java-host"
    jar = folder / f"java-host-{digest}.jar"
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "compile.lock"):
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=folder) as classes:
                compile_jar(compiler_command(java, connect, Path(classes)), Path(classes), sources, jar)
            log.info("compiled the Java host: %s", jar)
    return jar


def packaged_jar(package: Traversable) -> Path | None:
    """Return the wheel's jar, None: it has none.

    A JVM reads files only: of a wheel that is not unpacked (``spark-submit --py-files``) it is a copy in the cache.
    """
    jar = package.joinpath("java-host.jar")
    if not jar.is_file():
        return None
    if isinstance(jar, Path):
        return jar
    content = jar.read_bytes()
    copy = cache_directory() / "java-host" / f"java-host-{hashlib.sha256(content).hexdigest()[:16]}.jar"
    copy.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(copy.parent / "compile.lock"):
        if not copy.exists():
            draft = copy.with_suffix(".draft")
            draft.write_bytes(content)
            draft.replace(copy)
    return copy


def compiler_command(java: Java, connect: Sequence[Path], target: Path) -> list[str]:
    """Return how Java sources are compiled here, without the sources."""
    return compiler.compiler_command(java.home, connect, target, javac_of(java.home))
