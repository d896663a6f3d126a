"""Policies and filters by the class name that a configuration gives: Java's for the bundled ones, else a Python one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from spark_connect_rt.errors import BadConfigError

JAVA_PACKAGE = "org.apache.kafka.connect.mirror"

MayImport = Callable[[str, str], bool]
"""(class name, its module) -> whether this process may import it."""
_may_import: MayImport = lambda name, module: True  # noqa: E731 - replaced by ``import_only``


def import_only(may_import: MayImport) -> None:
    """Have this process import only the modules that ``may_import`` allows. For a worker with an open REST API."""
    global _may_import  # as the modules themselves: one set a process
    _may_import = may_import


def may_import(name: str, module: str) -> bool:
    """Return whether this process may import the class that a configuration calls ``name`` from a module."""
    return _may_import(name, module)


class Configured(Protocol):
    """A policy or filter: made without arguments, then given the connector's whole configuration."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the class's settings. Raises BadConfigError."""


def class_named(setting: str, name: str, bundled: Mapping[str, type[Any]]) -> type[Any]:
    """Return the class of ``setting``: a bundled one by Java's name, else ``package.module:Class`` or with a dot.

    Raises BadConfigError naming the setting: there is no such class, or its module may not be imported.
    """
    if name in bundled:
        return bundled[name]
    module, _, wanted = name.partition(":") if ":" in name else name.rpartition(".")
    if not _may_import(name, module):
        why = f"{name} is not allowed on this worker. Add its module to connectrt.plugins.modules"
        raise BadConfigError({setting: [f"{why}. Bundled are {', '.join(bundled)}"]})
    try:
        found: type[Any] = getattr(import_module(module), wanted)
    except (ImportError, AttributeError, ValueError) as error:
        ours = ", ".join(bundled)
        raise BadConfigError({setting: [f"there is no Python class {name} ({error}). Bundled are {ours}"]}) from error
    return found
