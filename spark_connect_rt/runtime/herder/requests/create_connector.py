"""POST /connectors on the leader: from the checked request to its answer, and the end of an interrupted creation.

It reads in the order in which things happen. ``herder.validation`` has validated the configuration before the request
entered the queue. The tick refuses a name that is taken. A connector with ``initial_offsets`` (KIP-995) gets its
offsets first: they replace all offsets of its name and are read back, so that no task ever runs without them. Then the
configuration is written, together with those of other requests where there are any, and each request is answered.

If the creation fails, the old offsets are put back. A record of the config topic names the creation before its first
write and disappears with its last. If the worker dies in between, the next leader finds that record and puts the old
offsets back.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from spark_connect_rt.api.plugin_modules import connector_plugin
from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    exactly_once_producer_properties,
    sink_group_id,
)
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import AlreadyExistsError, BadRequestError, ConnectError, DataError, as_error
from spark_connect_rt.group.peers import require_leader
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.runtime.herder.request_queue import ConfigTopicCalls, TopicCalls
from spark_connect_rt.runtime.herder.requests.offset_change import CHANGE_LIMIT_MS, OffsetChange
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorInfo
from spark_connect_rt.runtime.worker.launches import kind_of
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.config_records import PendingChange, TargetState
from spark_connect_rt.topics.offset_changes import (
    OffsetPair,
    as_pairs,
    check_source_offsets,
    offset_moves,
    one_per_partition,
    pairs_of,
)

log = logging.getLogger(__name__)

TOGETHER = CreateConnector.__name__
MOST = 100  # connectors in a write
LARGE_CHARACTERS = 100_000  # of all settings; a broker takes records of 1 MB unless it is configured otherwise
FENCE_LIMIT_MS = 90_000
LONGEST_MS = 300_000  # a change that takes longer has been interrupted, even if its worker lives
RETRY_MS = 10_000
GIVEN_UP_MS = 900_000  # old offsets that cannot be restored must not block the name for longer

Note = Callable[[Mapping[str, str], Sequence[OffsetPair]], PendingChange]
AddRequest = Callable[[str, Callable[[], Future[ConfigWritten]]], Future[ConfigWritten]]


# ---- The request ----


def queued_as(request: CreateConnector) -> str:
    """Return the name of a request in the queue. Requests named TOGETHER may share a write.

    A large configuration has another name and is written alone: if a broker refuses it, no other creation fails.
    """
    return f"{TOGETHER} (large)" if _characters(request.config) > LARGE_CHARACTERS else TOGETHER


def _characters(config: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in config.items())


class CreateConnectors:
    """Creates connectors. ``submit`` may be called on any thread, the other methods on the tick thread."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        views: ConnectorViews,
        calls: TopicCalls,
        topic: ConfigTopicCalls,
        add: AddRequest,
        note: Note,
    ) -> None:
        """``add`` queues an action for the tick. ``note`` makes the record of a creation with offsets.

        ``note`` takes the configuration and the offsets to put back after a failure.
        """
        self._deps = deps
        self._store = deps.config_store
        self._state = state
        self._views = views
        self._topic = topic
        self._add = add
        self._note = note
        self._under_way: set[str] = set()
        self.batch = BatchedCreates(deps, calls, views.connector_info, topic.not_written)

    def submit(self, request: CreateConnector) -> Future[ConfigWritten]:
        """Queue a request with a valid configuration for ``create``, and return its future answer. Any thread."""
        return self._add(queued_as(request), lambda: self.create(request))

    def create(self, request: CreateConnector) -> Future[ConfigWritten]:
        """Create a connector once the request has its turn, and return its future answer.

        Raises NotLeaderError and AlreadyExistsError. With ``initial_offsets`` the Future raises BadRequestError (they
        are invalid) and ConnectError (the connector or Kafka refuses them).
        """
        name, config = request.name, request.config
        require_leader(self._state.standing, f"create connector {name}")
        if self._store.snapshot().contains(name):
            raise AlreadyExistsError(f"Connector {name} already exists")
        self.refuse_under_way(name)
        self.batch.refuse_waiting(name)
        if request.initial_offsets is None:
            return self.batch.add(name, config, request.initial_state)
        return self._create_with_offsets(request, request.initial_offsets)

    def refuse_under_way(self, name: str) -> None:
        """Raise AlreadyExistsError while a connector of that name is being created with offsets."""
        pending = self._store.snapshot().pending.get(name)
        if name in self._under_way or (pending is not None and pending.config is not None):
            raise AlreadyExistsError(f"Connector {name} is being created by another request")

    def _create_with_offsets(self, request: CreateConnector, offsets: Sequence[OffsetPair]) -> Future[ConfigWritten]:
        """Write the offsets on another thread, then queue the write of the configuration for the tick."""
        answer: Future[ConfigWritten] = Future()
        name = request.name
        self._under_way.add(name)
        with_offsets = CreateWithOffsets(self._deps, name, request.config, self._note)

        def write_offsets() -> None:
            try:
                message = with_offsets.write(offsets)
            except BaseException as error:  # noqa: BLE001 - the request's failure is its answer
                end(with_offsets.put_back(as_error(error)))
                return
            queued = self._add(f"create connector {name}", partial(self._write_config, request))
            queued.add_done_callback(partial(config_written, message))

        def config_written(message: str, done: Future[ConfigWritten]) -> None:
            if (error := done.exception()) is None:
                written = done.result()
                end(None, replace(written, info=replace(written.info, offsets_status=message)))
            else:
                self._deps.threads.start("herder-offsets", lambda: end(with_offsets.put_back(error)))

        def end(error: BaseException | None, written: ConfigWritten | None = None) -> None:
            self._under_way.discard(name)
            with_offsets.close()
            if error is not None:
                answer.set_exception(error)
            else:
                assert written is not None
                answer.set_result(written)

        try:
            self._deps.threads.start("herder-offsets", write_offsets)
        except RuntimeError as error:  # the machine has no thread left
            end(error)
        return answer

    def _write_config(self, request: CreateConnector) -> Future[ConfigWritten]:
        """Check again on the tick, then write; the target state is written first, so that nothing starts by mistake."""
        name, config, target = request.name, request.config, request.initial_state
        if self._store.snapshot().contains(name):
            raise AlreadyExistsError(f"Connector {name} already exists")
        require_leader(self._state.standing, f"create connector {name}")
        return self._topic.write(
            f"writing a config for connector {name} to the config topic",
            lambda: self._store.put_connector_config(name, config, target),
            lambda: ConfigWritten(True, self._views.connector_info(name)),
        )


