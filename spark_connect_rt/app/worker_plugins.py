"""The plug-ins of this process: the bundled ones, those of ``plugin.path``, those installed beside the worker.

One registry a process and ``plugin.path``: modules are loaded once, in the driver as on executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from spark_connect_rt.app.plugin_scan import BUNDLED
from spark_connect_rt.plugins.discovery import Discovered, discover
from spark_connect_rt.plugins.registry import Plugins


def plugin_path(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of ``plugin.path``."""
    return _listed(raw.get("plugin.path", ""))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def plugins_of(raw: Mapping[str, str]) -> Plugins:
    """Return the registry of a worker's configuration.

    Of modules that are no plug-ins it imports those that this configuration itself names, or allows.
    """
    allowed = frozenset(_listed(raw.get("connectrt.plugins.modules", "")))
    trusted = frozenset(name for value in raw.values() for name in _listed(value))
    return _registry(plugin_path(raw), allowed, trusted)


@cache
def _registry(folders: Sequence[str], allowed: frozenset[str], trusted: frozenset[str]) -> Plugins:
    def may_import(name: str, module: str) -> bool:
        parents = (module.rsplit(".", up)[0] for up in range(module.count(".") + 1))
        return name in trusted or "*" in allowed or any(one in allowed for one in parents)

    return Plugins(BUNDLED, lambda: _found(folders), may_import)


@cache
def plugins_in(folders: Sequence[str]) -> Plugins:
    """Return a registry of these folders that imports whatever it is asked for, for names that a worker let pass."""
    return Plugins(BUNDLED, lambda: _found(folders))


@cache
def _found(folders: Sequence[str]) -> Discovered:
    return discover(folders)
