"""Names of the modules that come from ``plugin.path``.

Each plug-in has its own package, so that plug-ins cannot collide.

``mine.tasks`` of the plug-in folder ``mine-1.2`` is imported as ``connectrt_plugins.mine_1_2.mine.tasks``. Users and
topics see ``mine.tasks``. plugins/isolation.py does the importing.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt._moved import stored_module

ROOT = "connectrt_plugins"
VERSION_MARK = "@"
RUNTIME_MARK = "%"
RUNTIME = "connectrt.runtime"  # auto, python or java: which one runs where a name is there twice
PLUGIN_SETTINGS = ("connector.class", "connector.plugin.version", RUNTIME)  # by which a connector is looked up
BROKEN_PLUGIN = "CRT-1022"  # code of the NotFoundError of a plug-in that is there and cannot be loaded


def public_module(module: str) -> str:
    """Return a module's name as its author wrote it; of a bundled connector that moved, as topics hold it."""
    parts = module.split(".")
    return ".".join(parts[2:]) if parts[0] == ROOT and len(parts) > 2 else stored_module(module)


def public_name(cls: type[object]) -> str:
    """Return a class's full name as its author wrote it."""
    return f"{public_module(cls.__module__)}.{cls.__qualname__}"


def versioned(name: str, version: str | None) -> str:
    """Return the name under which plug-ins are looked up, with the version of ``*.plugin.version`` (KIP-891)."""
    return f"{name}{VERSION_MARK}{version.strip()}" if version and version.strip() else name


def of_runtime(name: str, runtime: str | None) -> str:
    """Return the name under which only plug-ins of one runtime (``python``, ``java``) are looked up; auto: of both."""
    word = (runtime or "").strip().lower()
    return f"{name}{RUNTIME_MARK}{word}" if word in ("python", "java") else name


def connector_plugin(config: Mapping[str, str]) -> str:
    """Return the name under which the connector of a configuration is looked up: class, runtime, version."""
    name = of_runtime(config.get("connector.class", ""), config.get(RUNTIME))
    return versioned(name, config.get("connector.plugin.version"))
