"""Finds the Java plug-ins of a folder without a JVM, and writes the service files that its jars lack.

Java's ``connect-plugin-path sync-manifests`` does the same with the classes loaded; here class files are read, so that
nothing of a plug-in runs. Missing service files go into one small jar next to the others, under the name that Java's
tool uses. Source: KIP-898.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.plugins.jars import archives_in

# Reads from a Java class file what decides whether it is a plug-in: name, parents, flags, a constructor. Pure.
#
# Source: the class file format of the Java Virtual Machine Specification, chapter 4.


_MAGIC = 0xCAFEBABE
_PUBLIC, _INTERFACE, _ABSTRACT = 0x0001, 0x0200, 0x0400
_UTF8, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


@dataclass(frozen=True, slots=True)
class ClassFile:
    """One class; names with dots, nested ones with ``$``."""

    name: str
    parents: tuple[str, ...]  # its super class, then its interfaces
    can_be_made: bool  # public, not abstract, with a public constructor without arguments
    release: int  # of Java: 17, 21 ...


def read_class(data: bytes) -> ClassFile:
    """Return what a class file says. Raises ValueError: it is invalid."""
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(f"not a valid class file: {error!r}") from error


def _read(data: bytes) -> ClassFile:
    magic, _, major, count = struct.unpack_from(">IHHH", data)
    if magic != _MAGIC:
        raise ValueError("not a valid class file")
    texts: dict[int, bytes] = {}
    classes: dict[int, int] = {}
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + length]
            at += 3 + length
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        number += 2 if tag in (_LONG, _DOUBLE) else 1

    def name_of(index: int) -> str:
        return texts[classes[index]].decode("utf-8", "replace").replace("/", ".")

    flags, this, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    indexes = struct.unpack_from(f">{interfaces}H", data, at + 8)
    at = _behind_fields(data, at + 8 + 2 * interfaces)
    parents = ([name_of(parent)] if parent else []) + [name_of(place) for place in indexes]
    concrete = bool(flags & _PUBLIC) and not flags & (_ABSTRACT | _INTERFACE)
    return ClassFile(name_of(this), tuple(parents), concrete and _has_constructor(data, at, texts), major - 44)


def _behind_fields(data: bytes, at: int) -> int:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        at = _behind_attributes(data, at + 6)
    return at


def _behind_attributes(data: bytes, at: int) -> int:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        (length,) = struct.unpack_from(">I", data, at + 2)
        at += 6 + length
    return at


def _has_constructor(data: bytes, at: int, texts: dict[int, bytes]) -> bool:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(count):
        flags, name, descriptor = struct.unpack_from(">HHH", data, at)
        if flags & _PUBLIC and texts.get(name) == b"<init>" and texts.get(descriptor) == b"()V":
            return True
        at = _behind_attributes(data, at + 6)
    return False


SHIM = "connect-plugin-path-shim-1.0.0.jar"
SERVICES = "META-INF/services/"
_CONNECT = "org.apache.kafka.connect"
SERVICE_TYPES = (
    f"{_CONNECT}.sink.SinkConnector",
    f"{_CONNECT}.source.SourceConnector",
    f"{_CONNECT}.transforms.Transformation",
    f"{_CONNECT}.transforms.predicates.Predicate",
    f"{_CONNECT}.storage.Converter",
    f"{_CONNECT}.storage.HeaderConverter",
    f"{_CONNECT}.rest.ConnectRestExtension",
    f"{_CONNECT}.connector.policy.ConnectorClientConfigOverridePolicy",
    "org.apache.kafka.common.config.provider.ConfigProvider",
)
Services = dict[str, set[str]]
"""From the type of plug-in to its classes."""


def find_plugins(jars: Iterable[Path]) -> Services:
    """Return every class of these jars that Connect could make as a plug-in. An invalid jar is left out."""
    jars = list(jars)
    kinds: dict[str, set[str]] = {root: {root} for root in SERVICE_TYPES}  # class -> the types it is of
    found: Services = {}
    seen: dict[str, ClassFile] = {}
    fresh = set(SERVICE_TYPES)
    while fresh:
        wanted = re.compile(b"|".join(re.escape(class_name.replace(".", "/").encode()) for class_name in sorted(fresh)))
        for class_file in _mentioning(jars, wanted):
            seen[class_file.name] = class_file
        known = set(kinds)
        _spread(seen, kinds)
        fresh = set(kinds) - known
    for name, class_file in seen.items():
        if class_file.can_be_made:
            for kind in kinds.get(name, ()):
                found.setdefault(kind, set()).add(name)
    return found


def _spread(seen: Mapping[str, ClassFile], kinds: dict[str, set[str]]) -> None:
    """Give each class the types of its parents, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for class_file in seen.values():
            of_parents = {kind for parent in class_file.parents for kind in kinds.get(parent, ())}
            if of_parents - kinds.get(class_file.name, set()):
                kinds.setdefault(class_file.name, set()).update(of_parents)
                changed = True


