"""The step that says which tasks of this worker move nothing though there is work, or wait to be hosted (not in Java).

Owns what was said last, so that each change is one status, one line of the event log. What counts as motionless is
runtime.progress's; no state is ever changed by it.
"""

from __future__ import annotations

import logging

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.steps.runtime_herder_steps_health import health_of
from spark_connect_rt.runtime.herder.tick import Verdict
from spark_connect_rt.runtime.progress import Stall, stall_of, unhosted_text
from spark_connect_rt.runtime.worker.worker import Worker

log = logging.getLogger(__name__)

LOOK_EACH_MS = 1_000


class Watching:
    """The step ``watch progress``: reports tasks that move nothing though there is work."""

    def __init__(self, deps: HerderDependencies, worker: Worker) -> None:
        self._deps = deps
        self._worker = worker
        self._look_at_ms = 0
        self._stalled: dict[ConnectorTaskId, Stall] = {}
        self._timeouts: dict[str, tuple[StoredConfig | None, int]] = {}  # connector -> its config, the limit in it

    def watch(self, now_ms: int) -> Verdict:
        """Look at every running task, once a second."""
        if now_ms < self._look_at_ms:
            return Verdict()
        self._look_at_ms = now_ms + LOOK_EACH_MS
        found: dict[ConnectorTaskId, Stall] = {}
        for task, movement in self._worker.movements().items():
            stall = stall_of(movement, now_ms, self._timeout_ms(task.connector))
            if stall is not None:
                found[task] = stall
        reasons = [self._say(task, found.get(task), now_ms) for task in sorted(found.keys() | self._stalled.keys())]
        self._stalled = found
        return Verdict("; ".join(filter(None, reasons)))

    def unhosted(self, now_ms: int) -> str:
        """Return what is to be said of tasks that wait for executors; empty: none does. Any thread."""
        return unhosted_text({str(task): stall for task, stall in self._stalled.items()}, now_ms)

    def _say(self, task: ConnectorTaskId, stall: Stall | None, now_ms: int) -> str:
        before = self._stalled.get(task)
        if before == stall or (before and stall and before.reason == stall.reason):
            return ""
        if stall is None:
            self._worker.note(task, {})
            sentence = f"task {task} moves again, or is not running any more"
            self._deps.record_event("state", sentence, connector=task.connector, task=task.task)
            return sentence
        since_ms = self._deps.clock.now_ms() - (now_ms - stall.since_ms)
        self._worker.note(task, {"progress": {"since_ms": since_ms, "reason": stall.reason}})
        log.warning("task=%s moves nothing: %s", task, stall.reason)
        sentence = f"task {task} moves nothing though there is work: {stall.reason}"
        details = {"stalled": stall.reason, "since_ms": since_ms}
        self._deps.record_event("state", sentence, connector=task.connector, task=task.task, details=details)
        return sentence

    def _timeout_ms(self, connector: str) -> int:
        config = self._deps.config_store.snapshot().connector_config(connector)
        known = self._timeouts.get(connector)
        if known is None or known[0] is not config:
            settings = health_of(self._deps, config or NO_SETTINGS)
            known = self._timeouts[connector] = (config, settings.task_progress_timeout_ms)
        return known[1]
