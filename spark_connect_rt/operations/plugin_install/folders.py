"""The folder that plug-ins are installed in: one child ``name-version`` each, which appears whole or not at all.

What is on its way lies in ``.staging-*``, what goes away in ``.removed-*``: both begin with a dot, so no search for
plug-ins sees them. Workers may share the folder; one at a time changes it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_connect_rt.base.cache import exclusive
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.plugin_install.sources import folder_name

MARKER = ".connectrt-plugin.json"
_LOCK = ".install.lock"


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One installed plug-in; also the group's record of it."""

    name: str
    version: str
    source: str  # coordinate, URL or requirement, with the version that was found
    kind: str  # maven, archive, python
    sha512: str  # of the archive; of a closure's jars together; empty: a Python requirement
    installed_by: str
    installed_at_ms: int
    left_out: tuple[str, ...] = ()  # jars that Connect provides
    plugins: tuple[str, ...] = ()  # class names found in its jars

    @property
    def folder(self) -> str:
        """Return the name of its folder."""
        return folder_name(self.name, self.version)


def decode_installed(text: str | bytes) -> InstalledPlugin:
    """Return the plug-in of a marker or record. Raises ValueError: it is invalid."""
    try:
        fields = json.loads(text)
        return InstalledPlugin(**{**fields, "left_out": tuple(fields["left_out"]), "plugins": tuple(fields["plugins"])})
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"not a valid record of a plug-in: {error}") from error


def encode_installed(plugin: InstalledPlugin) -> str:
    """Return a plug-in as JSON."""
    return json.dumps(asdict(plugin), sort_keys=True)


class PluginFolder:
    """One folder of installed plug-ins. Any thread, several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock that every change of the folder needs. Raises ConnectError: it cannot be written to."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = exclusive(self.path / _LOCK)
            lock.__enter__()
        except OSError as error:
            raise ConnectError(f"plug-ins cannot be installed in {self.path}: {error}", code="CRT-1164") from error
        try:
            self._sweep()
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Return a new folder on the same disk. If it is still there at the end, it is deleted."""
        draft = Path(tempfile.mkdtemp(prefix=".staging-", dir=self.path))
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def publish(self, draft: Path, plugin: InstalledPlugin) -> Path:
        """Give a finished folder its name, in one step. Under ``changing``."""
        (draft / MARKER).write_text(encode_installed(plugin), encoding="utf-8")
        draft.chmod(0o755)
        target = self.path / plugin.folder
        draft.rename(target)
        return target

    def installed(self) -> list[InstalledPlugin]:
        """Return every plug-in installed here, by name and version."""
        found: list[InstalledPlugin] = []
        for marker in self.path.glob(f"*/{MARKER}"):
            if marker.parent.name.startswith("."):
                continue
            try:
                found.append(decode_installed(marker.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                continue  # being removed by another process
        return sorted(found, key=lambda plugin: (plugin.name, plugin.version))

    def find(self, name: str, version: str) -> InstalledPlugin | None:
        """Return the plug-in of that name and version, None: there is none."""
        return next(
            (plugin for plugin in self.installed() if (plugin.name, plugin.version) == (name, version)),
            None,
        )

    def remove(self, plugin: InstalledPlugin) -> None:
        """Take a plug-in away. Under ``changing``."""
        gone = self.path / f".removed-{os.getpid()}-{plugin.folder}"
        try:
            (self.path / plugin.folder).rename(gone)
        except FileNotFoundError:
            return  # another worker, in a shared folder
        shutil.rmtree(gone, ignore_errors=True)

    def _sweep(self) -> None:
        """Delete what a killed process left."""
        for left in (*self.path.glob(".staging-*"), *self.path.glob(".removed-*")):
            shutil.rmtree(left, ignore_errors=True)
