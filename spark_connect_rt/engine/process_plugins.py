"""The plug-ins of this process: the bundled ones, those of ``plugin.path``, those installed while the worker runs.

Owns also what needs them: the config providers, and by these a worker's settings.

One registry a process and ``plugin.path``: modules are loaded once, in the driver as on executors.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base.cache import cache_directory
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.connectrt_config import PluginSettings
from spark_connect_rt.config.management_config import PluginInstallSettings
from spark_connect_rt.config.worker_settings import WorkerConfig, parse_distributed
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.plugins.discovery import Discovered, discover
from spark_connect_rt.plugins.isolation import forget_missing, look_when_missing, make_importable
from spark_connect_rt.plugins.locations import find_locations
from spark_connect_rt.plugins.path_watch import PathWatch
from spark_connect_rt.plugins.registry import Plugins

if TYPE_CHECKING:
    from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers

_JavaSettings = tuple[str, str, str]  # heap, options, plugin.discovery
_MADE_LATER: set[str] = set()  # folders that plug-ins are installed in
_STATES: dict[Plugins, tuple[int, ...]] = {}  # of executors' registries: when their folders changed
_CHANGES = [0]  # how often plug-ins were installed or removed
_CHECKOUT_MARKS = (".git", ".hg", ".svn")
_REGISTRIES: list[Plugins] = []  # every one of this process
_ASKED: dict[_JavaSettings, DriverAnswers] = {}  # of this process


def plugins_of(raw: Mapping[str, str]) -> Plugins:
    """Return the registry of a worker's configuration.

    Of modules other than plug-ins it imports those that this configuration itself names, or allows.
    """
    settings = PluginSettings.of(raw)
    trusted = frozenset(name for value in raw.values() for name in parse_value(Type.LIST, value))
    return _registry(
        plugin_folders(raw), frozenset(settings.connectrt_plugins_modules), trusted, _java_settings(settings)
    )


def plugin_folders(raw: Mapping[str, str]) -> tuple[str, ...]:
    """Return where a worker looks for plug-ins: ``plugin.path``, and the folder that they are installed in."""
    folders, installed = PluginSettings.of(raw).folders, str(install_directory(raw))
    if installed not in folders:
        _MADE_LATER.add(installed)
    return folders if installed in folders else (*folders, installed)


def install_directory(raw: Mapping[str, str]) -> Path:
    """Return the folder that plug-ins are installed in: made at the first one. Raises BadConfigError.

    Not configured, it is the first writable folder of ``plugin.path`` outside any source checkout, else one in the
    cache that only workers of this group on these brokers share.
    """
    directory = PluginInstallSettings.of(raw).connectrt_plugins_directory
    if directory:
        return Path(directory)
    folders = map(Path, PluginSettings.of(raw).folders)
    writable = (
        folder for folder in folders if folder.is_dir() and os.access(folder, os.W_OK) and not in_checkout(folder)
    )
    return next(writable, None) or cache_directory() / "plugins" / _cluster_folder(raw)


def in_checkout(folder: Path) -> bool:
    """Return whether a folder lies in a checkout of sources: its owner commits what appears there."""
    place = folder.resolve()
    return any((parent / mark).exists() for parent in (place, *place.parents) for mark in _CHECKOUT_MARKS)


def _cluster_folder(raw: Mapping[str, str]) -> str:
    """Return a name for the group on its brokers: groups of one name on several clusters have different plug-ins."""
    group = re.sub(r"[^\w.-]", "_", raw.get("group.id") or "standalone")
    brokers = sorted(address.strip() for address in (raw.get("bootstrap.servers") or "").split(","))
    return f"{group}-{hashlib.sha256(','.join(brokers).encode()).hexdigest()[:8]}"


def refresh_plugins() -> None:
    """Have every registry of this process see what was installed or removed. Any thread."""
    forget_missing()
    _CHANGES[0] += 1  # a search that began before must not be kept for those that begin now
    _found.cache_clear()
    for registry in _REGISTRIES:
        registry.refresh()


def java_asked(raw: Mapping[str, str]) -> Callable[[], DriverAnswers | None]:
    """Return what says whom this process asks about Java plug-ins of a worker; None: it has asked nothing yet."""
    settings = _java_settings(PluginSettings.of(raw))
    return lambda: _ASKED.get(settings)


def _java_settings(settings: PluginSettings) -> _JavaSettings:
    return settings.connectrt_java_heap, settings.connectrt_java_options, settings.plugin_discovery.lower()


@cache
def _java(settings: _JavaSettings) -> DriverAnswers:
    from spark_connect_rt.engine.java_host.driver_host import JvmSettings, driver_host, searching_host
    from spark_connect_rt.engine.java_host.plugin_answers import DriverAnswers

    heap, options, discovery = settings
    jvm = JvmSettings(heap, options)
    _ASKED[settings] = DriverAnswers(driver_host(jvm), discovery, searching_host(jvm))
    return _ASKED[settings]


@cache
def _executors_java() -> Any:
    from spark_connect_rt.engine.java_host.plugin_answers import ExecutorAnswers

    return ExecutorAnswers()


def import_plugins_when_named(raw: Mapping[str, str]) -> None:
    """Have modules of the plug-ins' folders be importable by name in this process; looked for when one is named."""
    make_importable(())
    look_when_missing(
        lambda: make_importable(find_locations([folder for folder in plugin_folders(raw) if Path(folder).is_dir()]))
    )


def providers_of(raw: Mapping[str, str]) -> ConfigProviders:
    """Return the config providers of a worker's configuration. Raises BadConfigError."""
    return ConfigProviders.from_config(raw, plugins_of(raw).class_of)


def distributed_config(raw: Mapping[str, str]) -> WorkerConfig:
    """Return a distributed worker's settings, references looked up. Raises BadConfigError."""
    return parse_distributed(raw, providers_of(raw).resolve)


@cache
def _registry(folders: Sequence[str], allowed: frozenset[str], trusted: frozenset[str], java: _JavaSettings) -> Plugins:
    def may_import(name: str, module: str) -> bool:
        parents = (module.rsplit(".", up)[0] for up in range(module.count(".") + 1))
        return name in trusted or "*" in allowed or any(parent in allowed for parent in parents)

    return _kept(Plugins(BUNDLED, lambda: _found(folders, _java(java), _CHANGES[0]), may_import))


def plugins_in(folders: Sequence[str]) -> Plugins:
    """Return a registry of these folders that imports whatever it is asked for, for names that a worker let pass.

    It knows what is in the folders now: plug-ins may be installed while a slot's process runs.
    """
    found, state = _plugins_in(tuple(folders)), tuple(map(_changed_at, folders))
    if _STATES.setdefault(found, state) != state:
        _STATES[found] = state
        refresh_plugins()
    return found


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


@cache
def _plugins_in(folders: Sequence[str]) -> Plugins:
    _MADE_LATER.update(folders)  # a folder that an executor lacks shows when it is searched
    found = _kept(Plugins(BUNDLED, lambda: _found(folders, _executors_java(), _CHANGES[0])))
    found.look = PathWatch(folders, refresh_plugins, 0).look_now  # put deeper than a folder's own time shows
    return found


def _kept(plugins: Plugins) -> Plugins:
    _REGISTRIES.append(plugins)
    return plugins


@cache
def _found(folders: Sequence[str], java: Any, _: int) -> Discovered:
    """Search these folders, once for each change; one that the first installed plug-in will make is left out."""
    return discover([folder for folder in folders if folder not in _MADE_LATER or Path(folder).is_dir()], java=java)
