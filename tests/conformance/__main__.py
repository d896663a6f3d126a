"""``python -m tests.conformance [CLASS[#METHOD] ...]``: runs Kafka's tests and writes the table of the docs.

Owns: the jars, the command of JUnit's console launcher, the table. Kafka's tests, embedded cluster and assertions are
used as they are. Two things are ours: ``WorkerHandle``, which starts a worker as a process, and the handles, by which
test connectors report to the tests (``java/host`` is for the worker's JVMs, ``java/tests`` for the tests' JVM).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.java_host.jar import TEST_JARS, compiler_command, connect_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.conformance.results import CANNOT_APPLY, CLASSES, Outcome, dump, load, page, read_reports, summary

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORD = HERE / "outcomes.json"
PAGE = ROOT / "docs" / "reference" / "conformance.md"
PACKAGE = "org.apache.kafka.connect.integration"
_KAFKA = "org.apache.kafka"
COORDINATES = (
    *(f"{_KAFKA}:{name}:{KAFKA_VERSION}" for name in ("connect-runtime", "connect-json", "connect-file")),
    *(f"{_KAFKA}:{name}:{KAFKA_VERSION}" for name in ("connect-transforms", "kafka-test-common-runtime", "kafka_2.13")),
    f"{_KAFKA}:kafka-clients:{KAFKA_VERSION}",
    *(f"{_KAFKA}:{name}:{KAFKA_VERSION}:test" for name in ("connect-runtime", "kafka_2.13", "kafka-clients")),
    f"{_KAFKA}:kafka-server-common:{KAFKA_VERSION}:test",
    "org.junit.platform:junit-platform-console:1.13.1",
    "org.junit.jupiter:junit-jupiter:5.13.1",
    "org.mockito:mockito-core:5.14.2",
    "org.mockito:mockito-junit-jupiter:5.14.2",
    "org.hamcrest:hamcrest:3.0",
    "org.apache.httpcomponents:httpclient:4.5.14",
    "org.apache.logging.log4j:log4j-core:2.25.1",
    "org.apache.logging.log4j:log4j-core-test:2.25.1",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1",
    # the resolver takes older ones of these than Maven does
    "jakarta.ws.rs:jakarta.ws.rs-api:3.1.0",
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "jakarta.inject:jakarta.inject-api:2.0.1",
    "jakarta.annotation:jakarta.annotation-api:2.1.1",
    "jakarta.validation:jakarta.validation-api:3.0.2",
    "net.bytebuddy:byte-buddy:1.15.4",
    "net.bytebuddy:byte-buddy-agent:1.15.4",
    "org.objenesis:objenesis:3.3",
    # bcpkix asks for ranges of these two, which the resolver does not look up
    "org.bouncycastle:bcutil-jdk18on:1.80",
    "org.bouncycastle:bcprov-jdk18on:1.80",
    "org.bouncycastle:bcpkix-jdk18on:1.80",
)
_PLUGIN_JARS = ("connect-json-", "connect-runtime-", "kafka-server-common-", "junit-jupiter-api-", "opentest4j-")
_TEST_JAR = f"connect-runtime-{KAFKA_VERSION}-test.jar"


def main(arguments: Sequence[str]) -> int:
    """Run the named classes and methods, all without any; return 0 when each passed or cannot apply."""
    selected = list(arguments) or list(CLASSES)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="connectrt-conformance-") as folder:
        out = Path(os.environ.get("CONNECTRT_CONFORMANCE_OUT") or folder)
        out.mkdir(parents=True, exist_ok=True)
        found: dict[tuple[str, str], Outcome] = {}
        for name in selected:
            run_tests(out, name)
            of_class = read_reports(out / "reports" / name)
            found |= of_class
            record(of_class, whole_classes="#" not in name)
    print(summary(found, time.monotonic() - began), flush=True)
    return 0 if found and all(outcome.passed or key in CANNOT_APPLY for key, outcome in found.items()) else 1


def record(found: Mapping[tuple[str, str], Outcome], *, whole_classes: bool) -> None:
    """Keep outcomes in place of their earlier ones, of methods or of whole classes, and write the page of the docs."""
    kept = load(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    replaced = {key[0] for key in found} if whole_classes else set()
    kept = {key: outcome for key, outcome in kept.items() if key[0] not in replaced} | dict(found)
    RECORD.write_text(dump(kept), encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def run_tests(out: Path, name: str) -> None:
    """Run one class, or ``CLASS#METHOD``; its report is below ``out``."""
    jars = resolve_jars(COORDINATES)
    java = find_java()
    classes = {side: out / "classes" / side for side in ("host", "tests")}
    _compile(classes["host"], connect_jars(), "host")
    _compile(classes["tests"], jars, "tests")
    plugins = _plugin_path(out / "plugins", jars)
    resources = _unpacked(out / "classes" / "kafka", next(jar for jar in jars if jar.name == _TEST_JAR))
    (out / "tmp").mkdir(exist_ok=True)
    selector = ["-m", f"{PACKAGE}.{name}"] if "#" in name else ["-c", f"{PACKAGE}.{name}"]
    worker = f"{sys.executable} -m spark_connect_rt worker"
    command = [
        *(
            str(java.executable),
            "-Xmx700m",
            f"-Djava.io.tmpdir={out / 'tmp'}",
            f"-Dworker.dir={out / 'workers' / name}",
        ),
        *(f"-Dworker.plugins={plugins}", f"-Dworker.command={worker}"),
        *("-cp", os.pathsep.join(map(str, (classes["tests"], resources, *jars)))),
        *("org.junit.platform.console.ConsoleLauncher", "execute", *selector, "--details=tree", "--disable-banner"),
        *("--disable-ansi-colors", f"--reports-dir={out / 'reports' / name}"),
    ]
    environment = {**os.environ, TEST_JARS: os.pathsep.join([str(_host_jar(classes["host"])), *_test_jars(jars)])}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    print(f"== {name}", flush=True)
    subprocess.run(command, env=environment, check=False, timeout=7_200)


