"""The leader's own duties: session keys (KIP-507) and statuses of what is configured no more.

Runs on the tick thread. Java ``DistributedHerder`` tick step 4 and ``updateDeletedConnectorStatus``.
"""

from __future__ import annotations

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.protocol.config_records import SessionKey
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.protocol.subprotocol import ConnectProtocol
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.story import Story
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict


class Leading:
    """The step ``lead``."""

    def __init__(self, deps: HerderDependencies, state: GroupState, story: Story) -> None:
        self._deps = deps
        self._state = state
        self._story = story
        self._cleaned_generation = -1
        self._known: set[str] = set()
        self._deleted: dict[str, int] = {}  # connector -> generations in which its statuses are still looked for
        self._key_expires_ms: int | None = None  # monotonic
        self._key_seen: SessionKey | None = None

    def lead(self, now_ms: int) -> Verdict:
        """Do what only the leader does, if this worker leads."""
        state = self._state
        if not (state.resolved and state.is_leader) or state.stopping:
            return NOTHING
        if self._cleaned_generation != state.generation:
            self._cleaned_generation = state.generation
            self._forget_old_statuses()
        if state.protocol is not ConnectProtocol.SESSIONED:
            return Verdict("leads")
        if not self._key_must_change(now_ms):
            return Verdict("leads", self._key_expires_ms)
        return self._write_key(now_ms)

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

    def _write_key(self, now_ms: int) -> Verdict:
        settings = self._deps.settings
        secret = self._deps.new_key(settings.key_size_bytes)
        key = SessionKey(secret, settings.key_algorithm, self._deps.clock.now_ms())
        with self._story.stage("writing a new session key to the config topic"):
            try:
                self._deps.config_store.put_session_key(key)
            except RetriableError as error:
                self._state.can_read_config = False
                return Verdict(f"session key not written: {error}", now_ms + 1_000)
        return Verdict("leads; wrote a new session key", wake_at_ms=now_ms)

    def _forget_old_statuses(self) -> None:
        store, snapshot = self._deps.status_store, self._state.adopted
        self._note_deleted(set(snapshot.connectors()))
        if self._deleted:
            # Last words of tasks that just stopped may be on their way: read them before they are removed.
            with self._story.stage("flushing updates to the status topic"):
                store.flush(self._deps.settings.worker_sync_timeout_ms)
        for name in sorted(store.connectors() | self._deleted.keys()):
            if not snapshot.contains(name):
                if store.connector(name) is not None:
                    store.remove_connector(name)
                store.reset_topics(name)
            configured = set(snapshot.tasks(name))
            for number in store.tasks(name):
                task = ConnectorTaskId(name, number)
                if task not in configured and name not in snapshot.inconsistent:
                    store.remove_task(task)

    def _note_deleted(self, connectors: set[str]) -> None:
        # Two generations: in the first one a Java worker may only learn that it must stop the deleted work.
        self._deleted = {name: left - 1 for name, left in self._deleted.items() if left > 1}
        self._deleted.update(dict.fromkeys(self._known - connectors, 2))
        self._known = connectors
