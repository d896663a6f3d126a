"""The group's record of installed plug-ins: what is on its topic, folded. Pure.

Keys: ``plugin:<folder>`` holds a plug-in as its marker does, a tombstone removes it; ``worker:<id>`` holds how that
worker stands with each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from spark_connect_rt.operations.plugin_install.folders import InstalledPlugin, decode_installed, encode_installed
from spark_connect_rt.plugins.plugin_installs import InstallState
from spark_connect_rt.topics.compacted_log import LogRecord

_PLUGIN, _WORKER = "plugin:", "worker:"
States = Mapping[str, InstallState]
"""Folder -> how a worker stands with it."""


@dataclass(slots=True)
class GroupRecord:
    """What the topic says."""

    plugins: dict[str, InstalledPlugin] = field(default_factory=dict)  # by folder
    removed: set[str] = field(default_factory=set)  # folders
    workers: dict[str, dict[str, InstallState]] = field(default_factory=dict)

    def take(self, records: Iterable[LogRecord]) -> None:
        """Fold records in their order; what cannot be read is of a later version and left out."""
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            if key.startswith(_PLUGIN):
                self._take_plugin(key.removeprefix(_PLUGIN), record.value)
            elif key.startswith(_WORKER):
                self._take_worker(key.removeprefix(_WORKER), record.value)

    def _take_plugin(self, folder: str, value: bytes | None) -> None:
        if value is None:
            self.plugins.pop(folder, None)
            self.removed.add(folder)
            return
        try:
            plugin = decode_installed(value)
        except ValueError:
            return
        if plugin.folder == folder:  # else it would lead elsewhere than its key says
            self.plugins[folder] = plugin
            self.removed.discard(folder)

    def _take_worker(self, worker: str, value: bytes | None) -> None:
        self.workers.pop(worker, None)
        if value is not None:
            try:
                self.workers[worker] = {
                    folder: InstallState(**state) for folder, state in json.loads(value)["plugins"].items()
                }
            except (ValueError, TypeError, KeyError, AttributeError):
                return


def plugin_record(plugin: InstalledPlugin) -> tuple[bytes, bytes]:
    """Return the record that has every worker install a plug-in."""
    return f"{_PLUGIN}{plugin.folder}".encode(), encode_installed(plugin).encode()


def removal_record(folder: str) -> tuple[bytes, None]:
    """Return the record that has every worker remove a plug-in."""
    return f"{_PLUGIN}{folder}".encode(), None


def worker_record(worker: str, states: States) -> tuple[bytes, bytes | None]:
    """Return how a worker stands with each plug-in; with none: a tombstone."""
    value = {"plugins": {folder: asdict(state) for folder, state in states.items()}}
    return f"{_WORKER}{worker}".encode(), json.dumps(value, sort_keys=True).encode() if states else None
