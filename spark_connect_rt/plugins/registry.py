"""Finds plug-ins by the name a configuration gives: Java's class, an alias, or a Python name (Java ``Plugins``).

Bundled plug-ins are known by name and imported on first use: a worker that uses one connector does not pay for all.
Others are discovered, once, when a name is not a bundled one. Users' own may also be ``package.module:Class`` or
``package.module.Class``, importable where the worker runs.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, RUNTIME_MARK, VERSION_MARK
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.class_scan import WAIT_LIMIT_S, ClassScan, Unscanned
from spark_connect_rt.plugins.discovery import BrokenPlugin, Discovered
from spark_connect_rt.plugins.java_plugins import NO_SERVICES, JavaPluginDesc
from spark_connect_rt.plugins.plugin_desc import IN_REST, SINK, SOURCE, TYPES, PluginDesc, bundled, kind_of, load_class

# Versions and version ranges of plug-ins (KIP-891): ``1.2`` is exactly that, ``[1.0,2.0)`` a range, ``latest``.
#
# Pure. Ranges are written as in Maven, because Java Connect reads them so (``PluginUtils``). Versions are ordered as in
# Python (PEP 440). Those of Java plug-ins that are not valid in Python (``3.7.0.Final``) are ordered as in Maven:
# ``Alpha``, ``Beta``, ``CR`` and ``SNAPSHOT`` before the version, other words after it.


Accepts = Callable[[str | None], bool]
_LOWEST = Version("0.dev0")
_MAVEN = re.compile(r"^(\d+(?:\.\d+)*)[.-]([A-Za-z]+)[.-]?(\d*)$")
_FINAL = {"final", "ga", "release"}
_BEFORE = {"alpha": "a", "beta": "b", "milestone": "b", "m": "b", "cr": "rc", "rc": "rc", "snapshot": ".dev"}


def version_order(text: str | None) -> Version:
    """Return the sort key of a version. Invalid and missing versions come first."""
    try:
        return _parsed(text or "")
    except InvalidVersion:
        return _LOWEST


def _parsed(text: str) -> Version:
    """Return Python's version, or Maven's as one. Raises InvalidVersion."""
    found = _MAVEN.match(text.strip())
    word = found.group(2).lower() if found else ""
    if found and word in _FINAL:
        return Version(found.group(1))
    if found and word in _BEFORE:
        return Version(f"{found.group(1)}{_BEFORE[word]}{found.group(3) or 0}")
    try:
        return Version(text)
    except InvalidVersion:
        if found is None:
            raise
        return Version(f"{found.group(1)}+{word}{found.group(3)}")


def requirement(text: str | None, setting: str) -> Accepts | None:
    """Return the test of ``*.plugin.version``; None: any version will do, the newest is taken.

    Raises BadConfigError naming ``setting``.
    """
    wanted = (text or "").strip()
    if not wanted or wanted.lower() == "latest":
        return None
    if wanted[0] not in "[(":
        return lambda version: version == wanted or _equal(version, wanted)
    try:
        tests = [_interval(interval) for interval in _intervals(wanted)]
    except (InvalidVersion, ValueError) as error:
        # prose: keep - a golden transcript has these words
        raise BadConfigError({setting: [f"{wanted} is no version and no range such as [1.0,2.0): {error}"]}) from error
    return lambda version: version is not None and any(test(version_order(version)) for test in tests)


def _equal(version: str | None, wanted: str) -> bool:
    try:
        return _parsed(version or "") == _parsed(wanted)
    except InvalidVersion:
        return False


def _intervals(text: str) -> list[str]:
    """Split ``[1,2),[3,4]`` at the commas between intervals."""
    found: list[str] = []
    rest = text.replace(" ", "")
    while rest:
        end = min((at for at in (rest.find("]"), rest.find(")")) if at >= 0), default=-1)
        if rest[0] not in "[(" or end < 0:
            raise ValueError("an interval begins with [ or ( and ends with ] or )")
        found.append(rest[: end + 1])
        rest = rest[end + 1 :].removeprefix(",")
    return found


def _interval(text: str) -> Callable[[Version], bool]:
    low_text, comma, high_text = text[1:-1].partition(",")
    if not comma:
        exact = _parsed(low_text)
        return lambda version: version == exact
    low = _parsed(low_text) if low_text else None
    high = _parsed(high_text) if high_text else None
    with_low, with_high = text[0] == "[", text[-1] == "]"

    def accepts(version: Version) -> bool:
        above = low is None or version > low or (with_low and version == low)
        below = high is None or version < high or (with_high and version == high)
        return above and below

    return accepts


__all__ = ["SINK", "SOURCE", "TYPES", "PluginDesc", "Plugins", "bundled", "kind_of", "load_class"]

log = logging.getLogger(__name__)

_ORDER = list(TYPES)
_SHOWN = 5  # places that one line of the log names


class Plugins:
    """The plug-ins of one worker. Any thread."""

    def __init__(
        self,
        bundled_plugins: Iterable[PluginDesc] = (),
        discover: Callable[[], Discovered] = Discovered,
        may_import: Callable[[str, str], bool] = lambda name, module: True,
    ) -> None:
        """Take the bundled plug-ins, and how to find the others; nothing is imported or searched yet.

        ``may_import``: may a name (of that module) be imported that is neither bundled nor discovered? Names come from
        any client of the REST API.
        """
        self.may_import = may_import
        self.look: Callable[[], bool] = lambda: False
        """Asked when a name is not known: looks whether there are new plug-ins, and returns whether it searched."""
        self._bundled = _sorted(bundled_plugins)
        self._by_name = _by_name(self._bundled)
        self._discover = discover
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()  # one at a time: the later one has seen more
        self._others: Sequence[PluginDesc] | None = None
        self._scan: ClassScan[Discovered] | None = None  # of the searched places; None: no JVM has to search
        self._all_by_name: dict[str, list[PluginDesc]] = {}
        self._broken: dict[tuple[str, str], BrokenPlugin] = {}

    def find(self, name: str, kind: str = "") -> PluginDesc:
        """Return the plug-in of that name or alias; ``name@[1.0,2.0)`` the newest of these versions (KIP-891).

        A Java class may be of several kinds: converter and header_converter. ``kind`` selects one of them.
        A bundled one comes first unless a version is asked for, one in Python before one in Java. ``name%java`` and
        ``name%python`` search one runtime only.

        Raises NotFoundError: unknown name, an alias of several plug-ins, or no such version.
        Raises BadConfigError: the version is invalid.
        """
        wanted, _, version = name.strip().partition(VERSION_MARK)
        wanted, _, runtime = wanted.partition(RUNTIME_MARK)
        accepts = requirement(version, "plugin.version")
        known: Sequence[PluginDesc] = self._by_name.get(wanted, []) if accepts is None and runtime != "java" else []
        known = known or self._discovered(wanted, runtime)
        if not known and self.look():
            known = self._discovered(wanted, runtime)
        names = sorted({plugin.java_class for plugin in known})
        if len(names) > 1:
            meant = ", ".join(names)
            raise NotFoundError(f"plug-in name {wanted} is ambiguous, because it can mean {meant}. Use the full name")
        if known:
            return _newest([plugin for plugin in known if plugin.type == kind] or known, accepts, version)
        if runtime:
            raise NotFoundError(f"{self._not_found(wanted)}; connectrt.runtime={runtime} allows no other")
        if ":" in wanted or "." in wanted:
            return self._users_own(wanted)
        raise NotFoundError(f"{self._not_found(wanted)}")

    def _discovered(self, name: str, runtime: str) -> Sequence[PluginDesc]:
        self._search()
        if not (known := _of_runtime(self._all_by_name.get(name, []), runtime)):
            self._search_all()
            known = _of_runtime(self._all_by_name.get(name, []), runtime)
        return known

    def class_of(self, name: str, kind: str = "") -> type[Any]:
        """Return the class of that name or alias. Raises NotFoundError as ``find`` and ``check``."""
        return self.check(self.find(name, kind))

    def check(self, found: PluginDesc) -> type[Any]:
        """Return the plug-in's class. Raises NotFoundError, and remembers why."""
        try:
            return found.cls
        except NotFoundError as error:
            if error.code == BROKEN_PLUGIN and found.location != "bundled":
                self._note(BrokenPlugin(found.java_class, found.location, str(error)))
            raise

    def versions(self, name: str) -> Sequence[str]:
        """Return every version there is of the plug-in of that name, oldest first; empty when it has none."""
        try:
            found = self.find(name)
        except NotFoundError:
            return []
        self._search_all()
        named = self._all_by_name.get(name.strip().partition(RUNTIME_MARK)[0], [found])
        known = [plugin for plugin in named if plugin.java_class == found.java_class]
        return sorted({plugin.version for plugin in known if plugin.version}, key=version_order)

    def list(self, connectors_only: bool = True) -> Sequence[PluginDesc]:
        """Return the plug-ins that REST lists: sinks, sources, other kinds, each by name; no broken or test ones."""
        wanted = (SINK, SOURCE) if connectors_only else IN_REST
        return [
            plugin
            for plugin in self.everything()
            if plugin.type in wanted and plugin.listed and not self._is_broken(plugin)
        ]

    def everything(self, *, patient: bool = False) -> Sequence[PluginDesc]:
        """Return every plug-in of every kind, also those that failed when they were imported.

        ``patient``: however long a JVM takes to find them.
        """
        self._search_all(patient=patient)
        found = _sorted([*self._bundled, *(self._others or ())])
        self._note_all(_java_problems(found))
        return found

    def broken(self) -> Sequence[BrokenPlugin]:
        """Return those that cannot be used, as far as is known: by their metadata, or since they were asked for."""
        self._search()
        with self._lock:
            late = [_unsearched(place, self._scan.complaint()) for place in self._scan.late()] if self._scan else []
            return sorted(
                [*self._broken.values(), *late], key=lambda broken_plugin: (broken_plugin.location, broken_plugin.name)
            )

    def refresh(self) -> None:
        """Search again, because a plug-in was installed or removed.

        Callers get the old result until the search has ended.
        """
        with self._refreshing:
            with self._lock:  # wait for a running search, which may have started before the change
                if self._others is None:
                    return  # nothing was searched yet
            found = self._discover()
            places = {plugin.location for plugin in found.plugins}
            with self._lock:
                self._take(found)
                self._broken = {
                    key: broken_plugin
                    for key, broken_plugin in self._broken.items()
                    if broken_plugin.location in places
                }
        self._note_all(found.broken)

    def _search(self) -> None:
        with self._lock:
            if self._others is not None:
                return
            found = self._discover()
            self._take(found)
        self._note_all(found.broken)

    def _take(self, found: Discovered) -> None:
        self._others = found.plugins
        if self._scan is not None:
            self._scan.end()
        self._scan = ClassScan(found.unscanned, self._take_scanned, WAIT_LIMIT_S) if found.unscanned else None
        self._all_by_name = _by_name([*self._bundled, *found.plugins])

    def _search_all(self, *, patient: bool = False) -> None:
        """Search also for plug-ins that only a JVM finds: when a name is unknown, or all are needed.

        Waits a minute at most. The lock is free meanwhile: connectors whose classes are known start.
        """
        self._search()
        with self._lock:
            scan = self._scan
        if scan is not None:
            scan.wait(patient=patient)

    def _take_scanned(
        self, scan: ClassScan[Discovered], place: Unscanned[Discovered], found: Discovered | Exception
    ) -> None:
        """Add the plug-ins that a JVM found at a place, unless the places were searched again meanwhile."""
        if isinstance(found, Exception):
            found = Discovered(broken=[_unsearched(place, f"only its service files could be read: {found}")])
        with self._lock:
            if self._scan is not scan:
                return
            self._others = [*(self._others or ()), *found.plugins]
            self._all_by_name = _by_name([*self._bundled, *self._others])
        self._note_all(found.broken)

    def _note_all(self, broken: Iterable[BrokenPlugin]) -> None:
        """Log broken plug-ins. Places without any plug-in, mostly libraries, are one log line per folder."""
        bare: dict[Path, list[str]] = {}
        for broken_plugin in broken:
            if broken_plugin.error != NO_SERVICES:
                self._note(broken_plugin)
            elif self._is_news(broken_plugin):
                bare.setdefault(Path(broken_plugin.location).parent, []).append(broken_plugin.name)
        for folder, names in bare.items():
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            log.warning("%d of the places in %s contain no plug-in (%s): %s", len(names), folder, shown, NO_SERVICES)

    def _note(self, broken: BrokenPlugin) -> None:
        if self._is_news(broken):
            log.error("plugin=%s at %s is broken: %s", broken.name, broken.location, broken.error)

    def _is_news(self, broken: BrokenPlugin) -> bool:
        with self._lock:
            known = (broken.name, broken.location) in self._broken
            self._broken[broken.name, broken.location] = broken
        return not known

    def _is_broken(self, plugin: PluginDesc) -> bool:
        return (plugin.java_class, plugin.location) in self._broken

    def _users_own(self, name: str) -> PluginDesc:
        module, _, class_name = name.partition(":") if ":" in name else name.rpartition(".")
        target = f"{module}:{class_name}"
        if not self.may_import(name, module):
            raise NotFoundError(
                f"{self._not_found(name)}. To have this worker import it, register it as a plug-in or add its "
                "module to connectrt.plugins.modules"
            )
        try:
            found = load_class(target)
        except NotFoundError as error:
            raise NotFoundError(f"{self._not_found(name)}; {error}") from error
        kind = kind_of(found)
        if kind is None:
            raise NotFoundError(f"{name} is not a plug-in, because it extends no class of spark_connect_rt.api")
        return PluginDesc(target, kind, target.replace(":", "."), _version_of(found), location="environment")

    def _not_found(self, name: str) -> str:
        # Java's words first: clients search for them. Versions are not queried: for Java plug-ins that needs a JVM.
        self._search_all()
        known = [
            plugin
            for plugin in (*self._bundled, *(self._others or ()))
            if plugin.listed and not self._is_broken(plugin)
        ]
        connectors = ", ".join(name for kind in (SINK, SOURCE) for name in sorted(_classes(known, kind)))
        return (
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {connectors}{self._why_broken(name)}"
        )

    def _why_broken(self, name: str) -> str:
        """Return the problems of existing, or possibly existing, plug-ins of that name."""
        found = [
            broken_plugin
            for broken_plugin in self.broken()
            if broken_plugin.incomplete or name in (broken_plugin.name, broken_plugin.name.rpartition(".")[2])
        ]
        return "".join(
            f"; {broken_plugin.name} of {broken_plugin.location}: {broken_plugin.error}" for broken_plugin in found
        )


