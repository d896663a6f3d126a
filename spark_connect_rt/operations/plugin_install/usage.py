"""Which connectors use an installed plug-in: by the classes that their configurations name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from spark_connect_rt.api.plugin_modules import connector_plugin, of_runtime, versioned

_VERSION = "plugin.version"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plug-in is, and whether a JVM runs it."""

    location: str
    is_java: bool = False


Find = Callable[[str], Place | None]
"""From a name as plug-ins are looked up (with version, runtime) to its place; None: there is none."""


def stage_names(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, wanted version) of every other plug-in that a connector's or worker's configuration names."""
    for setting in _CONVERTERS:
        if name := config.get(setting):
            yield name, config.get(f"{setting}.{_VERSION}", "")
    for chain in ("transforms", "predicates"):
        for alias in _parts(config.get(chain)):
            if name := config.get(f"{chain}.{alias}.type"):
                yield name, config.get(f"{chain}.{alias}.{_VERSION}", "")
    for alias in _parts(config.get("config.providers")):
        if name := config.get(f"config.providers.{alias}.class"):
            yield name, ""
    for setting in ("rest.extension.classes", "connector.client.config.override.policy"):
        yield from ((name, "") for name in _parts(config.get(setting)))


def used_places(config: Mapping[str, str], find: Find) -> Iterator[str]:
    """Yield where everything is that a configuration uses."""
    connector = find(connector_plugin(config)) if config.get("connector.class") else None
    if connector is not None:
        yield connector.location
    for name, version in stage_names(config):
        looked_up = [name]
        if connector is not None and connector.is_java:  # its chain stays in the JVM where it can
            looked_up.append(of_runtime(name, "java"))
        for reference in looked_up:
            if (place := find(versioned(reference, version))) is not None:
                yield place.location


def users_of(folder: str, configs: Mapping[str, Mapping[str, str]], find: Find) -> list[str]:
    """Return those of ``configs`` (name -> configuration) that use a plug-in of this folder, sorted."""
    wanted = PurePath(folder)

    def is_there(location: str) -> bool:
        return wanted == PurePath(location) or wanted in PurePath(location).parents

    return sorted(name for name, config in configs.items() if any(map(is_there, used_places(config, find))))


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