# ---- Its offsets ----


class CreateWithOffsets:
    """The offsets of a connector that does not exist yet. Its methods block, so the tick never calls them."""

    def __init__(
        self, deps: HerderDependencies, name: str, config: Mapping[str, str], note: Note | None = None
    ) -> None:
        """``note`` None: only ``restore`` is called."""
        self._note = note
        self._deps = deps
        self._name = name
        self._config = StoredConfig(config)
        self._resolved: Mapping[str, str] = {}
        self._stores = SourceOffsetStores(
            deps.offset_store, deps.settings.worker, deps.open_offsets, self._config_of, deps.resolve, deps.threads
        )
        self._before: list[OffsetPair] | None = None  # None: nothing was written
        self._is_sink = False

    def write(self, offsets: Sequence[OffsetPair]) -> str:
        """Replace all offsets of the name by these, and return the message of KIP-875. Raises ConnectError."""
        pairs = one_per_partition(offsets)
        is_sink = self._opened()
        if not is_sink:
            try:
                check_source_offsets(pairs)
            except DataError as error:
                raise BadRequestError(str(error)) from error
        before = self._present(is_sink=is_sink)
        wanted = {canonical(partition) for partition, _ in pairs}
        gone: list[OffsetPair] = [(partition, None) for partition, _ in before if canonical(partition) not in wanted]
        if self._note is not None:
            self._deps.config_store.put_pending(self._name, self._note(self._config.written(), before))
        self._before = before
        return self._change().carry_out([*gone, *pairs])

    def restore(self, before: Sequence[OffsetPair]) -> None:
        """Set the offsets back to those before an interrupted creation. Raises ConnectError."""
        self._set_to(before, is_sink=self._opened())

    def _opened(self) -> bool:
        """Open the store of the offsets, and return whether it is a sink's consumer group."""
        self._resolved = self._config.resolved(self._deps.resolve)
        self._is_sink = kind_of(self._deps.plugins.class_of(connector_plugin(self._resolved))) is not TaskKind.SOURCE
        if not self._is_sink:
            self._stores.open(self._name, self._config)
        return self._is_sink

    def _set_to(self, before: Sequence[OffsetPair], *, is_sink: bool) -> None:
        moves = offset_moves(self._present(is_sink=is_sink), before)
        if moves:  # else nothing was written
            self._change().carry_out(pairs_of(moves))

    def put_back(self, error: BaseException) -> BaseException:
        """Set the offsets back to those before ``write``, and return the error for the client."""
        if self._before is None:
            return error
        try:
            self._deps.config_store.refresh(self._deps.settings.worker_sync_timeout_ms)
            if not self._deps.config_store.snapshot().contains(self._name):  # else it runs with what it has
                self._set_to(self._before, is_sink=self._is_sink)
            self._deps.config_store.forget_pending(self._name)
        except BaseException as second:  # the connector's code takes part in that, too
            log.exception("connector=%s its offsets cannot be restored", self._name)
            return ConnectError(
                f"Connector {self._name} was not created: {error}. Its offsets cannot be restored: {second}. They "
                "apply to a connector that is created with that name."
            )
        return error

    def close(self) -> None:
        """Close the connector's own offset topic, if it has one."""
        self._stores.stop()

    def _change(self) -> OffsetChange:
        return OffsetChange(self._deps, self._stores, self._name, self._fence, self._config)

    def _present(self, *, is_sink: bool) -> list[OffsetPair]:
        if is_sink:
            admin = connector_admin_properties(self._deps.settings.worker, self._resolved, self._name, 0)
            group = sink_group_id(self._resolved, self._name)
            return as_pairs(dict(self._deps.group_offsets.committed(self._deps.resolve(admin), group)))
        self._stores.read(self._name, [], CHANGE_LIMIT_MS)
        return list(self._stores.connector_offsets(self._name))

    def _fence(self, name: str) -> None:
        """Fence producers that a deleted connector of that name may have left."""
        tasks = self._deps.config_store.snapshot().task_count_record(name) or 0
        worker = self._deps.settings.worker
        producers = [
            self._deps.resolve(exactly_once_producer_properties(worker, self._resolved, name, number))
            for number in range(tasks)
        ]
        if producers and self._deps.transactions is not None:
            self._deps.transactions.fence(producers, FENCE_LIMIT_MS)

    def _config_of(self, name: str) -> StoredConfig | None:
        return self._config if name == self._name else self._deps.config_store.snapshot().connector_config(name)


