"""Java plug-ins of ``plugin.path``, found without a JVM where their service files allow it (Java ``Plugins``).

Owns how a place of jars becomes plug-ins of the registry, and the meaning of ``plugin.discovery``. ``JavaRuntime``
provides the rest when it is needed: versions, classes that no service file names, the declarations of a plug-in.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.jars import JarService, read_contents
from spark_connect_rt.plugins.plugin_desc import TYPES, PluginDesc

SERVICE_LOAD, HYBRID_FAIL, HYBRID_WARN = "service_load", "hybrid_fail", "hybrid_warn"
_NOT_RUN = ("rest_extension", "override_policy")
_PRUNED = {"sink": "Connector", "source": "Connector", "converter": "Converter", "header_converter": "HeaderConverter"}

NO_SERVICES = (
    "META-INF/services in its jars names no plug-in. With plugin.discovery=hybrid_warn a JVM searches for "
    "classes; `connectrt plugins sync-manifests` writes these files"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scanned:
    """One plug-in that a JVM found: kind, class, version (None: undefined)."""

    type: str
    class_name: str
    version: str | None


class JavaRuntime(Protocol):
    """The answers of a JVM about plug-ins, fresh or remembered. Any thread; may block for seconds."""

    discovery: str  # plugin.discovery

    def java_major(self) -> int:
        """Return the version of the Java that plug-ins run on."""

    def version(self, plugin: JavaPluginDesc) -> str | None:
        """Return the plug-in's version. None when it has none or cannot be created; the reason is logged."""

    def broken(self, plugin: JavaPluginDesc) -> str:
        """Return why a plug-in whose version was requested cannot be created; empty: no problem is known."""

    def scan(self, place: Path, digest: str) -> Sequence[Scanned]:
        """Return every plug-in of a place, also without service files. Raises ConnectError."""

    def class_of(self, plugin: JavaPluginDesc) -> type[Any]:
        """Return the Python class that stands for a plug-in. Raises NotFoundError: it cannot be made."""


class JavaPluginDesc(PluginDesc):
    """A Java plug-in: its class is made, and its version asked, when they are wanted."""

    __slots__ = ("digest", "runtime", "siblings")

    digest: str  # of the contents of its place
    runtime: JavaRuntime
    siblings: Sequence[str]  # classes of its place: asked together

    def __init__(
        self, kind: str, java_class: str, place: Path, digest: str, runtime: JavaRuntime, siblings: Sequence[str]
    ) -> None:
        """Take the facts that are known without a JVM."""
        values = {
            "target": java_class,
            "type": kind,
            "java_class": java_class,
            "aliases": (),
            "location": str(place),
            "namespace": "",
            "listed": True,
            "digest": digest,
            "runtime": runtime,
            "siblings": siblings,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def version(self) -> str | None:  # type: ignore[override]
        """Return its version as Java shows it, None when it has none."""
        return self.runtime.version(self)

    @property
    def is_java(self) -> bool:
        """Whether a JVM runs it: yes."""
        return True

    @property
    def description(self) -> str:
        """Nothing: a Java plug-in has no such sentence."""
        return ""

    @property
    def content(self) -> str:
        """A digest of the jars that are there."""
        return self.digest

    @property
    def cls(self) -> type[Any]:
        """Return the Python class that stands for it. Raises NotFoundError, with Java's reason."""
        return self.runtime.class_of(self)

    def names(self) -> set[str]:
        """Return the aliases of a class by Java's rules."""
        simple = self.java_class.rpartition(".")[2]
        if "$" in simple:
            return {self.java_class}
        return {self.java_class, simple, simple.removesuffix(_PRUNED.get(self.type, ""))} - {""}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JavaPluginDesc) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, str]:
        return self.type, self.java_class, self.location


@dataclass(slots=True)
class JavaFound:
    """The Java plug-ins of one place; ``wants_scan``: only a JVM can find out whether these are all."""

    plugins: list[PluginDesc] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # (class, or the place's name; reason)
    wants_scan: bool = False
    digest: str = ""


def look_at(place: Path, runtime: JavaRuntime) -> JavaFound:
    """Return the plug-ins in a place's service files. Raises OSError."""
    contents = read_contents(place)
    found = JavaFound(digest=contents.digest, wants_scan=runtime.discovery != SERVICE_LOAD)
    for name, why in contents.unreadable:
        found.problems.append((place.name, f"{name} {why}"))
    usable: list[JarService] = []
    for service in contents.services:
        why = _why_not(service, runtime)
        if why:
            found.problems.append((service.class_name, why))
        else:
            usable.append(service)
    found.plugins = described(
        [(service.type, service.class_name) for service in usable], place, contents.digest, runtime
    )
    if not contents.services and not found.problems and not found.wants_scan:
        found.problems.append((place.name, NO_SERVICES))
    return found


def described(
    kinds_and_classes: Sequence[tuple[str, str]], place: Path, digest: str, runtime: JavaRuntime
) -> list[PluginDesc]:
    """Return the descriptions of plug-ins of one place."""
    siblings = tuple(sorted({name for kind, name in kinds_and_classes if kind not in _NOT_RUN}))
    return [JavaPluginDesc(kind, name, place, digest, runtime, siblings) for kind, name in kinds_and_classes]


def _why_not(service: JarService, runtime: JavaRuntime) -> str:
    if service.java > 17 and service.java > (here := _java_major(runtime)):
        return (
            f"is compiled for Java {service.java}, but the JVM of Java plug-ins is Java {here}. Set JAVA_HOME to a "
            "newer one, or use a plug-in for this one"
        )
    if service.java == 0:
        return "is named by META-INF/services, but none of the jars there contains its class"
    return ""


def _java_major(runtime: JavaRuntime) -> float:
    """Return the version of the available Java, infinity if there is none: users of a JVM get that error themselves."""
    try:
        return runtime.java_major()
    except ConnectError:
        return math.inf


def completed(place: Path, found: JavaFound, runtime: JavaRuntime) -> tuple[list[PluginDesc], list[tuple[str, str]]]:
    """Return the plug-ins that a JVM finds at a place in addition to ``found``, and problems.

    Blocks for seconds, the first time. Raises ConnectError: no JVM can search the place.
    """
    scanned = runtime.scan(place, found.digest)
    known = {(plugin.type, plugin.java_class) for plugin in found.plugins} | {("", name) for name, _ in found.problems}
    new = [
        (plugin.type, plugin.class_name)
        for plugin in scanned
        if (plugin.type, plugin.class_name) not in known
        and ("", plugin.class_name) not in known
        and plugin.type in TYPES
    ]
    if not scanned and not found.plugins and not found.problems:
        return [], [(place.name, "a jar without plug-ins: it contains no class that Connect can use as one")]
    if not new:
        return [], []
    names = ", ".join(sorted(name for _, name in new))
    if runtime.discovery == HYBRID_FAIL:
        why = (
            f"plugin.discovery=hybrid_fail: no file in META-INF/services names {names}. Add these files with "
            "`connectrt plugins sync-manifests`, or set plugin.discovery=hybrid_warn"
        )
        return [], [(place.name, why)]
    if runtime.discovery == HYBRID_WARN:
        log.warning("plugin=%s: %s would not be found with plugin.discovery=service_load", place, names)
    return described(new, place, found.digest, runtime), []
