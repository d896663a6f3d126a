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
    return tuple(one.strip() for one in raw.get("plugin.path", "").split(",") if one.strip())


def plugins_of(raw: Mapping[str, str]) -> Plugins:
    """Return the registry of a worker's configuration."""
    return plugins_in(plugin_path(raw))


@cache
def plugins_in(folders: Sequence[str]) -> Plugins:
    """Return the registry of these folders; nothing is searched or imported until it is asked for."""

    def search() -> Discovered:
        return discover(folders)

    return Plugins(BUNDLED, search)
