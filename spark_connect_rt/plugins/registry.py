"""Finds plug-ins by the name a configuration gives: Java's class, an alias, or a Python name (Java ``Plugins``).

Bundled plug-ins are handed in as names and imported when first asked for: a worker that uses one connector does not
pay for all. Users' own are ``package.module:Class`` or ``package.module.Class``, importable where the worker runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt._version import __version__
from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import NotFoundError

PluginClass = type[Any]
SINK, SOURCE = "sink", "source"
TYPES = {  # kind of plug-in -> its base class and the suffix an alias may drop, in the order REST lists them
    SINK: (SinkConnector, "Connector"),
    SOURCE: (SourceConnector, "Connector"),
    "converter": (Converter, "Converter"),
    "header_converter": (HeaderConverter, "Converter"),
    "transformation": (Transformation, ""),
    "predicate": (Predicate, ""),
    "configprovider": (ConfigProvider, "ConfigProvider"),
}
_ORDER = list(TYPES)


@dataclass(frozen=True, slots=True)
class PluginDesc:
    """One plug-in; ``target`` is ``package.module:Class``, ``java_class`` the name REST shows."""

    target: str
    type: str
    java_class: str
    version: str | None = __version__
    aliases: tuple[str, ...] = field(default=())

    @property
    def cls(self) -> PluginClass:
        """The class, imported when first asked for. Raises NotFoundError: it cannot be imported."""
        return load_class(self.target)

    def names(self) -> set[str]:
        """Return every name the plug-in answers to."""
        named = {self.target, self.target.replace(":", "."), self.java_class, *self.aliases}
        suffix = TYPES[self.type][1]
        for name in (self.target.partition(":")[2], self.java_class.rpartition(".")[2]):
            named |= {name, name.removesuffix(suffix)}
        return named - {""}


def bundled(target: str, kind: str, java_class: str | None = None, *aliases: str) -> PluginDesc:
    """Return the description of a bundled plug-in; without a Java twin REST shows its Python name."""
    return PluginDesc(target, kind, java_class or target.replace(":", "."), aliases=aliases)


class Plugins:
    """The plug-ins of one worker. Any thread."""

    def __init__(self, bundled_plugins: Iterable[PluginDesc] = ()) -> None:
        """Take the bundled plug-ins; nothing is imported."""
        self._bundled = sorted(bundled_plugins, key=lambda one: (_ORDER.index(one.type), one.java_class))
        self._by_name: dict[str, dict[str, PluginDesc]] = {}
        for one in self._bundled:
            for name in one.names():
                self._by_name.setdefault(name, {})[one.target] = one

    def find(self, name: str) -> PluginDesc:
        """Return the plug-in of that name or alias. Raises NotFoundError: unknown, or an alias of several."""
        wanted = name.strip()
        known = list(self._by_name.get(wanted, {}).values())
        if len(known) == 1:
            return known[0]
        if known:
            meant = ", ".join(one.java_class for one in known)
            raise NotFoundError(f"plug-in name {wanted} is ambiguous, it may mean {meant}: give the whole name")
        if ":" in wanted or "." in wanted:
            return self._users_own(wanted)
        raise NotFoundError(f"{self._not_found(wanted)}")

    def class_of(self, name: str) -> type[Any]:
        """Return the class of that name or alias. Raises NotFoundError."""
        return self.find(name).cls

    def list(self, connectors_only: bool = True) -> Sequence[PluginDesc]:
        """Return the bundled plug-ins: sinks, sources, then the other kinds, each by name."""
        return [one for one in self._bundled if not connectors_only or one.type in (SINK, SOURCE)]

    def _users_own(self, name: str) -> PluginDesc:
        module, _, class_name = name.partition(":") if ":" in name else name.rpartition(".")
        target = f"{module}:{class_name}"
        try:
            found = load_class(target)
        except NotFoundError as error:
            raise NotFoundError(f"{self._not_found(name)}; {error}") from error
        kind = kind_of(found)
        if kind is None:
            raise NotFoundError(f"{name} is no plug-in: it extends none of the classes in spark_connect_rt.api")
        return PluginDesc(target, kind, target.replace(":", "."), _version_of(found))

    def _not_found(self, name: str) -> str:
        # Java's words first: clients look for them.
        connectors = ", ".join(one.java_class for one in self.list())
        return (
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {connectors}"
        )


def kind_of(cls: type[Any]) -> str | None:
    """Return what kind of plug-in a class is, None when it is none."""
    return next((kind for kind, (base, _) in TYPES.items() if issubclass(cls, base)), None)


def load_class(target: str) -> type[Any]:
    """Import ``package.module:Class`` (``Class`` may be ``Outer.Inner``). Raises NotFoundError with the reason."""
    module_name, _, qualified = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotFoundError(f"class {target} cannot be imported: {error}") from error
    if not isinstance(found, type):
        raise NotFoundError(f"{target} is no class")
    return found


def _version_of(cls: type[Any]) -> str | None:
    """Return what the class itself says; a plug-in without a version, or that cannot be made, has none."""
    try:
        return str(cls().version())
    except (AttributeError, TypeError):
        return None
