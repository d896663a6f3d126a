"""Finds the Java plug-ins of a folder without a JVM, and writes the service files that its jars lack.

Java's ``connect-plugin-path sync-manifests`` does the same with the classes loaded; here class files are read, so that
nothing of a plug-in runs. What is missing goes into one small jar beside the others, of the name that Java's tool uses.
Source: KIP-898.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from spark_connect_rt.operations.plugin_install.class_files import ClassFile, read_class
from spark_connect_rt.plugins.jars import archives_in

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
"""Type of plug-in -> classes."""


def find_plugins(jars: Iterable[Path]) -> Services:
    """Return every class of these jars that Connect could make as a plug-in. A jar that is none is left out."""
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
            continue  # what loads it says what is wrong with it


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
    """Write what the service files of a folder's jars lack, in a jar of its own; return every plug-in there is."""
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
    """Write what ``missing_services`` finds: beside the jars, or into the one jar; return it. Raises OSError.

    What it replaces is replaced in one step: a worker that looks meanwhile sees the old or the new.
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
    """Copy a jar with longer service files; a link goes on leading to it."""
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
