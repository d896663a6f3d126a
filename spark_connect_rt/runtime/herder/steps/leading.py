"""The leader's own duties: the config topic for itself, session keys (KIP-507), statuses of what is gone.

Runs on the tick thread. Java ``DistributedHerder`` tick step 4 and ``updateDeletedConnectorStatus``.
"""

from __future__ import annotations

import logging

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import FencedError
from spark_connect_rt.group.subprotocol import ConnectProtocol
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.topics.config_records import SessionKey

log = logging.getLogger(__name__)

CLAIM_LIMIT_MS = 30_000
CLAIM_BACKOFF_MS = 250  # Java CONFIG_TOPIC_WRITE_PRIVILEGES_BACKOFF_MS
KEY_BACKOFF_MS = 1_000


class LeaderDuties:
    """The steps ``claim write privileges`` and ``lead``."""

    def __init__(self, deps: HerderDependencies, state: GroupState, calls: TopicCalls) -> None:
        self._deps = deps
        self._state = state
        self._calls = calls
        self._claim_again_ms = 0
        self._cleaned_generation = -1
        self._known: set[str] = set()
        self._deleted: dict[str, int] = {}  # connector -> generations in which its statuses are still looked for
        self._key_expires_ms: int | None = None  # monotonic
        self._key_again_ms = 0
        self._key_seen: SessionKey | None = None

    def claim(self, now_ms: int) -> Verdict:
        """Shut earlier leaders out of the config topic, where the group is set up so (KIP-618).

        Runs before the assignment is adopted: transactions that a dead leader left open would block every worker's
        reading.
        """
        state, store = self._state, self._deps.config_store
        if not state.member_id or state.stopping:
            return NOTHING
        if not state.is_leader:
            if not self._calls.busy:
                store.release_write_privileges()
            return NOTHING
        if store.may_lead():
            return NOTHING
        if state.fenced_generation == state.generation:
            return Verdict("does not write the config topic: fenced")
        if self._calls.busy:
            return Verdict("will claim the config topic")
        if now_ms < self._claim_again_ms:
            return Verdict("will claim the config topic", self._claim_again_ms)
        stage = "reclaiming write privileges for the config topic"
        self._calls.begin(stage, lambda: store.claim_write_privileges(CLAIM_LIMIT_MS), self._claimed)
        return Verdict("claims the config topic")

    def _claimed(self, error: Exception | None, now_ms: int) -> None:
        if error is not None:
            log.warning("worker=%s the config topic cannot be claimed: %s", self._deps.settings.worker_id, error)
            self._claim_again_ms = now_ms + CLAIM_BACKOFF_MS

    def lead(self, now_ms: int) -> Verdict:
        """Do what only the leader does, if this worker leads."""
        state = self._state
        if not (state.resolved and state.is_leader) or state.stopping:
            return NOTHING
        if self._cleaned_generation != state.generation and not self._calls.busy:
            self._cleaned_generation = state.generation
            self._clean_up()
        if state.protocol is not ConnectProtocol.SESSIONED:
            return Verdict("leads")
        if not self._key_must_change(now_ms):
            return Verdict("leads", self._key_expires_ms)
        if self._calls.busy or not self._deps.config_store.may_lead():
            return Verdict("leads; will write a new session key")
        if now_ms < self._key_again_ms:
            return Verdict("leads; will write a new session key", self._key_again_ms)
        self._write_key()
        return Verdict("leads; writes a new session key")

    def _key_must_change(self, now_ms: int) -> bool:
        settings, key = self._deps.settings, self._deps.config_store.snapshot().session_key
        if key is None or key.algorithm != settings.key_algorithm or len(key.key) != settings.key_size_bytes:
            return True
        if key is not self._key_seen:
            self._key_seen = key
            age_ms = max(0, self._deps.clock.now_ms() - key.creation_timestamp_ms)
            ttl_ms = settings.key_ttl_ms
            self._key_expires_ms = now_ms + ttl_ms - age_ms if ttl_ms > 0 else None
        return self._key_expires_ms is not None and now_ms >= self._key_expires_ms

    def _write_key(self) -> None:
        settings, store = self._deps.settings, self._deps.config_store
        secret = self._deps.new_key(settings.key_size_bytes)
        key = SessionKey(secret, settings.key_algorithm, self._deps.clock.now_ms())
        stage = "writing a new session key to the config topic"
        self._calls.begin(stage, lambda: store.put_session_key(key), self._key_written)

    def _key_written(self, error: Exception | None, now_ms: int) -> None:
        if error is None:
            return
        log.warning("worker=%s the session key cannot be written: %s", self._deps.settings.worker_id, error)
        self._key_again_ms = now_ms + KEY_BACKOFF_MS
        if isinstance(error, FencedError):
            self._state.stop_leading()
        else:
            self._state.can_read_config = False  # it may be there all the same: read before the next try

    def _clean_up(self) -> None:
        """Forget the statuses of what is configured no more."""
        self._note_deleted(set(self._state.adopted.connectors()))
        if not self._deleted:
            self._forget_old_statuses()
            return
        # Last words of tasks that just stopped may be on their way: read them before they are removed.
        store, limit_ms = self._deps.status_store, self._deps.settings.worker_sync_timeout_ms

        def flushed(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                log.warning(
                    "worker=%s the statuses cannot be read to their end: %s", self._deps.settings.worker_id, error
                )
            if self._state.is_leader:
                self._forget_old_statuses()

        self._calls.begin("flushing updates to the status topic", lambda: store.flush(limit_ms), flushed)

    def _forget_old_statuses(self) -> None:
        store, snapshot = self._deps.status_store, self._state.adopted
        for name in sorted((store.connectors() | self._deleted.keys()) - snapshot.connector_configs.keys()):
            if store.connector(name) is not None:
                store.remove_connector(name)
            store.reset_topics(name)
        for name in sorted(store.with_tasks() - snapshot.inconsistent):
            configured = set(snapshot.tasks(name))
            for number in store.tasks(name):
                task = ConnectorTaskId(name, number)
                if task not in configured:
                    store.remove_task(task)

    def _note_deleted(self, connectors: set[str]) -> None:
        # Two generations: in the first one a Java worker may only learn that it must stop the deleted work.
        self._deleted = {name: left - 1 for name, left in self._deleted.items() if left > 1}
        self._deleted.update(dict.fromkeys(self._known - connectors, 2))
        self._known = connectors