def _mentioning(jars: Iterable[Path], wanted: re.Pattern[bytes]) -> Iterator[ClassFile]:
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as opened:
                for entry in opened.namelist():
                    if not entry.endswith(".class") or entry.startswith("META-INF/") or entry == "module-info.class":
                        continue
                    data = opened.read(entry)
                    if wanted.search(data):
                        yield read_class(data)
        except (zipfile.BadZipFile, ValueError, OSError):
            continue  # the code that loads it reports the error


def declared(jars: Iterable[Path]) -> Services:
    """Return what the service files of these jars name."""
    found: Services = {}
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as opened:
                names = set(opened.namelist())
                for kind in SERVICE_TYPES:
                    if (entry := SERVICES + kind) in names:
                        found.setdefault(kind, set()).update(_classes(opened.read(entry).decode("utf-8", "replace")))
        except (zipfile.BadZipFile, OSError):
            continue
    return found


def _classes(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if name := line.partition("#")[0].strip():
            yield name


def complete_service_files(folder: Path) -> Services:
    """Write what the service files of a folder's jars lack, in a separate jar; return every plug-in there is."""
    jars = sorted(path for path in folder.rglob("*.jar") if path.name != SHIM)  # a shim of before is made again
    found, said = find_plugins(jars), declared(jars)
    if missing := _lacking(found, said):
        _write_shim(folder, missing)
    return {kind: found.get(kind, set()) | said.get(kind, set()) for kind in found.keys() | said.keys()}


def missing_services(place: Path) -> Services:
    """Return the plug-ins of a folder of jars, or of one jar, that no service file there names. Raises OSError."""
    jars = archives_in(place)
    return _lacking(find_plugins(jars), declared(jars))


def sync_manifests(place: Path) -> Services:
    """Write what ``missing_services`` finds: next to the jars, or into the one jar; return it. Raises OSError.

    A file is replaced in one step: a worker that looks meanwhile sees the old or the new.
    """
    missing = missing_services(place)
    if missing and place.is_dir():
        complete_service_files(place)
    elif missing:
        _write_into(place, missing)
    return missing


def _lacking(found: Services, said: Services) -> Services:
    return {kind: lacks for kind, names in sorted(found.items()) if (lacks := names - said.get(kind, set()))}


def _text(names: Iterable[str]) -> str:
    return "".join(f"{name}\n" for name in sorted(names))


def _write_shim(folder: Path, missing: Services) -> None:
    draft = folder / f".{SHIM}.draft"
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as shim:
        for kind, names in missing.items():
            shim.writestr(zipfile.ZipInfo(SERVICES + kind), _text(names))
    draft.replace(folder / SHIM)


def _write_into(jar: Path, missing: Services) -> None:
    """Copy a jar with longer service files; a link still leads to it."""
    jar = jar.resolve()
    files = {SERVICES + kind: names for kind, names in missing.items()}
    draft = jar.with_name(f".{jar.name}.draft")
    try:
        with zipfile.ZipFile(jar) as old, zipfile.ZipFile(draft, "w") as new:
            for entry in old.infolist():
                data = old.read(entry)
                if entry.filename in files:
                    data = data.rstrip(b"\n") + b"\n" + _text(files.pop(entry.filename)).encode()
                new.writestr(entry, data)
            for name, names in files.items():
                new.writestr(zipfile.ZipInfo(name), _text(names))
        draft.chmod(jar.stat().st_mode & 0o777)
        draft.replace(jar)
    finally:
        draft.unlink(missing_ok=True)
