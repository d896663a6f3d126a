"""Compiles the Java half of the host: used by a checkout at its first host, and by the wheel's build.

Must not import Spark or anything that a build environment lacks: there are this package, jgo, and no more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.errors import ConnectError

RELEASE = "17"
COORDINATES = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-json:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-transforms:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-core:2.24.3!",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3!",
)
_COMPILER = ("org.eclipse.jdt:ecj:3.44.0",)
# The jars that a host needs, out of the 60 that come with them: Connect's REST server does not run here.
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
_SAME_TIME = (1980, 1, 1, 0, 0, 0)  # the same sources make the same jar


def connect_jars() -> list[Path]:
    """Return Connect's jars that a host needs. Raises StartupError: Maven Central does not provide them."""
    return [jar for jar in resolve_jars(COORDINATES) if artifact_of(jar) in _NEEDED]


def artifact_of(jar: Path) -> str:
    """Return the artifact's name of a jar, for example ``kafka-clients`` of ``kafka-clients-4.1.1.jar``."""
    name, _, version = jar.stem.rpartition("-")
    while name and not version[:1].isdigit():
        name, _, version = name.rpartition("-")
    while "-" in name and name.rpartition("-")[2][:1].isdigit():  # zstd-jni-1.5.6-10
        name = name.rpartition("-")[0]
    return name


def javac_of(java_home: Path) -> str | None:
    """Return the compiler of a JDK, else one on the PATH; None: there is only a JRE."""
    javac = java_home / "bin" / "javac"
    return str(javac) if javac.exists() else shutil.which("javac")


def compiler_command(java_home: Path, connect: Sequence[Path], target: Path, javac: str | None) -> list[str]:
    """Return how Java sources are compiled, without the sources; ``javac`` None: by Eclipse's compiler."""
    options = ["-nowarn", "-cp", os.pathsep.join(map(str, connect)), "-d", str(target)]
    if javac:
        return [javac, "--release", RELEASE, *options]
    compiler = resolve_jars(_COMPILER)
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    # A JRE has no ct.sym, so the release's API cannot be checked; javac does that.
    return [str(java_home / "bin" / "java"), *fast, "-jar", str(compiler[0]), f"-{RELEASE}", *options]


def compile_jar(command: Sequence[str], classes: Path, sources: Sequence[Path], jar: Path) -> None:
    """Compile by a command that writes below ``classes``, into a jar that appears whole. Raises ConnectError."""
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise ConnectError(f"the Java host cannot be compiled:\n{done.stdout}{done.stderr}", code="CRT-1121")
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        draft = Path(folder) / jar.name
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(classes.rglob("*.class")):
                entry = zipfile.ZipInfo(file.relative_to(classes).as_posix(), _SAME_TIME)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, file.read_bytes())
        draft.replace(jar)
