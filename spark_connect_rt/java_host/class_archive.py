"""An archive of the host's classes, which every later JVM maps instead of reading jars (JEP 350, class data sharing).

One for each (Java, jars as they are on this machine, plug-ins it is started for), in the cache, made once when a
plug-in is installed here, else beside the first host that starts without it. A JVM that finds a jar changed leaves its
archive alone without a word, so the name says which jars it is of, and a new one is tried with ``-Xshare:on`` before it
gets that name. Classes of plug-ins have loaders of their own: the JVM takes each from the archive when the bytes it is
handed are the same. Without an archive everything works the same, only slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spark_connect_rt.embedded.cache import cache_directory, exclusive
from spark_connect_rt.embedded.maven import KAFKA_VERSION, resolve_jars
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.plugins.jars import archives_in

MAKE_LIMIT_S = 120.0
_STOP_LIMIT_S = 10.0
_LEFT_S = 3_600.0  # a draft so old is of a process that is gone
_DRAFT = "archive-draft-"
_KEPT = 16  # archives of other Javas, jars and plug-ins
CLASSES_MAX = 20_000  # of one plug-in: of 3 to 5 KB each
_WORDS = "cds*=off"  # of the JVM's own log: no word of an archive that does not fit, or of classes that none takes
_FILE_CONNECTOR = (f"org.apache.kafka:connect-file:{KAFKA_VERSION}",)
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_TRANSFORMS = "org.apache.kafka.connect.transforms"
_WORKER = {"key.converter": _CONVERTER, "value.converter": _CONVERTER, "plugin.discovery": "service_load"}

log = logging.getLogger(__name__)
_begun: set[Path] = set()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class HostProgram:
    """What a host's JVM is started with.

    ``java``: the program; ``jars``: the class path, in its order; ``plugins``: folders or jars of the plug-ins that it
    is started for, may be none.
    """

    java: Path
    jars: tuple[Path, ...]
    plugins: tuple[Path, ...] = ()


def archive_path(program: HostProgram) -> Path:
    """Return where the archive of this program lies, or would lie. Raises OSError."""
    home = program.java.resolve().parent.parent
    release = home / "release"
    facts = [os.fsencode(program.java.resolve()), release.read_bytes() if release.is_file() else b""]
    facts += _facts(program.jars, whole=True)
    for place in program.plugins:
        facts += [b"plug-in", *_facts(archives_in(place), whole=False)]
    digest = hashlib.sha256(b"\0".join(facts)).hexdigest()[:16]
    return cache_directory() / "java-host" / f"classes-{digest}.jsa"


def _facts(jars: Sequence[Path], whole: bool) -> Iterator[bytes]:
    """Give what names each jar: its path where the JVM compares that (``whole``), else its name, so that copies count.

    Times are in s, as the JVM compares them, and images of containers keep them.
    """
    for jar in jars:
        found = jar.stat()
        yield f"{jar if whole else jar.name} {found.st_size} {int(found.st_mtime)}".encode()


def archive_options(program: HostProgram) -> list[str]:
    """Return the JVM's options that map the archive; of none there is, that for the first plug-in, or for no plug-in.

    Empty: there is none of them, or it cannot be known.
    """
    for one in (program, replace(program, plugins=program.plugins[:1]), replace(program, plugins=())):
        with contextlib.suppress(OSError):
            path = archive_path(one)
            if path.is_file():
                return [f"-XX:SharedArchiveFile={path}", f"-Xlog:{_WORDS}"]
    return []


def make_in_background(program: HostProgram, start: Callable[..., Any]) -> None:
    """Begin to make the archive, unless there is one or it was tried: once a process. Returns at once.

    ``start``: as ``make_archive``.
    """
    try:
        path = archive_path(program)
    except OSError:
        return
    with _lock:
        if path in _begun or path.is_file() or _failed(path).is_file():
            return
        _begun.add(path)

    def make() -> None:
        try:
            make_archive(program, start)
        except (ConnectError, OSError) as error:
            log.info("hosts of Java plug-ins start without an archive of classes: %s", error)

    threading.Thread(target=make, name="java-class-archive", daemon=True).start()


def make_archive(program: HostProgram, start: Callable[..., Any]) -> Path:
    """Make the archive unless it is there; return its path. Takes some seconds, of which other work may have any.

    Args:
        program: what it is of.
        start: makes a JavaProcess of (options of the JVM, worker's settings, what takes frames).

    Raises ConnectError: this JVM makes none.
    """
    path = archive_path(program)
    with exclusive(path.with_suffix(".lock")):
        if path.is_file():
            return path
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=_DRAFT) as folder:
            half = Path(folder) / path.name
            try:
                options = [f"-XX:ArchiveClassesAtExit={half}", f"-Xlog:{_WORDS}"]
                _rehearse(start, options, Path(folder), program.plugins)
                _try_out(program, half)
            except (ConnectError, OSError) as error:
                _failed(path).write_text(f"{error}\n", encoding="utf-8")
                raise
            half.replace(path)
        _forget_others(path)
    log.info("made the archive of the Java host's classes: %s, %d bytes", path, path.stat().st_size)
    return path


def _failed(path: Path) -> Path:
    return path.with_suffix(".failed")


def _try_out(program: HostProgram, archive: Path) -> None:
    """Raise ConnectError unless the JVM takes the archive."""
    if not archive.is_file():
        raise ConnectError("the JVM left no archive: it needs HotSpot, 13 or newer")
    command = [str(program.java), "-XX:+UseSerialGC", "-Xshare:on", f"-XX:SharedArchiveFile={archive}"]
    command += ["-cp", os.pathsep.join(map(str, program.jars)), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_LIMIT_S, check=False)
    if done.returncode:
        raise ConnectError(f"the JVM does not take its own archive: {done.stdout}{done.stderr}")


def _forget_others(path: Path) -> None:
    archives = sorted(path.parent.glob("classes-*.jsa"), key=lambda one: one.stat().st_mtime)
    for old in archives[:-_KEPT]:
        old.unlink(missing_ok=True)  # a JVM that maps it keeps it
    for draft in path.parent.glob(f"{_DRAFT}*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > _LEFT_S:
                shutil.rmtree(draft, ignore_errors=True)


def _rehearse(start: Callable[..., Any], options: Sequence[str], folder: Path, plugins: Sequence[Path]) -> None:
    """Run what a host runs first, so that its classes are loaded: Kafka's own file source, a chain, a converter.

    Of ``plugins`` each class is loaded, and none of their code is run but that of JDBC drivers.
    """
    frames: queue.Queue[Frame] = queue.Queue()
    plugin_path = folder / "plugins"
    with_connector = _file_connector(plugin_path / "file")
    process = start(options, {**_WORKER, "plugin.path": str(plugin_path)} if with_connector else _WORKER, frames.put)
    try:
        if with_connector:
            _read_a_line(process, frames, folder)
        for place in plugins:
            _load_classes(process, frames, place)
    finally:
        process.close(MAKE_LIMIT_S)  # it writes its archive at its end


def _file_connector(folder: Path) -> bool:
    """Put Kafka's file connector into a folder; False: it cannot be had, and what it would load is not archived."""
    folder.mkdir(parents=True)
    with contextlib.suppress(ConnectError, OSError):
        for jar in resolve_jars(_FILE_CONNECTOR):
            if jar.name.startswith("connect-file-"):
                shutil.copyfile(jar, folder / jar.name)
                return True
    return False


def _read_a_line(process: Any, frames: queue.Queue[Frame], folder: Path) -> None:
    file = folder / "line.txt"
    file.write_text("a line\n", encoding="utf-8")
    connector = {
        "name": "rehearsal",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": "rehearsal",
        "transforms": "hoist,insert",
        "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.insert.type": f"{_TRANSFORMS}.InsertField$Value",
        "transforms.insert.static.field": "a",
        "transforms.insert.static.value": "b",
    }
    task = {**connector, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    head = {"name": "rehearsal", "number": 0, "sink": False, "connector": connector, "task": task}
    process.send(ToJava.START, 1, head)
    process.send(ToJava.ROOM, 1, 1)
    with contextlib.suppress(queue.Empty):
        while (frame := frames.get(timeout=MAKE_LIMIT_S)).kind not in (FromJava.BATCH, FromJava.FAILED):
            if frame.kind is FromJava.OFFSETS:
                process.send(ToJava.OFFSETS, 1, {"question": frame.head["question"], "offsets": [None]})
        process.send(ToJava.STOP, 1)
        while frames.get(timeout=_STOP_LIMIT_S).kind is not FromJava.ENDED:
            pass


def _load_classes(process: Any, frames: queue.Queue[Frame], place: Path) -> None:
    question = {"op": "classes", "id": 0, "place": str(place), "classes_max": CLASSES_MAX}
    process.send(ToJava.QUESTION, 0, question)
    with contextlib.suppress(queue.Empty):
        while (frame := frames.get(timeout=MAKE_LIMIT_S)).kind is not FromJava.ANSWER:
            pass
        log.debug("classes of %s: %s", place, frame.head)
