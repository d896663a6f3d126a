"""Facts about a jar or a folder of jars, found without a JVM: service files, class files, a digest.

Reads the directories of zip archives and a few small members (Java ``ServiceLoaderScanner``, ``PluginUtils``).
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_CONNECT, _COMMON = "org.apache.kafka.connect", "org.apache.kafka.common"
SERVICES: Mapping[str, str] = {  # interface -> kind of plug-in
    f"{_CONNECT}.sink.SinkConnector": "sink",
    f"{_CONNECT}.source.SourceConnector": "source",
    f"{_CONNECT}.transforms.Transformation": "transformation",
    f"{_CONNECT}.transforms.predicates.Predicate": "predicate",
    f"{_CONNECT}.storage.Converter": "converter",
    f"{_CONNECT}.storage.HeaderConverter": "header_converter",
    f"{_COMMON}.config.provider.ConfigProvider": "configprovider",
    f"{_CONNECT}.rest.ConnectRestExtension": "rest_extension",
    f"{_CONNECT}.connector.policy.ConnectorClientConfigOverridePolicy": "override_policy",
}
_FOLDER = "META-INF/services/"
_ARCHIVES = (".jar", ".zip")
_CLASS_FILE = b"\xca\xfe\xba\xbe"
_OLDEST_CLASS_FILE = 44  # Java 1; 61 is Java 17


@dataclass(frozen=True, slots=True)
class JarService:
    """One class that a service file names. ``java``: the Java it is compiled for, 0 when its class is not there."""

    type: str
    class_name: str
    java: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a place. ``unreadable``: invalid archives, with the reason."""

    services: tuple[JarService, ...]
    unreadable: tuple[tuple[str, str], ...]
    digest: str


def archives_in(place: Path) -> list[Path]:
    """Return the jars of a place, itself or at any depth, as Java finds them; a link to a folder is followed once."""
    if not place.is_dir():
        return [place]
    return sorted(path for path in _walk(place, set()) if path.suffix.lower() in _ARCHIVES)


def holds_java(place: Path) -> bool:
    """Return whether a place is one of Java's: a jar, or a folder with jars or class files at any depth."""
    if not place.is_dir():
        return place.suffix.lower() in _ARCHIVES
    return any(path.suffix.lower() in (".jar", ".class") for path in _walk(place, set()))


def _walk(folder: Path, seen: set[Path]) -> Iterator[Path]:
    real = folder.resolve()
    if real in seen:
        return
    seen.add(real)
    for path in folder.iterdir():
        if path.is_dir():
            yield from _walk(path, seen)
        else:
            yield path


def read_contents(place: Path) -> Contents:
    """Return the content of a place. Raises OSError when it cannot be read at all."""
    found: dict[tuple[str, str], None] = {}
    classes: dict[str, bytes] = {}  # first bytes of the classes that services name
    unreadable: list[tuple[str, str]] = []
    digest = hashlib.sha256()
    archives = archives_in(place)
    opened: list[zipfile.ZipFile] = []
    try:
        for path in archives:
            try:
                opened.append(zipfile.ZipFile(path))
            except (zipfile.BadZipFile, OSError) as error:
                unreadable.append((path.name, f"is not a valid jar: {error}"))
        for archive in opened:
            for entry in archive.infolist():
                digest.update(f"{entry.filename}\0{entry.CRC}\0{entry.file_size}\n".encode())
                if entry.filename.startswith(_FOLDER) and entry.filename.removeprefix(_FOLDER) in SERVICES:
                    _take_services(entry.filename, archive.read(entry), found)
        for archive in opened:
            _take_heads(archive, found, classes)
    finally:
        for archive in opened:
            archive.close()
    if not archives:
        _read_loose(place, found, classes, digest)
    services = tuple(JarService(kind, name, _java_of(classes.get(name))) for kind, name in found)
    return Contents(services, tuple(unreadable), digest.hexdigest()[:32])


def _take_services(name: str, content: bytes, found: dict[tuple[str, str], None]) -> None:
    kind = SERVICES[name.rpartition("/")[2]]
    for line in content.decode("utf-8", errors="replace").splitlines():
        class_name = line.partition("#")[0].strip()
        if class_name:
            found[kind, class_name] = None


def _take_heads(archive: zipfile.ZipFile, found: Mapping[tuple[str, str], None], classes: dict[str, bytes]) -> None:
    for _, name in found:
        if name not in classes:
            try:
                with archive.open(f"{name.replace('.', '/')}.class") as file:
                    classes[name] = file.read(8)
            except KeyError:
                continue


def _read_loose(
    place: Path, found: dict[tuple[str, str], None], classes: dict[str, bytes], digest: hashlib._Hash
) -> None:
    """Read a folder of class files, as a build leaves it."""
    for path in sorted(_walk(place, set())):
        name = path.relative_to(place).as_posix()
        content = path.read_bytes()
        digest.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
        if name.startswith(_FOLDER) and name.removeprefix(_FOLDER) in SERVICES:
            _take_services(name, content, found)
    for _, name in found:
        file = place / f"{name.replace('.', '/')}.class"
        if file.is_file():
            classes[name] = file.read_bytes()[:8]


def _java_of(head: bytes | None) -> int:
    if head is None or head[:4] != _CLASS_FILE or len(head) < 8:
        return 0
    return int.from_bytes(head[6:8], "big") - _OLDEST_CLASS_FILE
