"""Installed plug-ins of a group: this worker's folder, kept as the group's record on a compacted topic says.

Owns the thread that follows the topic. The topic is made at the first install; until then the thread only looks whether
it is there. A failed installation is tried again, and reported in the log, on the topic and in GET /admin/plugins.
Running connectors continue whatever is wrong with the topic or the network.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.supervision import ended
from spark_connect_rt.errors import ConnectError, NotFoundError, PluginInUseError
from spark_connect_rt.operations.plugin_install.folders import InstalledPlugin, decode_installed, encode_installed
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.plugins.interfaces import FAILED, INSTALLED, InstalledInfo, InstallState, WantedPlugin
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord, LogSource

# The group's record of installed plug-ins: the folded contents of its topic. Pure.
#
# Keys: ``plugin:<folder>`` holds a plug-in as its marker does, a tombstone removes it; ``worker:<id>`` holds how that
# worker has of each.


_PLUGIN, _WORKER = "plugin:", "worker:"
States = Mapping[str, InstallState]
"""Folder -> its state on a worker."""


@dataclass(slots=True)
class GroupRecord:
    """The contents of the topic."""

    plugins: dict[str, InstalledPlugin] = field(default_factory=dict)  # by folder
    removed: set[str] = field(default_factory=set)  # folders
    workers: dict[str, dict[str, InstallState]] = field(default_factory=dict)

    def take(self, records: Iterable[LogRecord]) -> None:
        """Fold records in their order. A record that cannot be read is of a later version and left out."""
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
    """Return the state of each plug-in on a worker; without any: a tombstone."""
    value = {"plugins": {folder: asdict(state) for folder, state in states.items()}}
    return f"{_WORKER}{worker}".encode(), json.dumps(value, sort_keys=True).encode() if states else None


LOOK_S = 3.0  # between two looks for a topic that is not there
RETRY_FIRST_S, RETRY_MAX_S = 10.0, 600.0
_APPEND_LIMIT_MS = 30_000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failure:
    record: InstalledPlugin
    reason: str
    tries: int
    again_s: float  # monotonic


class GroupInstalls:
    """PluginInstalls of one worker. Any thread."""

    def __init__(
        self,
        worker: str,
        installer: Installer,
        refresh: Callable[[], None],
        users_of: Callable[[str], Sequence[str]],
        group_log: LogSource | None = None,
    ) -> None:
        """Begin with what is in the folder.

        Args:
            worker: its id in the group.
            refresh: has the registries of this process search again.
            users_of: from a plug-in's folder (path) to the connectors that use it.
            group_log: the group's topic; None: this worker is alone.
        """
        self._worker = worker
        self._installer = installer
        self._refresh = refresh
        self._users_of = users_of
        self._group_log = group_log
        self._changed = threading.Condition()
        self._record = GroupRecord()
        self._failures: dict[str, _Failure] = {}
        self._log: CompactedLog | None = None
        self._opening = threading.Lock()
        self._stopping = False
        self._problem = self._log_ended = ""
        self._news = self._followed = 0  # changes of the record: that came, that the thread has seen
        self._seen = {plugin.folder for plugin in installer.folder.installed()}  # by the registries of this process
        self._said: dict[str, InstallState] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Follow the group's record from now on."""
        if self._group_log is not None:
            self._thread = threading.Thread(target=self._run, name="plugin-installs", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Follow it no more; an install in progress is left to end with the process."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(2.0)
        self._close_log()

    # -- PluginInstalls

    def install(self, wanted: WantedPlugin, who: str) -> InstalledInfo:
        """Install here, then have every worker of the group do so."""
        self._opened()
        plugin = self._installer.install(wanted, who)
        self._look_again()
        try:
            self._append(plugin_record(plugin))
        except ConnectError as error:
            raise ConnectError(
                f"{plugin.folder} is installed on this worker, but the others were not notified: {error}. "
                "Remove it and install it again.",
                code=error.code,
            ) from error
        return next(info for info in self.installed() if (info.name, info.version) == (plugin.name, plugin.version))

    def remove(self, name: str, version: str, who: str) -> None:
        """Remove here, then have every worker of the group do so."""
        is_recorded = self._group_log is not None and self._group_log.exists()
        if is_recorded:
            self._opened()
        with self._changed:
            recorded = next(
                (
                    installed
                    for installed in self._record.plugins.values()
                    if (installed.name, installed.version) == (name, version)
                ),
                None,
            )
        plugin = self._installer.folder.find(name, version) or recorded
        if plugin is None:
            known = ", ".join(f"{info.name} {info.version}" for info in self.installed()) or "none"
            raise NotFoundError(f"plug-in {name} {version} is not installed. Installed: {known}")
        if users := self._users_of(str(self._installer.folder.path / plugin.folder)):
            raise PluginInUseError(
                f"plug-in {plugin.folder} cannot be removed: it is used by {', '.join(users)}. "
                "Delete or change them first"
            )
        if is_recorded:
            self._append(removal_record(plugin.folder))
        self._remove_here(plugin, who)

    def installed(self) -> Sequence[InstalledInfo]:
        """Return what is installed here or recorded by the group."""
        here = {plugin.folder: plugin for plugin in self._installer.folder.installed()}
        with self._changed:
            recorded = dict(self._record.plugins)
            workers = {worker: dict(states) for worker, states in self._record.workers.items()}
            workers[self._worker] = self._states(set(here))
        found = sorted(
            {**recorded, **here}.values(),
            key=lambda plugin: (plugin.name, plugin.version),
        )
        return [
            InstalledInfo(
                plugin.name,
                plugin.version,
                plugin.source,
                plugin.kind,
                plugin.sha512,
                plugin.installed_by,
                plugin.installed_at_ms,
                plugin.left_out,
                plugin.plugins,
                plugin.folder in recorded,
                {
                    worker: states[plugin.folder]
                    for worker, states in sorted(workers.items())
                    if plugin.folder in states
                },
            )
            for plugin in found
        ]

    def problem(self) -> str:
        """Return the present problem in a sentence; empty: there is none."""
        gone = "" if self._stopping else ended(self._thread, "the group's plug-ins are not installed any more")
        return gone or self._problem

    # -- the thread

    def _run(self) -> None:
        while not self._stopping:
            wait_s = RETRY_FIRST_S
            try:
                if self._log is None and not (self._group_log is not None and self._group_log.exists()):
                    wait_s = LOOK_S
                else:
                    self._opened()
                    wait_s = self._reconcile()
                self._problem = ""
            except Exception as error:  # the top of a thread: connectors continue, the record is followed again later
                self._problem = f"{type(error).__name__}: {error}"
                log.exception("cannot follow the group's plug-in record, retrying")
                self._close_log()
            with self._changed:  # records that came while the record was followed count, too
                self._changed.wait_for(lambda: self._stopping or self._news != self._followed, wait_s)

    def _reconcile(self) -> float:
        """Install and remove what the record says; return the seconds until there is something to try again."""
        with self._changed:
            self._followed = self._news
            if self._log_ended:
                raise ConnectError(self._log_ended)
            record, removed = dict(self._record.plugins), set(self._record.removed)
        here = {installed.folder: installed for installed in self._installer.folder.installed()}
        for folder in removed & set(here):
            self._remove_here(here[folder], here[folder].installed_by)
        self._failures = {
            folder: failure for folder, failure in self._failures.items() if record.get(folder) == failure.record
        }
        for folder, plugin in record.items():
            failed = self._failures.get(folder)
            if self._stopping or (failed is not None and failed.again_s > time.monotonic()):
                continue
            if folder not in here or here[folder].sha512 != plugin.sha512:
                self._try(plugin, failed.tries if failed else 0)
        self._see_shared()
        # only now: until the registries have searched, what was repaired is failed still
        there = {installed.folder: installed.sha512 for installed in self._installer.folder.installed()}
        self._failures = {
            folder: failure for folder, failure in self._failures.items() if there.get(folder) != failure.record.sha512
        }
        self._say_states()
        due = [failure.again_s - time.monotonic() for failure in self._failures.values()]
        return max(0.1, min([*due, RETRY_MAX_S]))

    def _see_shared(self) -> None:
        """Have the registries search again for what another worker did in a folder that both share."""
        if {plugin.folder for plugin in self._installer.folder.installed()} != self._seen:
            self._look_again()

    def _look_again(self) -> None:
        """Have the registries search, and only then say that what they found is installed here."""
        here = {plugin.folder for plugin in self._installer.folder.installed()}
        self._refresh()
        self._seen = here

    def _try(self, plugin: InstalledPlugin, tries: int) -> None:
        try:
            self._installer.install_recorded(plugin)
        except Exception as error:  # noqa: BLE001 - a failed one must not block the others
            # With jitter: each worker of the group fetches from the same server.
            wait_s = Backoff(RETRY_FIRST_S, RETRY_MAX_S).wait(tries + 1, random.random())
            self._failures[plugin.folder] = _Failure(plugin, str(error), tries + 1, time.monotonic() + wait_s)
            log.warning(
                "plugin=%s cannot be installed on this worker, retrying in %.0f s: %s", plugin.folder, wait_s, error
            )

    def _remove_here(self, plugin: InstalledPlugin, who: str) -> None:
        self._installer.remove(plugin, who)
        self._look_again()

    def _say_states(self) -> None:
        with self._changed:
            states = self._states({plugin.folder for plugin in self._installer.folder.installed()})
            following = self._log
        if states != self._said and following is not None and (states or self._said):
            following.append([worker_record(self._worker, states)])
        self._said = states

    def _states(self, here: set[str]) -> dict[str, InstallState]:
        failures = {folder: InstallState(FAILED, failure.reason) for folder, failure in self._failures.items()}
        return {**{folder: InstallState(INSTALLED) for folder in sorted(here & self._seen)}, **failures}

    # -- the topic

    def _opened(self) -> CompactedLog | None:
        """Return the log, opened: the topic is made if it is not there. None: this worker is alone."""
        if self._group_log is None:
            return None
        with self._opening:
            if self._log is None:
                opened = self._group_log.open(self._on_log_end)
                with self._changed:
                    self._record, self._log_ended = GroupRecord(), ""
                opened.start(self._on_records)
                self._log = opened
            return self._log

    def _close_log(self) -> None:
        with self._opening:
            opened, self._log = self._log, None
        if opened is not None:
            opened.stop()

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        with self._changed:
            self._record.take(records)
            self._news += 1
            self._changed.notify_all()

    def _on_log_end(self, why: str) -> None:
        with self._changed:
            self._log_ended = why
            self._news += 1
            self._changed.notify_all()

    def _append(self, record: tuple[bytes, bytes | None]) -> None:
        """Append a record and read it; with a new log if that of before ended meanwhile. Raises ConnectError."""
        for is_last in (False, True):
            following = self._opened()
            if following is None:
                return
            try:
                following.append([record])
                following.read_to_end(_APPEND_LIMIT_MS)
                return
            except ConnectError:
                if is_last:
                    raise
                self._close_log()
