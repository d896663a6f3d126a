"""Looks classes up as a worker with this file would, and in jars that no service file names."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from spark_connect_rt.api.connector import Connector, SinkConnector
from spark_connect_rt.api.plugin_modules import RUNTIME_MARK, versioned
from spark_connect_rt.app.migrate.rules import JAVA, PYTHON, PlannedPlugin
from spark_connect_rt.config.connector_config import PASSED_ON, SINK, SOURCE
from spark_connect_rt.config.unread_settings import CLIENT_PREFIXES, FREE_PREFIXES
from spark_connect_rt.errors import BadConfigError, ConnectError, NotFoundError
from spark_connect_rt.plugins.registry import PluginDesc, Plugins

# Java classes on ``plugin.path``, by the names in its jars: no JVM, nothing is loaded.
#
# Owns: which class is in which folder, also of jars without ``META-INF/services`` (Java's ``only_scan``).


_SUFFIX = ".class"


class PluginJars:
    """Finds the place of a class in folders of jars.

    ``PluginJars(["/plugins"]).location_of("io.debezium.connector.postgresql.PostgresConnector")``
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(folder) for folder in folders]

    def missing(self) -> list[str]:
        """Return what ``plugin.path`` names and is not there: folders, single jars."""
        return [str(folder) for folder in self._folders if not (folder.is_dir() or _is_jar(folder))]

    def location_of(self, name: str) -> str | None:
        """Return the plug-in's folder or jar that holds the class ``name`` (whole, or its last part); None: none."""
        return self._classes.get(name) or self._by_last_part.get(name)

    @cached_property
    def _classes(self) -> dict[str, str]:
        return {name: str(place) for place, name in self._named()}

    @cached_property
    def _by_last_part(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, place in self._classes.items():
            last = name.rpartition(".")[2]
            for word in {last, last.removesuffix("Connector"), last.removesuffix("Converter")}:
                found.setdefault(word, place)
        return found

    def _named(self) -> Iterator[tuple[Path, str]]:
        for place in self._places():
            jars = [place] if place.is_file() else sorted(place.rglob("*.jar"))
            for jar in jars:
                for entry in _entries(jar):
                    if entry.endswith(_SUFFIX) and not entry.startswith("META-INF/"):
                        yield place, entry.removesuffix(_SUFFIX).replace("/", ".")

    def _places(self) -> Iterator[Path]:
        for folder in self._folders:
            if _is_jar(folder):
                yield folder
            elif folder.is_dir():
                yield from sorted(path for path in folder.iterdir() if path.is_dir() or path.suffix == ".jar")


def _is_jar(path: Path) -> bool:
    """Return whether an element of ``plugin.path`` is a plug-in in one jar, as Java takes it, too."""
    return path.suffix == ".jar" and path.is_file()


def _entries(jar: Path) -> list[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return []  # the list of plug-ins says so


_OURS = "spark_connect_rt."
_APACHE = "org.apache.kafka."


class MigrationCatalog:
    """A worker's registry of plug-ins and its jars, as ``planning.migration`` asks for them."""

    def __init__(self, plugins: Plugins, jars: PluginJars) -> None:
        self._plugins = plugins
        self._jars = jars

    def find(self, name: str, version: str | None = None, runtime: str = "auto") -> PlannedPlugin | None:
        """Return the plug-in that a worker would run for this name; None if there is none."""
        wanted = f"{name}{RUNTIME_MARK}{runtime}" if runtime in (JAVA, PYTHON) else name
        try:
            found = self._plugins.find(versioned(wanted, version))
        except NotFoundError as error:
            place = self._jars.location_of(name)
            if place and runtime != PYTHON:
                return PlannedPlugin(name, JAVA, version, place)
            return self._of_another_version(name, version, str(error)) if runtime == "auto" else None
        except BadConfigError as error:
            return PlannedPlugin(name, "", problem=str(error))
        return _described(found)

    def _of_another_version(self, name: str, version: str | None, why: str) -> PlannedPlugin | None:
        if not version or self.find(name) is None:
            return None
        return PlannedPlugin(name, "", version, problem=why)

    def unread(self, name: str, config: Sequence[str]) -> Sequence[str]:
        """Return the settings of a configuration that the connector does not read; empty if its class is missing.

        Settings of groups that users name, such as `iceberg.catalog.*` and `delta.storage.*`, count as read.
        """
        try:
            connector_class = self._plugins.class_of(name)
            if not issubclass(connector_class, Connector):
                return []
            own = connector_class().config_def()
        except ConnectError:
            return []  # its class line says why
        known = (SINK if issubclass(connector_class, SinkConnector) else SOURCE) + own
        return known.unknown(dict.fromkeys([*config], ""), (*PASSED_ON, *FREE_PREFIXES, *CLIENT_PREFIXES, "connectrt."))


def _described(found: PluginDesc) -> PlannedPlugin:
    """Return a plug-in of the registry; a Python one under a Java class's name is its twin."""
    if found.is_java:
        return PlannedPlugin(found.java_class, JAVA, None, found.location)  # its version would be asked of a JVM
    twin = found.location == "bundled" and not found.java_class.startswith(_OURS)
    twin = twin or any(alias.startswith(("io.confluent.", "io.aiven.")) for alias in found.aliases)
    return PlannedPlugin(found.java_class, PYTHON, found.version, found.location, twin)
