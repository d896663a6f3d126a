"""The ``plugin.path`` of one JVM: a folder with links to the plug-ins it hosts, and to no other (Java ``PluginUtils``).

Java takes a folder of folders or jars, so a plug-in's own folder cannot be named, and its parent would bring its
neighbours. Owns the folders of links, kept in the cache under a hash of what they lead to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.plugins.jars import read_contents

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_ANY_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"  # a JVM does not start without
_KEPT = 64  # folders of links; those of copies that are gone leave first


def jvm_worker_config(worker_config: Mapping[str, str]) -> dict[str, str]:
    """Return what a JVM sees of the worker's settings.

    Not config providers, whose values are in place already, nor converters, which Java may not have: each task brings
    its own (``with_converters``).
    """
    others = {name: v for name, v in worker_config.items() if not name.startswith(("config.providers", *_CONVERTERS))}
    return others | {"key.converter": _ANY_CONVERTER, "value.converter": _ANY_CONVERTER}


def with_converters(config: Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
    """Return a connector's settings with the worker's converters where it names none, as Java chooses."""
    chosen = dict(config)
    for name in _CONVERTERS:
        if not config.get(name):
            of_worker = {n: v for n, v in worker_config.items() if n == name or n.startswith(f"{name}.")}
            chosen = {n: v for n, v in chosen.items() if not n.startswith(f"{name}.")} | of_worker
    return chosen


def with_plugins(
    worker_config: Mapping[str, str], locations: Sequence[str], connector_class: str = ""
) -> dict[str, str]:
    """Return the worker's settings for a JVM of these plug-ins, which are where they are on this machine.

    Service files are all that is read where they name the connector (of the first location), and every other plug-in
    has some: Java's own default looks into each class, which takes seconds. Raises NotFoundError: a plug-in is not
    there.
    """
    others = {name: value for name, value in worker_config.items() if name != "plugin.path"}
    if not locations:
        return others | {"plugin.discovery": "service_load"}  # Kafka's own jars have the files
    missing = [location for location in locations if not Path(location).exists()]
    if missing:
        raise NotFoundError(
            f"Java plug-in {', '.join(missing)} is not on this executor. Put all folders of plugin.path at the "
            "same place on every machine, or have them sent there (connectrt.plugins.ship)",
            code="CRT-1122",
        )
    listed = all(map(_named, map(Path, locations))) and (
        not connector_class or connector_class in _named(Path(locations[0]))
    )
    discovery = "service_load" if listed else worker_config.get("plugin.discovery") or "hybrid_warn"
    return others | {"plugin.path": str(_links(locations)), "plugin.discovery": discovery}


def linked_plugins(worker_config: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the places that the settings of ``with_plugins`` lead to, in its order."""
    folder = worker_config.get("plugin.path")
    links = Path(folder).iterdir() if folder else ()
    return tuple(link.resolve() for link in sorted(links, key=lambda link: int(link.name.partition("-")[0])))


def _named(location: Path) -> set[str]:
    """Return the classes that the service files of a place name."""
    return {service.class_name for service in read_contents(location).services}


def _links(locations: Sequence[str]) -> Path:
    """Return a folder with a link to each location."""
    paths = [Path(location).resolve() for location in locations]
    digest = hashlib.sha256("\n".join(map(str, paths)).encode()).hexdigest()[:16]
    root = cache_directory() / "java-plugin-paths"
    folder = root / digest
    with exclusive(root / "links.lock"):
        if not folder.is_dir():
            _forget_dead(root)
            draft = Path(tempfile.mkdtemp(dir=root, prefix="draft-"))
            for number, path in enumerate(paths):
                (draft / f"{number}-{path.name}").symlink_to(path)
            draft.replace(folder)
    return folder


def _forget_dead(root: Path) -> None:
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=os.path.getmtime)
    for folder in folders[:-_KEPT] if len(folders) > _KEPT else []:
        if not all(link.exists() for link in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
