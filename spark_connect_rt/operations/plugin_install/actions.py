"""Actions of ``connectrt plugins ...``, wherever the plug-ins are: ``PluginPlace``."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from zipfile import is_zipfile

from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.cli.session import Session
from spark_connect_rt.config.management_config import PluginInstallSettings
from spark_connect_rt.config.worker_config import is_loopback
from spark_connect_rt.engine.process_plugins import install_directory, plugin_folders, plugins_of
from spark_connect_rt.errors import BadConfigError, BadRequestError, ConnectError, NotFoundError
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.install_token import read_token, token_file
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.operations.plugin_install.report import import_all, plugin_report, report_lines
from spark_connect_rt.operations.plugin_install.service_files import missing_services
from spark_connect_rt.operations.plugin_install.service_files import sync_manifests as write_services
from spark_connect_rt.operations.plugin_install.sources import folder_name
from spark_connect_rt.plugins.interfaces import WantedPlugin
from spark_connect_rt.plugins.jars import archives_in
from spark_connect_rt.plugins.locations import find_locations
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.connector_plugins import key_info
from spark_connect_rt.rest.json_values import as_json as json_of

# Finds connectors to install: on Maven Central, else in the list of well-known ones that comes along.


_LIMIT = 30
_TIMEOUT_S = 8


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A coordinate, with or without a version, and a few words."""

    coordinate: str
    about: str


@dataclass(frozen=True, slots=True)
class PluginSearchResult:
    """The plug-ins that a search found, and the index that it used."""

    plugins: Sequence[FoundPlugin]
    origin: str


def search_plugins(words: str, ask: Callable[[str], Sequence[FoundPlugin]] | None = None) -> PluginSearchResult:
    """Return what fits the words. ``ask``: instead of Maven Central; after any error of it, the list is used."""
    try:
        return PluginSearchResult((ask or maven_central)(words), "found by Maven Central's search")
    except Exception as error:  # noqa: BLE001 - an index elsewhere: not reachable, or another API by now
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return PluginSearchResult(
            well_known(words), f"from the bundled list, because the search of Maven Central failed ({why})"
        )


def maven_central(words: str) -> list[FoundPlugin]:
    """Ask Maven Central's search. Raises what its client raises."""
    optional_module("jgo", "quickstart", "downloads from Maven Central")
    from jgo.maven import solr_search

    documents = solr_search(f"{words} connect", rows=_LIMIT, timeout=_TIMEOUT_S)
    return [FoundPlugin(_coordinate(document), document.get("p", "")) for document in documents]


def _coordinate(document: Mapping[str, str]) -> str:
    version = document.get("latestVersion") or document.get("v")
    return ":".join(filter(None, (document["g"], document["a"], version)))


def well_known(words: str) -> list[FoundPlugin]:
    """Return those of the list that have all words in them, any case."""
    text = files("spark_connect_rt.operations.plugin_install").joinpath("well_known.json").read_text(encoding="utf-8")
    wanted = words.lower().split()
    return [
        FoundPlugin(coordinate, about)
        for coordinate, about in json.loads(text).items()
        if all(word in f"{coordinate} {about}".lower() for word in wanted)
    ]


# Where ``connectrt plugins`` looks and acts: the workers of a cluster, over REST, or the folders of this machine.


class PluginPlace(Protocol):
    """A place of plug-ins; its answers have the shapes of REST."""

    @property
    def where(self) -> str:
        """Return where something was installed, as the end of a sentence: ``in FOLDER``."""

    def report(self, check: bool) -> Mapping[str, Any]:
        """Return ``GET /admin/plugins``; ``check``: import each one."""

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """Return ``GET /connector-plugins/NAME/config``. Raises BadRequestError: it declares no settings."""

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """Install one; return what was installed."""

    def prepare_java(self, name: str, version: str) -> None:
        """Let the first start of an installed Java plug-in cost less. Raises ConnectError, OSError: it will not."""

    def remove(self, name: str, version: str) -> None:
        """Remove an installed plug-in. Raises NotFoundError."""


def local_source(text: str) -> str:
    """Return the source of an installation, with an absolute path if it names a file of this machine."""
    return str(Path(text).absolute()) if Path(text).is_file() else text


class OnCluster:
    """The workers of a group: the one that is asked hands on to the others. Raises as the client does."""

    where = "on the worker that was asked. Every other worker of its group also installs it"

    def __init__(self, session: Session) -> None:
        self._session = session

    def report(self, check: bool) -> Mapping[str, Any]:
        """See PluginPlace; a running worker imports nothing for it."""
        return self._session.ask(management_calls.plugins_report())

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """Ask a worker for ``GET /connector-plugins/NAME/config``."""
        return self._session.ask(calls.plugin_settings(name, version))

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """Have the cluster install a plug-in; return the worker's answer.

        A worker on this machine has another working directory, so a local file is sent with its absolute path.
        """
        if self._is_here():
            wanted = replace(wanted, source=local_source(wanted.source))
        return self._session.ask(management_calls.install_plugin(json_of(wanted), self._token()))

    def prepare_java(self, name: str, version: str) -> None:
        """Do nothing: workers prepare it while the first JVM for it starts. See PluginPlace."""

    def remove(self, name: str, version: str) -> None:
        """Have the cluster remove a plug-in. Raises NotFoundError."""
        self._session.ask(management_calls.remove_plugin(name, version, self._token()))

    def _is_here(self) -> bool:
        """Return whether every worker that may be asked has a loopback address."""
        hosts = [urlsplit(address).hostname or "" for address in self._session.client.bases("/admin/plugins")]
        return all(map(is_loopback, hosts))

    def _token(self) -> str:
        """Return the token of this user on this machine, for a worker here; nothing for one elsewhere."""
        if not self._is_here():
            return ""
        try:
            return read_token(token_file())
        except BadConfigError:  # no worker of this user was started here, or it has another file
            return ""


