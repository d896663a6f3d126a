"""The jar of Java test plug-ins: compiled once from ``java_plugins``, kept in the cache under a hash of its sources.

It contains:

- ``MisbehavingSource`` and ``MisbehavingSink``, whose setting ``misbehave`` selects the call that fails and how
- ``ObedientSource`` and ``ObedientSink``, whose tasks do what a script or their records say
- the transformation ``Label``, the predicate ``TopicIs``, the converter ``Marked``, the provider ``Table``
- ``Unruly`` sources, which no service file names, and which misbehave before they have a configuration
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.engine.java_host.jar import compiler_command, connect_jars
from spark_connect_rt.engine.startup.java_home import find_java

PACKAGE = "org.sparkconnectrt.testplugins"
SOURCE = f"{PACKAGE}.MisbehavingSource"
SOURCE_TASK = f"{PACKAGE}.MisbehavingSourceTask"
SINK = f"{PACKAGE}.MisbehavingSink"
SINK_TASK = f"{PACKAGE}.MisbehavingSinkTask"
OBEDIENT_SOURCE = f"{PACKAGE}.ObedientSource"
OBEDIENT_SOURCE_TASK = f"{PACKAGE}.ObedientSourceTask"
OBEDIENT_SINK = f"{PACKAGE}.ObedientSink"
OBEDIENT_TASK = f"{PACKAGE}.ObedientSinkTask"
LABEL = f"{PACKAGE}.Label"
TOPIC_IS = f"{PACKAGE}.TopicIs"
MARKED = f"{PACKAGE}.Marked"
TABLE = f"{PACKAGE}.Table"
UNRULY = f"{PACKAGE}.Unruly$"
_SERVICES = {
    "org.apache.kafka.connect.source.SourceConnector": f"{SOURCE}\n{OBEDIENT_SOURCE}",
    "org.apache.kafka.connect.sink.SinkConnector": f"{SINK}\n{OBEDIENT_SINK}",
    "org.apache.kafka.connect.transforms.Transformation": LABEL,
    "org.apache.kafka.connect.transforms.predicates.Predicate": TOPIC_IS,
    "org.apache.kafka.connect.storage.Converter": MARKED,
    "org.apache.kafka.connect.storage.HeaderConverter": MARKED,
    "org.apache.kafka.common.config.provider.ConfigProvider": TABLE,
}
_SOURCES = Path(__file__).with_name("java_plugins")


def java_plugin_path() -> Path:
    """Return a folder for ``plugin.path``: it holds one plug-in, ``misbehaving``, of one jar."""
    sources = sorted(_SOURCES.rglob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_directory() / "java-test-plugins" / digest
    jar = folder / "misbehaving" / "misbehaving-1.0.jar"
    with exclusive(folder.parent / "compile.lock"):
        if not jar.exists():
            jar.parent.mkdir(parents=True, exist_ok=True)
            _compile(sources, jar)
    return folder


def part_of_jar(folder: Path, service: str, java_class: str, *, left_out: str = "", newer: str = "") -> None:
    """Make a plug-in of one service: without one class of the jar, or with one that is compiled for Java 99."""
    (whole,) = java_plugin_path().rglob("*.jar")
    folder.mkdir(parents=True)
    with zipfile.ZipFile(whole) as held, zipfile.ZipFile(folder / "part.jar", "w") as made:
        for member in held.namelist():
            simple = member.rpartition("/")[2].removesuffix(".class")
            if member.endswith(".class") and simple != left_out:
                content = held.read(member)
                if simple == newer:
                    content = content[:6] + (44 + 99).to_bytes(2, "big") + content[8:]
                made.writestr(member, content)
        made.writestr(f"META-INF/services/org.apache.kafka.connect.{service}", java_class)


def other_version(folder: Path, version: str) -> None:
    """Make a plug-in of the whole jar, whose ``MisbehavingSource`` has another version (three letters, as "1.0")."""
    (whole,) = java_plugin_path().rglob("*.jar")
    folder.mkdir(parents=True)
    with zipfile.ZipFile(whole) as held, zipfile.ZipFile(folder / "other.jar", "w") as made:
        for member in held.namelist():
            content = held.read(member)
            if member.endswith("/MisbehavingSource.class"):
                said = b"\x01\x00\x03"  # a constant of the class: text, of three bytes
                content = content.replace(said + b"1.0", said + version.encode())
            made.writestr(member, content)


def _compile(sources: list[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent.parent) as folder:
        classes = Path(folder) / "classes"
        command = [*compiler_command(find_java(), connect_jars(), classes), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        draft = Path(folder) / jar.name
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes))
            for service, name in _SERVICES.items():
                archive.writestr(f"META-INF/services/{service}", f"{name}\n")
        draft.replace(jar)