def _compile(target: Path, jars: Sequence[Path], side: str) -> None:
    if target.is_dir():
        return
    target.mkdir(parents=True)
    sources = map(str, sorted((HERE / "java" / side).rglob("*.java")))
    subprocess.run([*compiler_command(find_java(), jars, target), *sources], check=True, timeout=300)


def _unpacked(folder: Path, jar: Path) -> Path:
    """Return a folder of the jar's files: tests of validation compile plug-ins, and take sources from files only."""
    if not folder.is_dir():
        shutil.unpack_archive(jar, folder, "zip")
    return folder


def _host_jar(classes: Path) -> Path:
    """Return a jar of the classes: the JVM of a host takes jars only."""
    jar = classes.with_suffix(".jar")
    if not jar.exists():
        made = Path(shutil.make_archive(str(classes), "zip", classes))
        made.rename(jar)
    return jar


def _test_jars(jars: Sequence[Path]) -> list[str]:
    """Return what test connectors need besides Connect's own jars."""
    named = (_TEST_JAR, *(f"{prefix}" for prefix in ("kafka-server-common-", "junit-jupiter-api-", "opentest4j-")))
    return [str(jar) for jar in jars if jar.name.startswith(named)]


def _plugin_path(folder: Path, jars: Sequence[Path]) -> Path:
    """Lay out plugin.path: the jars by whose service files the test connectors are found."""
    for jar in jars:
        kind = "file" if jar.name.startswith("connect-file-") else "it" if jar.name.startswith(_PLUGIN_JARS) else ""
        if jar.name == f"kafka-clients-{KAFKA_VERSION}-test.jar":
            kind = "it"
        if kind:
            (folder / kind).mkdir(parents=True, exist_ok=True)
            if not (folder / kind / jar.name).exists():
                shutil.copyfile(jar, folder / kind / jar.name)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
