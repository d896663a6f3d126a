"""Which connectors use an installed plug-in: by the classes that their configurations name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

VERSION = "plugin.version"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


def named_plugins(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, wanted version) of every plug-in that a connector's or worker's configuration names."""
    if name := config.get("connector.class"):
        yield name, config.get(f"connector.{VERSION}", "")
    for setting in _CONVERTERS:
        if name := config.get(setting):
            yield name, config.get(f"{setting}.{VERSION}", "")
    for chain in ("transforms", "predicates"):
        for alias in _parts(config.get(chain)):
            if name := config.get(f"{chain}.{alias}.type"):
                yield name, config.get(f"{chain}.{alias}.{VERSION}", "")
    for alias in _parts(config.get("config.providers")):
        if name := config.get(f"config.providers.{alias}.class"):
            yield name, ""
    for setting in ("rest.extension.classes", "connector.client.config.override.policy"):
        yield from ((name, "") for name in _parts(config.get(setting)))


def users_of(
    folder: str,
    configs: Mapping[str, Mapping[str, str]],
    location_of: Callable[[str, str], str | None],
) -> list[str]:
    """Return those of ``configs`` (name -> configuration) that use a plug-in of this folder, sorted.

    ``location_of``: from name and wanted version of a plug-in to where it is; None: there is none.
    """
    wanted = PurePath(folder)

    def is_there(location: str | None) -> bool:
        return location is not None and (wanted == PurePath(location) or wanted in PurePath(location).parents)

    return sorted(
        name
        for name, config in configs.items()
        if any(is_there(location_of(plugin, version)) for plugin, version in named_plugins(config))
    )


def _parts(text: str | None) -> list[str]:
    return [one.strip() for one in (text or "").split(",") if one.strip()]