# ---- Its configuration ----


@dataclass(slots=True)
class _Creation:
    name: str
    config: Mapping[str, str]
    target: TargetState | None
    answer: Future[ConfigWritten] = field(default_factory=Future)


class BatchedCreates:
    """Connectors that several clients create at the same time: one write of the config topic. On the tick thread."""

    def __init__(
        self,
        deps: HerderDependencies,
        calls: TopicCalls,
        info: Callable[[str], ConnectorInfo],
        not_written: Callable[[Exception], None],
    ) -> None:
        """``info`` describes a connector for its answer. ``not_written`` is called once for a failed write."""
        self._store = deps.config_store
        self._calls = calls
        self._info = info
        self._not_written = not_written
        self._waiting: list[_Creation] = []
        self._characters = 0

    @property
    def waiting(self) -> int:
        """Return how many connectors wait for ``write``. No other call may begin before it."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Return whether no further connector fits into this write."""
        return len(self._waiting) >= MOST or self._characters > LARGE_CHARACTERS

    def refuse_waiting(self, name: str) -> None:
        """Raise AlreadyExistsError if a connector of that name waits for ``write``."""
        if any(creation.name == name for creation in self._waiting):
            raise AlreadyExistsError(f"Connector {name} is being created by another request")

    def add(self, name: str, config: Mapping[str, str], target: TargetState | None) -> Future[ConfigWritten]:
        """Add a connector to the next ``write``, and return its future answer."""
        creation = _Creation(name, config, target)
        self._waiting.append(creation)
        self._characters += _characters(config)
        return creation.answer

    def write(self) -> None:
        """Begin the write, if any connector waits. Each request is answered once all records were read back."""
        together, self._waiting, self._characters = self._waiting, [], 0
        if not together:
            return
        names = f"connector {together[0].name}" + (f" and {len(together) - 1} more" if len(together) > 1 else "")

        def done(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                self._not_written(error)
            for creation in together:
                try:
                    if error is not None:
                        raise error
                    creation.answer.set_result(ConfigWritten(True, self._info(creation.name)))
                except Exception as failure:  # noqa: BLE001 - the request's failure is its answer
                    creation.answer.set_exception(failure)

        configs = [(creation.name, creation.config, creation.target) for creation in together]
        stage = f"writing a config for {names} to the config topic"
        self._calls.begin(stage, lambda: self._store.put_connector_configs(configs), done)


# ---- A crash interrupted a change of two writes ----


class PendingChanges:
    """The step ``end interrupted changes``: finishes or undoes a change of two writes whose worker died between them.

    A creation with offsets is undone: the old offsets of the name are put back. A connector that was stopped to change
    its offsets gets its target state back. A worker ends the changes of its earlier process, and the leader those
    of workers that left the group.
    """

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
        """Return the record that is written before a change of this worker. Any thread may call it."""
        url, now_ms = self._deps.settings.worker_url, self._deps.clock.now_ms()
        return PendingChange(url, self._run, now_ms, target.value if target else None, config, tuple(before))

    def end(self, now_ms: int) -> Verdict:
        """End the changes that no worker works on any longer."""
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
            except Exception as error:  # noqa: BLE001 - after any error it is tried again
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
            beginning = CreateWithOffsets(self._deps, name, change.config or {})
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
