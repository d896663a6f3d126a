"""What a config provider answered may have a time to live: what was configured with it is then restarted.

Java ``WorkerConfigTransformer``, which restarts the connector alone; a task's own secrets are as old, so here each
connector and each task is restarted, by the worker that runs it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from spark_connect_rt.api.config_provider import ConfigData, Resolve
from spark_connect_rt.base.concurrency import Threads, Timer
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.indirection import references
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.runtime.worker.events import Notify, ReloadDue

log = logging.getLogger(__name__)


class ConfigReloads:
    """Says when a run is due to be restarted."""

    def __init__(self, resolve: Resolve, notify: Notify, threads: Threads) -> None:
        self._resolve = resolve
        self._notify = notify
        self._threads = threads
        self._lock = threading.Lock()
        self._timers: dict[str | ConnectorTaskId, Timer] = {}

    def watch(self, item: str | ConnectorTaskId, key: object, resolved: ConfigData) -> None:
        """Take what a run was made from, the connector's settings among them. Any thread.

        What an earlier run of it was made from counts no more.
        """
        self.forget(item)
        if resolved.ttl_ms is None or resolved.get("config.action.reload", "restart").strip().lower() != "restart":
            return
        log.info("%s restarts in %d ms, when a value of a config provider expires", item, resolved.ttl_ms)
        timer = self._threads.later(resolved.ttl_ms, lambda: self._notify(ReloadDue(item, key)))
        with self._lock:
            self._timers[item] = timer

    def forget(self, item: str | ConnectorTaskId) -> None:
        """Nothing of it runs any more. Any thread."""
        with self._lock:
            timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()

    def watch_task(self, task: ConnectorTaskId, key: object, config: StoredConfig, own: StoredConfig) -> None:
        """Ask how long a task's settings may be used: it is the executor that resolves them for the task itself."""
        both = {**config.written(), **own.written()}
        if any(references(value) for value in both.values()):
            self._threads.start(f"config-ttl-{task}", lambda: self._ask(task, key, both))

    def _ask(self, task: ConnectorTaskId, key: object, config: Mapping[str, str]) -> None:
        try:
            resolved = self._resolve(config)
        except BaseException as error:  # noqa: BLE001 - the provider's code; the task itself fails by it, and says so
            log.warning(
                "task=%s is not restarted, although a value of a config provider expired: %s",
                task,
                type(error).__name__,
            )
            return
        self.watch(task, key, resolved)
