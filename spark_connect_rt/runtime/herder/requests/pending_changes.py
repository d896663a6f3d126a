"""Ends changes of two writes whose worker died between them (ours): what was begun is finished, or leaves nothing.

Before the first write a record of the config topic says what is under way, and who does it; the last write takes it
away. A connector that was being created where it is to begin (KIP-995) is not created: the offsets of its name are put
back. One that was stopped to have its offsets set back is wanted again as it was. Any worker knows of its own earlier
process; of a worker that is gone the leader knows.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.requests.creating import Beginning
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.herder.topic_calls import TopicCalls
from spark_connect_rt.topics.config_records import PendingChange
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.target_state import TargetState

LONGEST_MS = 300_000  # a change that takes longer is not under way any more, though its worker lives
RETRY_MS = 10_000
GIVEN_UP_MS = 900_000  # old offsets that cannot be put back must not keep the name for ever

log = logging.getLogger(__name__)


class PendingChanges:
    """The step ``end interrupted changes``."""

    def __init__(
        self, deps: HerderDependencies, state: GroupState, calls: TopicCalls, wakeup: Callable[[], None]
    ) -> None:
        self._deps = deps
        self._state = state
        self._calls = calls
        self._wakeup = wakeup
        self._run = uuid.uuid4().hex[:8]  # of this process: a worker that is started again has its address
        self._ending: set[str] = set()
        self._again_ms: dict[str, int] = {}
        self._since_ms: dict[str, int] = {}

    def begun(
        self,
        *,
        target: TargetState | None = None,
        config: Mapping[str, str] | None = None,
        before: Sequence[OffsetPair] = (),
    ) -> PendingChange:
        """Return what is written before a change of this worker. Any thread."""
        url, now_ms = self._deps.settings.worker_url, self._deps.clock.now_ms()
        return PendingChange(url, self._run, now_ms, target.value if target else None, config, tuple(before))

    def end(self, now_ms: int) -> Verdict:
        """End what nobody works on any more."""
        pending = self._deps.config_store.snapshot().pending
        if not pending or not self._state.resolved or self._state.stopping:
            return NOTHING
        said: list[str] = []
        for name, change in pending.items():
            if name in self._ending or now_ms < self._again_ms.get(name, 0) or not self._is_left(change):
                continue
            if self._calls.busy:
                return Verdict("; ".join(said), now_ms + 100)
            said.append(f"ends a change of {name} that was interrupted")
            self._end(name, change, now_ms)
        return Verdict("; ".join(said))

    def _is_left(self, change: PendingChange) -> bool:
        state, settings = self._state, self._deps.settings
        is_late = self._deps.clock.now_ms() - change.begun_ms > LONGEST_MS
        if change.worker_url == settings.worker_url and change.run == self._run:
            return is_late
        if change.config is not None:  # only who leads creates: another one led before
            return state.is_leader
        if change.worker_url == settings.worker_url:
            return True
        return state.is_leader and (is_late or change.worker_url not in state.member_urls)

    def _end(self, name: str, change: PendingChange, now_ms: int) -> None:
        self._ending.add(name)
        self._since_ms.setdefault(name, now_ms)
        if change.config is None:
            stage = f"ending a change of the offsets of connector {name}"
            self._calls.begin(stage, lambda: self._want_again(name, change), lambda error, _: self._ended(name, error))
            return

        def put_back() -> None:
            failure: Exception | None = None
            try:
                self._put_back(name, change)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                failure = error
                if now_ms - self._since_ms.get(name, now_ms) > GIVEN_UP_MS:
                    self._give_up(name, error)
            self._ended(name, failure)
            self._wakeup()

        self._deps.threads.start("herder-offsets", put_back)

    def _want_again(self, name: str, change: PendingChange) -> None:
        store = self._deps.config_store
        state = store.refresh(self._deps.settings.worker_sync_timeout_ms)
        if name not in state.pending:
            return
        log.warning("connector=%s a change of its offsets by %s was interrupted", name, change.worker_url)
        if state.contains(name) and state.target_state(name) is TargetState.STOPPED and change.target_state:
            store.put_target_state(name, TargetState(change.target_state))  # forgets the change, too
        else:
            store.forget_pending(name)

    def _put_back(self, name: str, change: PendingChange) -> None:
        store = self._deps.config_store
        state = store.refresh(self._deps.settings.worker_sync_timeout_ms)
        if name not in state.pending:
            return
        if not state.contains(name):
            log.warning("connector=%s its creation by %s was interrupted", name, change.worker_url)
            beginning = Beginning(self._deps, name, change.config or {})
            try:
                beginning.restore(change.before)
            finally:
                beginning.close()
        store.forget_pending(name)

    def _ended(self, name: str, error: Exception | None) -> None:
        now_ms = self._deps.clock.monotonic_ms()
        if error is not None:
            log.warning("connector=%s an interrupted change has not been ended yet: %s", name, error)
            self._again_ms[name] = now_ms + RETRY_MS
        else:
            self._again_ms.pop(name, None)
            self._since_ms.pop(name, None)
        self._ending.discard(name)

    def _give_up(self, name: str, error: Exception) -> None:
        text = f"the offsets of {name}, whose creation was interrupted, cannot be restored: {error}"
        log.error("connector=%s %s", name, text)
        self._deps.record_event("offsets", text, connector=name)
        try:
            self._deps.config_store.forget_pending(name)
        except ConnectError as failure:
            log.warning("connector=%s the note of the change has not been removed yet: %s", name, failure)
