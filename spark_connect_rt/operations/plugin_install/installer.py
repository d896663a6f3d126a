"""Installs one plug-in into the folder of plug-ins: fetch, check, complete, publish. Blocks; the network is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spark_connect_rt.errors import AlreadyExistsError, BadRequestError
from spark_connect_rt.operations.plugin_install.downloads import (
    check_sha512,
    fetch,
    sha512_of,
    sha512_of_files,
    too_large,
)
from spark_connect_rt.operations.plugin_install.folders import InstalledPlugin, PluginFolder
from spark_connect_rt.operations.plugin_install.maven_closure import copy_closure
from spark_connect_rt.operations.plugin_install.provided import left_out
from spark_connect_rt.operations.plugin_install.python_packages import install_packages
from spark_connect_rt.operations.plugin_install.service_files import complete_service_files
from spark_connect_rt.operations.plugin_install.sources import (
    PluginSource,
    SourceKind,
    check_allowed,
    folder_name,
    parse_source,
)
from spark_connect_rt.operations.plugin_install.unpack import UNSAFE, unpack
from spark_connect_rt.plugins.plugin_installs import WantedPlugin

audit = logging.getLogger("spark_connect_rt.audit")


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What lies in a staging folder."""

    source: str
    version: str
    sha512: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installer:
    """Installs and removes on this machine. Any thread; one change at a time."""

    folder: PluginFolder
    allowed: Sequence[str]
    limit_bytes: int
    now_ms: Callable[[], int]

    def install(self, request: WantedPlugin, who: str) -> InstalledPlugin:
        """Install a plug-in. When this raises, nothing has changed.

        Raises AlreadyExistsError, BadRequestError, ForbiddenError (not allowed), NotFetchedError, ConnectError.
        """
        audit.info("plug-in install requested by=%s source=%s sha512=%s", who, request.source, request.sha512 or "-")
        try:
            plugin = self._install(request, who)
        except Exception as error:
            audit.warning("plug-in install rejected by=%s source=%s: %s", who, request.source, error)
            raise
        audit.info("plug-in installed by=%s folder=%s sha512=%s", who, plugin.folder, plugin.sha512 or "-")
        return plugin

    def install_recorded(self, record: InstalledPlugin) -> InstalledPlugin:
        """Install what another worker of the group has, unless it is here. Raises as ``install``."""
        found = self.folder.find(record.name, record.version)
        if found is not None:
            check_sha512(f"{found.folder}, which is already installed,", found.sha512, record.sha512)
            return found
        request = WantedPlugin(record.source, record.sha512, record.name, record.version)
        return self.install(request, record.installed_by)

    def remove(self, plugin: InstalledPlugin, who: str) -> None:
        """Delete a plug-in's folder."""
        with self.folder.changing():
            self.folder.remove(plugin)
        audit.info("plug-in removed by=%s folder=%s", who, plugin.folder)

    def _install(self, request: WantedPlugin, who: str) -> InstalledPlugin:
        source = self._source(request)
        with self.folder.changing():
            self._refuse_taken(request.name or source.name, request.version or source.version)
            with self.folder.staging() as draft:
                content = draft / "content"
                content.mkdir()
                fetched = self._fetch(source, request.sha512, draft, content)
                name, version = request.name or source.name, request.version or fetched.version
                folder_name(name, version)
                self._refuse_taken(name, version)
                services = complete_service_files(content) if any(content.rglob("*.jar")) else {}
                classes = tuple(sorted({class_name for names in services.values() for class_name in names}))
                _refuse_empty(source, content, classes)
                plugin = InstalledPlugin(
                    name,
                    version,
                    fetched.source,
                    source.kind.value,
                    fetched.sha512,
                    who,
                    self.now_ms(),
                    fetched.left_out,
                    classes,
                )
                self.folder.publish(content, plugin)
                return plugin

    def _source(self, request: WantedPlugin) -> PluginSource:
        text = request.source.strip()
        path = Path(text.removeprefix("file:") if text.startswith("file:") and "://" not in text else text)
        absolute = str(path.resolve())  # without "..", so that a pattern of allowed folders means what it says
        source = parse_source(f"file:{absolute}" if text.startswith("file:/") else text, [absolute])
        check_allowed(source, self.allowed)
        return source

    def _refuse_taken(self, name: str, version: str) -> None:
        if (self.folder.path / folder_name(name, version)).exists():
            raise AlreadyExistsError(f"{folder_name(name, version)} is already installed in {self.folder.path}")

    def _fetch(self, source: PluginSource, sha512: str, draft: Path, content: Path) -> _Fetched:
        if source.kind is SourceKind.MAVEN:
            return self._fetch_closure(source, sha512, content)
        if source.is_url:
            archive = draft / source.file_name

            def check(url: str) -> None:
                check_allowed(replace(source, text=parse_url(url)), self.allowed)

            fetch(source.text, archive, self.limit_bytes, check)
            found = sha512_of(archive)
            check_sha512(source.text, found, sha512)
            if source.kind is SourceKind.ARCHIVE:
                unpack(archive, content, self.limit_bytes)
            else:
                install_packages(str(archive), source.name, content)
                self._refuse_large(source, content)
            return _Fetched(source.text, source.version, found)
        if sha512:
            raise BadRequestError(
                "a Python requirement has no single SHA-512. Give the URL of its wheel, or leave out the SHA-512"
            )
        own = install_packages(source.text, source.name, content)[0]
        self._refuse_large(source, content)
        return _Fetched(own, own.partition("==")[2], "")

    def _fetch_closure(self, source: PluginSource, sha512: str, content: Path) -> _Fetched:
        version, jars = copy_closure(source.text, content, self.limit_bytes)
        out = left_out(jars, source.name)
        for name in out:
            (content / name).unlink()
        found = sha512_of_files(content, [name for name in jars if name not in out])
        check_sha512(f"{source.text} with its dependencies", found, sha512)
        group = source.text.partition(":")[0]
        return _Fetched(f"{group}:{source.name}:{version}", version, found, tuple(out))

    def _refuse_large(self, source: PluginSource, content: Path) -> None:
        if sum(file.stat().st_size for file in content.rglob("*") if file.is_file()) > self.limit_bytes:
            raise too_large(source.text, self.limit_bytes)


def parse_url(url: str) -> str:
    """Return a redirect's URL if a plug-in may come from such a one. Raises BadRequestError."""
    if not url.startswith(("http://", "https://")):
        raise BadRequestError(f"{url}: a redirect must lead to an http or https URL")
    return url


def _refuse_empty(source: PluginSource, content: Path, classes: Sequence[str]) -> None:
    """Raise BadRequestError unless there is something in it that can be a plug-in."""
    if classes or any(content.glob("*.dist-info/entry_points.txt")) or (content / "entry_points.txt").is_file():
        return
    raise BadRequestError(
        f"{source.text} contains no plug-in: no jar with a Kafka Connect plug-in class, and no entry point in a "
        "group of this product",
        code=UNSAFE,
    )