def _unsearched(place: Unscanned[Discovered], why: str) -> BrokenPlugin:
    return BrokenPlugin(Path(place.location).name, place.location, why, incomplete=True)


def _of_runtime(known: Sequence[PluginDesc], runtime: str) -> Sequence[PluginDesc]:
    if not runtime:
        return known
    return [plugin for plugin in known if isinstance(plugin, JavaPluginDesc) == (runtime == "java")]


def _java_problems(found: Iterable[PluginDesc]) -> Iterator[BrokenPlugin]:
    """Yield problems of Java plug-ins whose versions are known: they cannot be created, or exist twice.

    Only connectors: connectors of one vendor bring the same transformations, each in its folder (Debezium's do).
    """
    used: dict[tuple[str, str, str | None], str] = {}  # the last place is used
    java = [plugin for plugin in found if isinstance(plugin, JavaPluginDesc)]
    for plugin in sorted(java, key=lambda plugin: plugin.location, reverse=True):
        if why := plugin.runtime.broken(plugin):
            yield BrokenPlugin(plugin.java_class, plugin.location, f"cannot be created: {why}")
        elif (
            plugin.type in (SINK, SOURCE)
            and (
                other := used.setdefault(
                    (plugin.type, plugin.java_class, plugin.version),
                    plugin.location,
                )
            )
            != plugin.location
        ):
            yield BrokenPlugin(
                plugin.java_class,
                plugin.location,
                f"version {plugin.version or '-'} is also at {other}, which is used. "
                "Remove one of them from plugin.path",
            )


