"""Requests to alter or reset a connector's offsets (KIP-875; Java ``DistributedHerder.modifyConnectorOffsets``).

On the tick thread: decide who must serve, read the config topic to its end, then check the conditions. The change
itself runs plug-in code and asks Kafka, so it has its own thread; one at a time for each connector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from spark_connect_rt.base.concurrency import answer_by, copy_outcome
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError, NotLeaderError, ShuttingDownError
from spark_connect_rt.group.peers import require_leader
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.runtime.herder.requests.offset_change import CHANGE_LIMIT_MS, OffsetChange
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_changes import OffsetPair

AddRequest = Callable[[str, Callable[[], Future[str]]], Future[str]]
"""(what, action for the tick thread) -> its answer to come."""


class OffsetRequests:
    """Changes of offsets, one at a time for each connector; ``modify`` is called on the tick thread."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        calls: TopicCalls,
        add: AddRequest,
        offsets: SourceOffsetStores,
        fence: Callable[[str], Future[None]],
    ) -> None:
        """Take what every request takes; ``add`` queues one for the tick, ``fence`` a fencing round."""
        self._deps = deps
        self._state = state
        self._calls = calls
        self._add = add
        self._offsets = offsets
        self._fence = fence
        self._under_way: dict[str, Future[str]] = {}

    def modify(self, name: str, offsets: Sequence[OffsetPair] | None) -> Future[str]:
        """Alter these offsets, None: reset all; return the answer's words. Raises NotLeaderError.

        Answers BadRequestError (not stopped, invalid offsets), NotFoundError, ConnectError (the connector or
        Kafka refused).
        """
        require_leader(self._state.standing, f"modify the offsets of connector {name}")
        before = self._under_way.get(name)
        if before is not None and not before.done():
            return self._after(before, name, offsets)
        answer: Future[str] = Future()
        self._under_way[name] = answer

        def checked(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                text = "Failed to read to end of config topic before modifying connector offsets"
                stopping = isinstance(error, ShuttingDownError)
                answer.set_exception(error if stopping else ConnectError(f"{text}: {error}"))
                return
            try:
                self._check(name)
            except NotLeaderError:
                self._again(name, offsets, answer)
                return
            except ConnectError as refusal:
                answer.set_exception(refusal)
                return
            change = OffsetChange(
                self._deps, self._offsets, name, lambda n: self._fence(n).result(CHANGE_LIMIT_MS / 1000)
            )
            self._run(lambda: change.carry_out(offsets), answer)

        limit_ms = self._deps.settings.worker_sync_timeout_ms
        refresh = self._deps.config_store.refresh
        self._calls.begin("reading to the end of the config topic", lambda: refresh(limit_ms), checked)
        return answer

    def _again(self, name: str, offsets: Sequence[OffsetPair] | None, answer: Future[str]) -> None:
        """A rebalance began meanwhile: wait for its end like every request, then see who leads."""
        del self._under_way[name]
        queued = self._add(f"modify the offsets of {name}", lambda: self.modify(name, offsets))
        queued.add_done_callback(lambda done: copy_outcome(done, answer))

    def _after(self, before: Future[str], name: str, offsets: Sequence[OffsetPair] | None) -> Future[str]:
        """Wait for the change that is in progress, then begin again on the tick thread."""
        answer: Future[str] = Future()

        def again(_: Future[str]) -> None:
            queued = self._add(f"modify the offsets of {name}", lambda: self.modify(name, offsets))
            queued.add_done_callback(lambda done: copy_outcome(done, answer))

        before.add_done_callback(again)
        return answer

    def _check(self, name: str) -> None:
        snapshot = self._deps.config_store.snapshot()
        require_leader(self._state.standing, f"modify the offsets of connector {name}")
        if not snapshot.contains(name):
            raise NotFoundError(f"Connector {name} not found")
        if snapshot.target_state(name) is not TargetState.STOPPED or snapshot.tasks(name):
            raise BadRequestError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )

    def _run(self, change: Callable[[], str], answer: Future[str]) -> None:
        self._deps.threads.start("herder-offsets", lambda: answer_by(answer, change))
