"""The plug-ins a worker knows, as the inside asks for them. Implemented by plugins.registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of


class PluginFacts(Protocol):
    """One plug-in. ``type``: sink, source, transformation, predicate, converter, header_converter ..."""

    @property
    def cls(self) -> type[Any]:
        """The plug-in's class, imported on first use."""

    @property
    def type(self) -> str:
        """The kind of the plug-in, as REST names it."""

    @property
    def is_java(self) -> bool:
        """Whether a JVM runs it; its ``version`` and ``cls`` may then take seconds, the first time."""

    @property
    def location(self) -> str:
        """Where it is: bundled, environment, or a path."""

    @property
    def content(self) -> str:
        """A digest of the jars that are there; empty: it is in Python."""

    @property
    def version(self) -> str | None:
        """Its version, None when undefined."""

    @property
    def java_class(self) -> str:
        """The name shown over REST: Java's where there is one, else Python's."""


class PluginCatalog(Protocol):
    """Finds plug-ins by Java class name, Python name or alias. Any thread."""

    def find(self, name: str, kind: str = "") -> PluginFacts:
        """Raises NotFoundError when the name is unknown or ambiguous. ``kind``: meant if the class is of several."""

    def class_of(self, name: str, kind: str = "") -> type[Any]:
        """Return the class of ``find(name, kind)``. Raises as ``find``."""

    def versions(self, name: str) -> Sequence[str]:
        """Return every version of ``find(name)`` there is, oldest first; empty when there is none of that name."""

    def list(self, connectors_only: bool) -> Sequence[PluginFacts]:
        """Return the plug-ins in the order of types that REST shows."""


# Plug-ins installed while the worker runs, as REST asks for them. Implemented by
# operations.plugin_install.group_installs.


INSTALLED, FAILED = "installed", "failed"


@dataclass(frozen=True, slots=True)
class WantedPlugin:
    """A plug-in to install. ``name`` and ``version`` replace those of the source."""

    source: str = field(metadata=described("group:artifact:version, a path or URL, a Python requirement."))
    sha512: str = ""
    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class InstallState(JsonShape):
    """The state of one plug-in on one worker: installed, or failed and why."""

    state: str = field(metadata=one_of((INSTALLED, FAILED)))
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InstalledInfo(JsonShape):
    """One installed plug-in, and its state on each worker of the group."""

    name: str
    version: str
    source: str
    kind: str
    sha512: str
    installed_by: str
    installed_at_ms: int
    left_out: Sequence[str]  # jars that Connect provides
    plugins: Sequence[str]  # classes found in its jars
    recorded: bool  # False: on this worker alone
    workers: dict[str, InstallState]


class PluginInstalls(Protocol):
    """Installs and removes plug-ins on this worker and, by a record of the group, on all. Any thread; blocks."""

    def install(self, wanted: WantedPlugin, who: str) -> InstalledInfo:
        """Install a plug-in and return it. ``who``: the user who asked for it.

        Raises AlreadyExistsError, BadRequestError, ForbiddenError, ConnectError; then nothing has changed.
        """

    def remove(self, name: str, version: str, who: str) -> None:
        """Remove a plug-in. Raises NotFoundError, and PluginInUseError if a connector uses it."""

    def installed(self) -> Sequence[InstalledInfo]:
        """Return every installed plug-in, by name and version."""

    def problem(self) -> str:
        """Return why the group's record is not followed at the moment; empty: it is."""
