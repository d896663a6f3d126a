"""Finds plug-ins by metadata alone, without importing any of them (Java ``PluginScanner``).

A plug-in is an entry point in a group of its kind: ``FileSource = "mine.source:FileSourceConnector"`` under
``spark_connect_rt.source_connectors``. Its name is one more alias, or, with a dot in it, the class name that REST shows
and configurations use. An unreadable plug-in is reported with its reason and does not affect the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_connect_rt.plugins.class_scan import Unscanned
from spark_connect_rt.plugins.isolation import make_importable
from spark_connect_rt.plugins.java_plugins import JavaFound, JavaRuntime, completed, look_at
from spark_connect_rt.plugins.locations import FoundEntry, Location, entries_of, entries_of_environment, find_locations
from spark_connect_rt.plugins.plugin_desc import GROUPS, PluginDesc

ENVIRONMENT = "environment"  # where the worker's own Python finds modules
_TARGET = re.compile(r"^[\w.]+:[\w.]+$")
_OURS = "spark_connect_rt."


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """One plug-in that cannot be used: its name (a class, or the place alone), where it is, and why.

    ``incomplete``: there may be more plug-ins at its place than are known.
    """

    name: str
    location: str
    error: str
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Discovered:
    """The plug-ins that were found, and those that cannot be used.

    ``unscanned``: places whose plug-ins only a JVM can list completely, in seconds (plug-ins that no service file
    names).
    """

    plugins: Sequence[PluginDesc] = ()
    broken: Sequence[BrokenPlugin] = ()
    unscanned: Sequence[Unscanned[Discovered]] = ()


def discover(plugin_path: Sequence[str], with_environment: bool = True, java: JavaRuntime | None = None) -> Discovered:
    """Return the plug-ins of ``plugin.path`` and of the environment, and make the former importable.

    ``java``: provides facts about Java plug-ins that only a JVM knows. None: Java plug-ins cannot run here.
    """
    plugins: list[PluginDesc] = []
    broken: list[BrokenPlugin] = []
    unscanned: list[Unscanned[Discovered]] = []
    locations = find_locations(plugin_path)
    make_importable(locations)
    for location in locations:
        if not location.java:
            _take_location(location, plugins, broken)
        elif (found := _take_java(location, java, plugins, broken)) is not None and java and found.wants_scan:
            unscanned.append(_unscanned(location, found, java))
    if with_environment:
        try:
            _take(entries_of_environment(), None, plugins, broken)
        except Exception as error:  # noqa: BLE001 - one broken distribution of the environment
            broken.append(BrokenPlugin(ENVIRONMENT, ENVIRONMENT, f"metadata cannot be read: {error}"))
    return Discovered(plugins, broken, unscanned)


def _take_java(
    location: Location, java: JavaRuntime | None, plugins: list[PluginDesc], broken: list[BrokenPlugin]
) -> JavaFound | None:
    where = str(location.path)
    if java is None:
        broken.append(BrokenPlugin(location.path.name, where, "a Java plug-in, but no JVM is available here"))
        return None
    try:
        found = look_at(location.path, java)
    except Exception as error:  # noqa: BLE001 - an error of any class: the other plug-ins must be found
        broken.append(BrokenPlugin(location.path.name, where, f"cannot be read: {error}"))
        return None
    plugins += found.plugins
    broken += [BrokenPlugin(name, where, why) for name, why in found.problems]
    return found


def _unscanned(location: Location, found: JavaFound, java: JavaRuntime) -> Unscanned[Discovered]:
    where = str(location.path)

    def search() -> Discovered:
        more, problems = completed(location.path, found, java)
        return Discovered(more, [BrokenPlugin(name, where, why) for name, why in problems])

    return Unscanned(where, search)


def _take_location(location: Location, plugins: list[PluginDesc], broken: list[BrokenPlugin]) -> None:
    where = str(location.path)
    if location.error:
        broken.append(BrokenPlugin(location.path.name, where, location.error))
        return
    try:
        entries = entries_of(location)
    except Exception as error:  # noqa: BLE001 - an error of any class: the other plug-ins must be found
        broken.append(BrokenPlugin(location.path.name, where, f"metadata cannot be read: {error}"))
        return
    before = len(plugins) + len(broken)
    _take(entries, location, plugins, broken)
    if len(plugins) + len(broken) == before:
        groups = ", ".join(GROUPS)
        broken.append(BrokenPlugin(location.path.name, where, f"no entry point in any of the groups {groups}"))


def _take(
    entries: Iterable[FoundEntry],
    location: Location | None,
    plugins: list[PluginDesc],
    broken: list[BrokenPlugin],
) -> None:
    where = str(location.path) if location else ENVIRONMENT
    for entry in entries:
        if not entry.group.startswith(_OURS):
            continue
        if entry.group not in GROUPS:
            why = f"{entry.group} is not a group of plug-ins. Use one of {', '.join(GROUPS)}"
            broken.append(BrokenPlugin(entry.name, where, why))
        elif not _TARGET.match(entry.target):
            broken.append(BrokenPlugin(entry.name, where, f"{entry.target!r} is not package.module:Class"))
        else:
            plugins.append(_described(entry, location, where))


def _described(entry: FoundEntry, location: Location | None, where: str) -> PluginDesc:
    shown = entry.name if "." in entry.name else entry.target.replace(":", ".")
    return PluginDesc(
        target=entry.target,
        type=GROUPS[entry.group],
        java_class=shown,
        version=entry.version,
        aliases=() if "." in entry.name else (entry.name,),
        location=where,
        namespace=location.name if location else "",
    )