def _newest(known: Sequence[PluginDesc], accepts: Accepts | None, version: str) -> PluginDesc:
    fitting = [plugin for plugin in known if accepts is None or accepts(plugin.version)]
    if not fitting:
        versions = ", ".join(str(plugin.version) for plugin in known)
        wanted = version if version[0] in "[(" else f"[{version},{version}]"
        raise NotFoundError(
            f"Plugin {known[0].java_class} not found that matches the version range {wanted}, "
            f"available versions: [{versions}]"
        )
    ours = [plugin for plugin in fitting if not isinstance(plugin, JavaPluginDesc)]
    fitting = ours or fitting
    if len(fitting) == 1:
        return fitting[0]  # its version is not needed
    newest = max(fitting, key=lambda plugin: (version_order(plugin.version), plugin.location))
    twins = [plugin.location for plugin in fitting if plugin.version == newest.version]
    if len(set(twins)) > 1 and newest.type in (SINK, SOURCE):
        _warn_of_twins(newest.java_class, newest.version, ", ".join(sorted(twins)), newest.location)
    return newest


@cache
def _warn_of_twins(name: str, version: str | None, places: str, used: str) -> None:
    """Warn once a process: a plug-in is looked up with every request."""
    text = "plugin=%s version=%s is in several places of plugin.path (%s), and that of %s is used. Remove the others"
    log.warning(text, name, version, places, used)


def _classes(plugins: Iterable[PluginDesc], kind: str) -> set[str]:
    return {plugin.java_class for plugin in plugins if plugin.type == kind}


def _sorted(plugins: Iterable[PluginDesc]) -> list[PluginDesc]:
    return sorted(
        plugins, key=lambda plugin: (_ORDER.index(plugin.type), plugin.java_class, version_order(plugin.version))
    )


def _by_name(plugins: Iterable[PluginDesc]) -> dict[str, list[PluginDesc]]:
    by_name: dict[str, dict[tuple[str, str, str], PluginDesc]] = {}
    for plugin in plugins:
        # A class may be of two kinds. In Python it is both at once; of Java's each kind has a class here.
        key = plugin.target, plugin.location, plugin.type if isinstance(plugin, JavaPluginDesc) else ""
        for name in plugin.names():
            by_name.setdefault(name, {}).setdefault(key, plugin)
    return {name: list(found.values()) for name, found in by_name.items()}


def _version_of(cls: type[Any]) -> str | None:
    """Return the version that the class itself reports; None: it has none, or cannot be created."""
    try:
        return str(cls().version())
    except (AttributeError, TypeError):
        return None
