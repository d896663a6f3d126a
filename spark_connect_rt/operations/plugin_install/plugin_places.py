"""Where ``connectrt plugins`` looks and acts: the workers of a cluster, over REST, or the folders of this machine."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlsplit

from spark_connect_rt.base.clock import SystemClock
from spark_connect_rt.cli.session import Session
from spark_connect_rt.config.listeners import is_loopback
from spark_connect_rt.config.plugin_install import PluginInstallSettings
from spark_connect_rt.engine.process_plugins import install_directory, plugins_of
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.install_token import read_token, token_file
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.operations.plugin_install.report import import_all, plugin_report
from spark_connect_rt.operations.plugin_install.sources import folder_name
from spark_connect_rt.plugins.plugin_installs import WantedPlugin
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.config_shapes import key_info
from spark_connect_rt.rest.json_values import as_json as json_of


class PluginPlace(Protocol):
    """A place of plug-ins; its answers have the shapes of REST."""

    @property
    def where(self) -> str:
        """Return where something was installed, as a sentence goes on: ``in FOLDER``."""

    def report(self, check: bool) -> Mapping[str, Any]:
        """Return ``GET /admin/plugins``; ``check``: import each one."""

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """Return ``GET /connector-plugins/NAME/config``. Raises BadRequestError: it declares no settings."""

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """Install one; return what was installed."""

    def prepare_java(self, name: str, version: str) -> None:
        """Let the first start of an installed Java plug-in cost less. Raises ConnectError, OSError: it will not."""

    def remove(self, name: str, version: str) -> None:
        """Remove one. Raises NotFoundError."""


class OnCluster:
    """The workers of a group: the one that is asked hands on to the others. Raises as the client does."""

    where = "on the worker that was asked. Every other worker of its group also installs it"

    def __init__(self, session: Session) -> None:
        self._session = session

    def report(self, check: bool) -> Mapping[str, Any]:
        """See PluginPlace; a running worker imports nothing for it."""
        return self._session.ask(management_calls.plugins_report())

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """See PluginPlace."""
        return self._session.ask(calls.plugin_settings(name, version))

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """See PluginPlace."""
        return self._session.ask(management_calls.install_plugin(json_of(wanted), self._token()))

    def prepare_java(self, name: str, version: str) -> None:
        """See PluginPlace; workers do it beside the first JVM that they start for it."""

    def remove(self, name: str, version: str) -> None:
        """See PluginPlace."""
        self._session.ask(management_calls.remove_plugin(name, version, self._token()))

    def _token(self) -> str:
        """Return the token of this user on this machine, for a worker here; nothing for one elsewhere."""
        hosts = [urlsplit(address).hostname or "" for address in self._session.client.bases("/admin/plugins")]
        if not all(map(is_loopback, hosts)):
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
        """See PluginPlace."""
        return f"in {self._installer.folder.path}"

    def report(self, check: bool) -> Mapping[str, Any]:
        """See PluginPlace."""
        found = plugins_of(self._settings)
        if check:
            import_all(found)
        report: dict[str, Any] = plugin_report(found)
        report["installed"] = [json_of(plugin) for plugin in self._installer.folder.installed()]
        return report

    def settings_of(self, name: str, version: str) -> Sequence[Mapping[str, Any]]:
        """See PluginPlace."""
        found = plugins_of(self._settings).class_of(f"{name}@{version}" if version else name)
        definition = getattr(found(), "config_def", None)
        if definition is None:
            raise BadRequestError(f"{name} has no settings")
        return [json_of(key_info(key)) for key in definition()]

    def install(self, wanted: WantedPlugin) -> Mapping[str, Any]:
        """See PluginPlace."""
        done: Mapping[str, Any] = json_of(self._installer.install(wanted, _who()))
        return done

    def prepare_java(self, name: str, version: str) -> None:
        """See PluginPlace."""
        from spark_connect_rt.engine.build_archives import make_host_archive  # pyspark: not for every word

        make_host_archive([self._installer.folder.path / folder_name(name, version)])

    def remove(self, name: str, version: str) -> None:
        """See PluginPlace."""
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
