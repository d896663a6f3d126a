"""The plug-ins a worker knows, as the inside asks for them. Implemented by plugins.registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class PluginFacts(Protocol):
    """One plug-in. ``type``: sink, source, transformation, predicate, converter, header_converter ..."""

    @property
    def cls(self) -> type[Any]:
        """The class."""

    @property
    def type(self) -> str:
        """The kind of plug-in."""

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
        """Return ``find(name, kind).cls``."""

    def versions(self, name: str) -> Sequence[str]:
        """Return every version of ``find(name)`` there is, oldest first; empty when there is none of that name."""

    def list(self, connectors_only: bool) -> Sequence[PluginFacts]:
        """Return the plug-ins in the order of types that REST shows."""
