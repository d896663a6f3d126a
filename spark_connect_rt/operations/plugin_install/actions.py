"""What ``connectrt plugins ...`` does, wherever the plug-ins are (``plugin_places.py``)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.engine.process_plugins import plugin_folders
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.plugin_install.plugin_places import PluginPlace
from spark_connect_rt.operations.plugin_install.plugin_tables import coordinate_lines, settings_page, settings_table
from spark_connect_rt.operations.plugin_install.report import report_lines
from spark_connect_rt.operations.plugin_install.search import search_plugins
from spark_connect_rt.operations.plugin_install.service_files import missing_services
from spark_connect_rt.operations.plugin_install.service_files import sync_manifests as write_services
from spark_connect_rt.plugins.jars import archives_in
from spark_connect_rt.plugins.locations import find_locations
from spark_connect_rt.plugins.plugin_installs import WantedPlugin
from spark_connect_rt.rest.json_values import as_json as json_of


def show(place: PluginPlace, check: bool, as_json: bool) -> int:
    """List plug-ins; exit code 1: one is broken."""
    report = place.report(check)
    if as_json:
        _write_json(report)
    else:
        _write("".join(f"{line}\n" for line in report_lines(report)))
        _write("".join(f"{line}\n" for line in _installed_lines(report.get("installed", []))))
    failed = [plugin for plugin in report.get("installed", []) if "failed" in _states(plugin)]
    return 1 if report["broken"] or failed else 0


def describe(place: PluginPlace, name: str, version: str, as_json: bool) -> int:
    """Show what a plug-in can be configured with."""
    keys = place.settings_of(name, version)
    if as_json:
        _write_json(keys)
    else:
        settings_table(name, keys)
    return 0


def docs(place: PluginPlace, name: str, version: str) -> int:
    """Write the same as Markdown."""
    _write(settings_page(name, place.settings_of(name, version)))
    return 0


def search(words: str, as_json: bool) -> int:
    """Show coordinates to install."""
    found = search_plugins(words)
    if as_json:
        _write_json(json_of(found))
    else:
        _write("".join(f"{line}\n" for line in (*coordinate_lines(found.plugins), found.origin)))
    return 0 if found.plugins else 1


def install(place: PluginPlace, wanted: WantedPlugin) -> int:
    """Install a plug-in."""
    done = place.install(wanted)
    _write(f"installed {done['name']} {done['version']} {place.where}\n")
    for title, names in (("plug-ins", done["plugins"]), ("left out because Connect contains them", done["left_out"])):
        if names:
            _write(f"  {title}: {', '.join(names)}\n")
    if done["plugins"]:  # of Java
        _prepare_java(place, str(done["name"]), str(done["version"]))
    return 0


def _prepare_java(place: PluginPlace, name: str, version: str) -> None:
    try:
        place.prepare_java(name, version)
    except (ConnectError, OSError) as error:  # it is installed all the same
        _write(
            "  its first start will take longer, because the archive of the Java host's classes cannot be "
            f"created: {error}\n"
        )


def remove(place: PluginPlace, name: str, version: str) -> int:
    """Remove an installed plug-in."""
    place.remove(name, version)
    _write(f"removed {name} {version}\n")
    return 0


def sync_manifests(settings: Mapping[str, str], dry_run: bool) -> int:
    """Name plug-ins in service files that no such file names; exit code 1: a place cannot be read or written."""
    places = [location.path for location in find_locations(plugin_folders(settings)) if location.java]
    return max([_synced(place, dry_run) for place in places], default=0)


def _synced(place: Path, dry_run: bool) -> int:
    try:
        broken = [archive.name for archive in archives_in(place) if not is_zipfile(archive)]
        missing = missing_services(place) if dry_run else write_services(place)
    except OSError as error:
        _write(f"{place}: {error}\n")
        return 1
    names = sorted({name for found in missing.values() for name in found})
    if broken:
        _write(f"{place}: not a valid jar: {', '.join(broken)}\n")
    if names:
        _write(f"{place}: {'missing' if dry_run else 'added'}: {', '.join(names)}\n")
    elif not broken:
        _write(f"{place}: nothing is missing\n")
    return 1 if broken else 0


def _installed_lines(installed: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for plugin in installed:
        lines.append(
            f"{'installed':17} {plugin['name']} {plugin['version']}  {plugin['source']}  by {plugin['installed_by']}"
        )
        for worker, state in plugin.get("workers", {}).items():
            if state["state"] != "installed":
                lines.append(f"{'':17} {worker}: {state['state']}: {state['reason']}")
    return lines


def _states(plugin: Mapping[str, Any]) -> list[str]:
    return [state["state"] for state in plugin.get("workers", {}).values()]


def _write_json(value: Any) -> None:
    _write(encode_json(json_of(value)).decode() + "\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
