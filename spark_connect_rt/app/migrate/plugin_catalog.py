"""Looks classes up as a worker with this file would, and in jars that no service file names."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.api.connector import Connector, SinkConnector
from spark_connect_rt.api.plugin_modules import RUNTIME_MARK, versioned
from spark_connect_rt.app.migrate.findings import JAVA, PYTHON, Found
from spark_connect_rt.app.migrate.plugin_jars import PluginJars
from spark_connect_rt.config.connector_config import PASSED_ON, SINK, SOURCE
from spark_connect_rt.errors import BadConfigError, ConnectError, NotFoundError
from spark_connect_rt.plugins.registry import PluginDesc, Plugins

_OURS = "spark_connect_rt."
_APACHE = "org.apache.kafka."


class MigrationCatalog:
    """A worker's registry of plug-ins and its jars, as ``planning.migration`` asks for them."""

    def __init__(self, plugins: Plugins, jars: PluginJars) -> None:
        self._plugins = plugins
        self._jars = jars

    def find(self, name: str, version: str | None = None, runtime: str = "auto") -> Found | None:
        """See Catalog.find."""
        wanted = f"{name}{RUNTIME_MARK}{runtime}" if runtime in (JAVA, PYTHON) else name
        try:
            found = self._plugins.find(versioned(wanted, version))
        except NotFoundError as error:
            place = self._jars.location_of(name)
            if place and runtime != PYTHON:
                return Found(name, JAVA, version, place)
            return self._of_another_version(name, version, str(error)) if runtime == "auto" else None
        except BadConfigError as error:
            return Found(name, "", problem=str(error))
        return _described(found)

    def _of_another_version(self, name: str, version: str | None, why: str) -> Found | None:
        if not version or self.find(name) is None:
            return None
        return Found(name, "", version, problem=why)

    def unread(self, name: str, config: Sequence[str]) -> Sequence[str]:
        """See Catalog.unread."""
        try:
            connector_class = self._plugins.class_of(name)
            if not issubclass(connector_class, Connector):
                return []
            own = connector_class().config_def()
        except ConnectError:
            return []  # its class line says why
        known = (SINK if issubclass(connector_class, SinkConnector) else SOURCE) + own
        return known.unknown(dict.fromkeys([*config], ""), (*PASSED_ON, "connectrt."))


def _described(found: PluginDesc) -> Found:
    """Return a plug-in of the registry; a Python one under a Java class's name is its twin."""
    if found.is_java:
        return Found(found.java_class, JAVA, None, found.location)  # its version would be asked of a JVM
    twin = found.location == "bundled" and not found.java_class.startswith(_OURS)
    twin = twin or any(alias.startswith(("io.confluent.", "io.aiven.")) for alias in found.aliases)
    return Found(found.java_class, PYTHON, found.version, found.location, twin)
