"""An archive of the host's classes, which every later JVM maps instead of reading jars (JEP 350, class data sharing).

One for each (Java, jars as they are on this machine, plug-ins it is started for), made once when a plug-in is installed
here, else next to the first host that starts without it. Classes of plug-ins have their own loaders: the JVM takes
each from the archive when the bytes it is handed are the same.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spark_connect_rt.base.cache import KAFKA_VERSION, cache_directory, exclusive, resolve_jars
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.startup.class_archives import (
    DRAFT,
    MAKE_LIMIT_S,
    archive_name,
    failed_mark,
    jar_facts,
    mapping,
    take_in,
    writing,
)
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.jars import archives_in

_STOP_LIMIT_S = 10.0
CLASSES_MAX = 20_000  # of one plug-in: of 3 to 5 KB each
_FILE_CONNECTOR = (f"org.apache.kafka:connect-file:{KAFKA_VERSION}",)
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_TRANSFORMS = "org.apache.kafka.connect.transforms"
_WORKER = {"key.converter": _CONVERTER, "value.converter": _CONVERTER, "plugin.discovery": "service_load"}

log = logging.getLogger(__name__)
_begun: set[Path] = set()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The program of a host's JVM.

    ``java``: the program; ``jars``: the class path, in its order; ``plugins``: folders or jars of the plug-ins that it
    is started for, may be none.
    """

    java: Path
    jars: tuple[Path, ...]
    plugins: tuple[Path, ...] = ()


def archive_path(program: HostProgram) -> Path:
    """Return where the archive of this program lies, or would lie. Raises OSError."""
    facts = list(jar_facts(program.jars))
    for place in program.plugins:
        facts += [b"plug-in", *jar_facts(archives_in(place), whole=False)]
    return cache_directory() / "java-host" / archive_name(program.java, facts)


def archive_options(program: HostProgram) -> list[str]:
    """Return the JVM's options that map the archive; of none there is, that for the first plug-in, or for no plug-in.

    Empty: there is none of them, or it cannot be known.
    """
    for variant in (program, replace(program, plugins=program.plugins[:1]), replace(program, plugins=())):
        with contextlib.suppress(OSError):
            path = archive_path(variant)
            if path.is_file():
                return mapping(path)
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
        if path in _begun or path.is_file() or failed_mark(path).is_file():
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
        program: the program whose classes it holds.
        start: makes a JavaProcess of (options of the JVM, worker's settings, what takes frames).

    Raises ConnectError: this JVM makes none.
    """
    path = archive_path(program)
    with exclusive(path.with_suffix(".lock")):
        if path.is_file():
            return path
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=DRAFT) as folder:
            half = Path(folder) / path.name
            try:
                _rehearse(start, writing(half), Path(folder), program.plugins)
                take_in(program.java, program.jars, half, path)
            except (ConnectError, OSError) as error:
                failed_mark(path).write_text(f"{error}\n", encoding="utf-8")
                raise
    log.info("created the archive of the Java host's classes: %s, %d bytes", path, path.stat().st_size)
    return path


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
    """Put Kafka's file connector into a folder; False: it is unavailable, and what it would load is not archived."""
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
