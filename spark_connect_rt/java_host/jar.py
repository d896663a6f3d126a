"""The jars of a Java host: Connect's own classes, and ours, compiled once where a wheel does not bring them.

A checkout compiles ``java/`` with the machine's ``javac``; where there is only a JRE, with Eclipse's compiler (one
jar from Maven Central). The result is kept in the cache under a hash of the sources, so no start compiles twice.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from spark_connect_rt.embedded.cache import cache_directory, exclusive
from spark_connect_rt.embedded.java import Java
from spark_connect_rt.embedded.maven import KAFKA_VERSION, resolve_jars
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.spark.executor.shipped_plugins import java_host_here

RELEASE = "17"
COORDINATES = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-json:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-transforms:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-core:2.24.3!",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3!",
)
_COMPILER = ("org.eclipse.jdt:ecj:3.44.0",)
# What a host needs of the 60 jars that come with them: no REST server of Connect's runs here.
_NEEDED = (
    "connect-api",
    "connect-json",
    "connect-runtime",
    "connect-transforms",
    "kafka-clients",
    "classgraph",  # looks for plug-ins that no service file names
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-datatype-jdk8",
    "jackson-module-blackbird",
    "slf4j-api",
    "maven-artifact",
    "commons-lang3",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j-impl",
    "lz4-java",
    "snappy-java",
    "zstd-jni",
)
_SOURCES = Path(__file__).resolve().parents[2] / "java" / "src"
_PACKAGED = Path(__file__).with_name("java-host.jar")

log = logging.getLogger(__name__)


def program_jars(java: Java) -> list[Path]:
    """Return the class path of a host: what the driver sent here, else Connect's jars and ours. Raises as both do."""
    sent = java_host_here()
    if sent is not None:
        return sorted(sent.glob("*.jar"))
    connect = connect_jars()
    return [*connect, host_jar(java, connect)]


def connect_jars() -> list[Path]:
    """Return Connect's jars that a host needs. Raises StartupError: they cannot be had from Maven Central."""
    return [jar for jar in resolve_jars(COORDINATES) if _artifact(jar) in _NEEDED]


def _artifact(jar: Path) -> str:
    """Return ``kafka-clients`` of ``kafka-clients-4.1.1.jar``."""
    name, _, version = jar.stem.rpartition("-")
    while name and not version[:1].isdigit():
        name, _, version = name.rpartition("-")
    while "-" in name and name.rpartition("-")[2][:1].isdigit():  # zstd-jni-1.5.6-10
        name = name.rpartition("-")[0]
    return name


def host_jar(java: Java, connect: Sequence[Path]) -> Path:
    """Return the jar of our classes: the wheel's, else one compiled from the checkout. Raises ConnectError."""
    if _PACKAGED.exists():
        return _PACKAGED
    sources = sorted(_SOURCES.rglob("*.java"))
    if not sources:
        raise ConnectError("this installation brings no Java host", code="CRT-1120")
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_directory() / "java-host"
    jar = folder / f"java-host-{digest}.jar"
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "compile.lock"):
        if not jar.exists():
            _compile(java, connect, sources, jar)
    return jar


def compiler_command(java: Java, connect: Sequence[Path], target: Path) -> list[str]:
    """Return how Java sources are compiled here, without the sources."""
    javac = java.home / "bin" / "javac"
    found = str(javac) if javac.exists() else shutil.which("javac")
    options = ["-nowarn", "-cp", os.pathsep.join(map(str, connect)), "-d", str(target)]
    if found:
        return [found, "--release", RELEASE, *options]
    compiler = resolve_jars(_COMPILER)
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    # A JRE has no ct.sym, so the release's API cannot be checked; the wheel's build does that.
    return [str(java.executable), *fast, "-jar", str(compiler[0]), f"-{RELEASE}", *options]


def _compile(java: Java, connect: Sequence[Path], sources: Sequence[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes = Path(folder) / "classes"
        command = [*compiler_command(java, connect, classes), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise ConnectError(f"the Java host does not compile:\n{done.stdout}{done.stderr}", code="CRT-1121")
        draft = Path(folder) / jar.name
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes))
        draft.replace(jar)
    log.info("compiled the Java host: %s", jar)