class OnThisMachine:
    """The folders that a worker's file names."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    @property
    def where(self) -> str:
        """Return the place as the end of a sentence: ``in FOLDER``."""
        return f"in {self._installer.folder.path}"

    def report(self, check: bool) -> Mapping[str, Any]:
        """Return the plug-ins of this machine in the shape of ``GET /admin/plugins``; ``check``: import each one."""
        found = plugins_of(self._settings)
        if check:
            import_all(found)
        report: dict[str, Any] = plugin_report(found)
        report["installed"] = [json_of(plugin) for plugin in self._installer.folder.installed()]
        return report

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """Return a plug-in's settings in REST's shape. Raises BadRequestError if it declares none."""
        found = plugins_of(self._settings).class_of(f"{name}@{version}" if version else name)
        definition = getattr(found(), "config_def", None)
        if definition is None:
            raise BadRequestError(f"{name} has no settings")
        return [json_of(key_info(key)) for key in definition()]

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """Install a plug-in into this machine's folder; return the installed plug-in."""
        done: Mapping[str, Any] = json_of(self._installer.install(wanted, _who()))
        return done

    def prepare_java(self, name: str, version: str) -> None:
        """Make the class archive of an installed Java plug-in, so that its first start costs less."""
        from spark_connect_rt.engine.class_archive_command import make_host_archive  # pyspark: not for every word

        make_host_archive([self._installer.folder.path / folder_name(name, version)])

    def remove(self, name: str, version: str) -> None:
        """Delete a plug-in from this machine's folder. Raises NotFoundError."""
        plugin = self._installer.folder.find(name, version)
        if plugin is None:
            raise NotFoundError(f"plug-in {name} {version} is not installed in {self._installer.folder.path}")
        self._installer.remove(plugin, _who())

    @cached_property
    def _installer(self) -> Installer:
        found = PluginInstallSettings.of(self._settings)
        folder = PluginFolder(install_directory(self._settings).absolute())
        allowed, limit_bytes = found.connectrt_plugins_allowed, found.connectrt_plugins_size_max_bytes
        return Installer(folder, allowed, limit_bytes, SystemClock().now_ms)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user} (command line)"


# Tables and pages of a plug-in's settings, as ``GET /connector-plugins/NAME/config`` has them; lines of a search.


def coordinate_lines(found: Sequence[FoundPlugin]) -> list[str]:
    """Return a line for each: its coordinate, a few words. No table: a coordinate that is folded cannot be copied.

    An install needs a version, so a coordinate without one has ``VERSION`` in its place.
    """
    whole = [
        (plugin.coordinate if plugin.coordinate.count(":") > 1 else f"{plugin.coordinate}:VERSION", plugin.about)
        for plugin in found
    ]
    width = max((len(coordinate) for coordinate, _ in whole), default=0)
    return [f"{coordinate:{width}}  {about}".rstrip() for coordinate, about in whole]


def settings_table(name: str, keys: Sequence[Mapping[str, Any]]) -> None:
    """Print the settings of a plug-in."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=name, title_justify="left", show_lines=False)
    for column in ("setting", "type", "default", "importance", "what it does"):
        table.add_column(column, overflow="fold")
    for key in keys:
        cells = (key["name"], key["type"], _default(key), key["importance"], key["documentation"] or "")
        table.add_row(*map(Text, cells))  # texts of others: no mark-up is read in them
    Console().print(table)


def settings_page(name: str, keys: Sequence[Mapping[str, Any]]) -> str:
    """Return the settings of a plug-in as Markdown: required ones first, then by importance."""
    lines = [f"# {name}", "", "| setting | type | default | importance | what it does |", "|---|---|---|---|---|"]
    order = ("HIGH", "MEDIUM", "LOW")
    for setting in sorted(keys, key=lambda key: (not key["required"], order.index(key["importance"]))):
        cells = (
            f"`{setting['name']}`",
            setting["type"],
            _default(setting),
            setting["importance"],
            setting["documentation"] or "",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(key: Mapping[str, Any]) -> str:
    if key["required"]:
        return "required"
    value = key["default_value"]
    return "-" if value is None else str(value)


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
    """Show coordinates to install; return the exit code, 1 if nothing is found."""
    found = search_plugins(words)
    if as_json:
        _write_json(json_of(found))
    else:
        _write("".join(f"{line}\n" for line in (*coordinate_lines(found.plugins), found.origin)))
    return 0 if found.plugins else 1


def install(place: PluginPlace, wanted: WantedPlugin) -> int:
    """Install a plug-in and print the result; return the exit code."""
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
    """Remove an installed plug-in; return the exit code."""
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
