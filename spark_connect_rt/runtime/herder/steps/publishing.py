"""Generated task configurations on their way into the config topic: written by the leader, handed to it by others.

Runs on the tick thread; the write and the HTTP request to the leader run on other threads. Java
``reconfigureConnectorTasksWithExponentialBackoffRetries``.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from urllib.parse import quote

from spark_connect_rt.base.backoff import chance_of
from spark_connect_rt.base.concurrency import SerialExecutor, Threads
from spark_connect_rt.base.supervision import Report
from spark_connect_rt.errors import ConnectError, FencedError
from spark_connect_rt.group.peers import PeerClient, sign
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.runtime.herder.tick import Verdict
from spark_connect_rt.runtime.task_configs import retry_delay_ms, task_configs_changed
from spark_connect_rt.runtime.worker.events import TaskConfigsGenerated
from spark_connect_rt.runtime.worker.worker import Worker
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import ClusterConfigState

# Hands task configurations to the leader over HTTP, signed, on its own thread (KIP-507).


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SubmittedRequest:
    """How one request ended; ``error`` None: the leader took it."""

    connector: str
    error: str | None


class Forwarding:
    """Sends in order; answers are collected for the tick."""

    def __init__(
        self, peers: PeerClient, algorithm: str, wakeup: Callable[[], None], threads: Threads, report: Report
    ) -> None:
        self._peers = peers
        self._algorithm = algorithm
        self._wakeup = wakeup
        self._answers: deque[SubmittedRequest] = deque()
        self._thread = SerialExecutor("forward-to-leader", threads, report)

    def hand_in(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: bytes | None) -> None:
        """Queue one POST /connectors/<c>/tasks. ``key`` None: unsigned (before ``sessioned``)."""
        self._thread.submit(lambda: self._send(leader_url, connector, configs, key))

    def answers(self) -> list[SubmittedRequest]:
        """Return and forget the answers so far."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def close(self) -> None:
        """End after what is queued."""
        self._thread.close()

    def _send(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: bytes | None) -> None:
        error: str | None = None
        try:
            body = json.dumps([dict(config) for config in configs], separators=(",", ":")).encode()
            headers = {"Content-Type": "application/json"}
            if key is not None:
                headers |= sign(key, self._algorithm, body)
            url = f"{leader_url.rstrip('/')}/connectors/{quote(connector, safe='')}/tasks"
            answer = self._peers.request("POST", url, body, headers)
            if answer.status >= 300:
                error = f"the leader {leader_url} answered {answer.status}: {answer.body[:300]!r}"
        except ConnectError as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("connector=%s task configs cannot be sent to %s", connector, leader_url)
            error = f"{type(failure).__name__}: {failure}"
        self._answers.append(SubmittedRequest(connector, error))
        self._wakeup()


SETS_MOST, TASKS_MOST = 200, 500  # in one write: a broker takes this many in some milliseconds
READ_PAUSE_MS = 1_000
MIXED_REPAIR_PAUSE_MS = 3_600_000  # a segment is compacted a week after its first record, unless it grows fast
REPAIR_PAUSE_MS = 1_000  # until what was written is read here; the leader may have seen nothing left to write


@dataclass(slots=True)
class _Pending:
    """One connector's generated set, not known to be written yet; ``generated`` None: generate it again."""

    generated: TaskConfigsGenerated | None
    due_ms: int
    attempt: int = 0
    sent: bool = False
    alone: bool = False  # a write of several failed: its neighbours must not suffer from what one of them may be


class PublishTaskConfigs:
    """The step ``publish task configs``, which sends generated task configurations to the config topic."""

    def __init__(
        self, deps: HerderDependencies, state: GroupState, worker: Worker, forwarding: Forwarding, calls: TopicCalls
    ) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._forwarding = forwarding
        self._calls = calls
        self._pending: dict[str, _Pending] = {}
        self._read_again_ms = 0
        self._overtaken_ms: dict[str, int] = {}  # when a set was first found to be, in a group with a Java worker
        self._repaired_ms: dict[str, int] = {}  # when a connector's stored set was last found to be incomplete

    def take(self, generated: TaskConfigsGenerated, now_ms: int) -> None:
        """Take a connector's answer; a newer one replaces an older one."""
        self._pending[generated.connector] = _Pending(generated, now_ms)

    def generate_again(self, connector: str, error: str, now_ms: int) -> str:
        """The connector failed to answer: ask again later; return a sentence about it."""
        before = self._pending.get(connector)
        attempt = before.attempt if before else 0
        delay_ms = self._retry_delay_ms(connector, attempt)
        log.warning("connector=%s task configs: %s; retrying in %d ms", connector, error, delay_ms)
        self._pending[connector] = _Pending(None, now_ms + delay_ms, attempt + 1)
        return f"{connector} made no task configs, is asked again in {delay_ms} ms: {error}"

    def publish(self, now_ms: int) -> Verdict:
        """Write or hand in what is due."""
        self._take_answers(now_ms)
        if not self._state.resolved or self._state.rejoin_asked or self._state.stopping:
            return Verdict(f"{len(self._pending)} task sets wait for the group" if self._pending else "")
        if self._state.unsure and self._pending:
            return self._read_first(now_ms)
        self._repair_task_sets(now_ms)
        reasons = []
        held = frozenset(self._state.held.connectors) if self._state.held is not None and self._pending else frozenset()
        to_write: dict[str, str] = {}
        for name, pending in list(self._pending.items()):
            if pending.due_ms <= now_ms and not pending.sent:
                reasons.append(self._publish_one(name, pending, now_ms, held, to_write))
        reasons.append(self._write(to_write))
        due = [p.due_ms for p in self._pending.values() if not p.sent and p.due_ms > now_ms]
        return Verdict("; ".join(filter(None, reasons)), min(due, default=None))

    def _read_first(self, now_ms: int) -> Verdict:
        """Read what a write of this worker left there: a STOPPED whose answer was lost must not be given tasks."""
        store, limit_ms = self._deps.config_store, self._deps.settings.worker_sync_timeout_ms

        def done(error: Exception | None, then_ms: int) -> None:
            self._state.unsure = error is not None
            self._read_again_ms = then_ms + READ_PAUSE_MS

        reason = "reads the config topic first: a write may be there or not"
        if now_ms < self._read_again_ms:
            return Verdict(reason, self._read_again_ms)
        if not self._calls.busy:
            self._calls.begin("reading to the end of the config topic", lambda: store.refresh(limit_ms), done)
        return Verdict(reason)

    def _repair_task_sets(self, now_ms: int) -> None:
        """Have every connector of ours generate its task set again if not every worker reads the one that is stored.

        Java leaves such a set as it is: a worker that starts after a compaction is given tasks it knows nothing of.
        """
        snapshot, held = self._deps.config_store.snapshot(), self._state.held
        if self._overtaken_ms:
            self._overtaken_ms = {name: at for name, at in self._overtaken_ms.items() if name in snapshot.overtaken}
        for name in snapshot.inconsistent | snapshot.overtaken:
            if name not in snapshot.inconsistent and not self._repairs_overtaken(name, now_ms):
                continue
            if held is None or name not in held.connectors or snapshot.target_state(name) is not TargetState.STARTED:
                continue
            if now_ms - self._repaired_ms.get(name, -REPAIR_PAUSE_MS) >= REPAIR_PAUSE_MS:
                self._repaired_ms[name] = now_ms
                self._pending.setdefault(name, _Pending(None, now_ms))

    def _repairs_overtaken(self, name: str, now_ms: int) -> bool:
        """Return whether a set that a compaction would lose is written again now.

        In a group with a Java worker that restarts every task of the set, and a Java leader puts the connector behind
        its set each time a client sends it the configuration that it has. So it is done once in a while there.
        """
        if self._state.own_group or name not in self._deps.config_store.snapshot().overtaken:
            return True
        return now_ms - self._overtaken_ms.setdefault(name, now_ms) >= MIXED_REPAIR_PAUSE_MS

    def _publish_one(self, name: str, pending: _Pending, now_ms: int, held: Set[str], to_write: dict[str, str]) -> str:
        """Do what is due of one connector; a set for this worker to write goes to ``to_write``, with the reason."""
        snapshot = self._deps.config_store.snapshot()
        if name not in held or not snapshot.contains(name):
            del self._pending[name]
            return ""
        if pending.generated is None:
            pending.due_ms = now_ms + 60_000  # the answer replaces this entry
            self._worker.generate_task_configs(name)
            return f"generates task configs of {name} again"
        why = self._why_changed(pending.generated, snapshot, now_ms)
        if why is None:
            del self._pending[name]
            return ""
        configs = pending.generated.configs
        if self._state.is_leader:
            to_write[name] = why
            return ""
        pending.sent = True
        leader_url = self._state.standing.leader_url or ""
        self._forwarding.hand_in(leader_url, name, configs, self._signing_key(snapshot))
        return f"hands {len(configs)} task configs of {name} to the leader: {why}"

    def _why_changed(self, generated: TaskConfigsGenerated, snapshot: ClusterConfigState, now_ms: int) -> str | None:
        name = generated.connector
        current = snapshot.connector_config(name)
        if current is None or current != generated.connector_config:
            return None  # made from an older configuration; the restarted connector answers again
        if snapshot.target_state(name) is TargetState.STOPPED:
            return None
        return self.changed(name, generated.configs, snapshot, now_ms)

    def changed(
        self, name: str, configs: Sequence[Mapping[str, str]], snapshot: ClusterConfigState, now_ms: int | None = None
    ) -> str | None:
        """Return why the stored set must be rewritten, None when it need not be; ``now_ms`` None: another asks."""
        if name in snapshot.inconsistent:
            return "the stored task set is incomplete"
        if name in snapshot.overtaken and (now_ms is None or self._repairs_overtaken(name, now_ms)):
            return "the stored task set would be lost by a compaction"
        return task_configs_changed(
            configs,
            snapshot.connector_task_configs(name),
            snapshot.connector_config(name),
            snapshot.applied_config(name),
        )

    def _write(self, reasons: Mapping[str, str]) -> str:
        """Write the sets of these connectors, or the first of them: one write and one rebalance for all."""
        store = self._deps.config_store
        if not reasons or self._calls.busy or not store.may_lead():
            return ""  # the end of what is in progress wakes the tick
        sets = self._together(reasons)
        written = {name: self._pending[name] for name in sets}
        for pending in written.values():
            pending.sent = True

        def done(error: Exception | None, now_ms: int) -> None:
            if isinstance(error, FencedError):
                self._state.stop_leading()
            for name, pending in written.items():
                if self._pending.get(name) is not pending:
                    continue  # the connector has answered again
                if error is None:
                    del self._pending[name]
                else:
                    pending.alone = len(written) > 1
                    self._again(name, pending, str(error), now_ms)

        tasks = sum(map(len, sets.values()))
        name = next(iter(sets))
        whose = f"connector {name}" if len(sets) == 1 else f"{len(sets)} connectors"
        stage = f"writing {tasks} task configs for {whose} to the config topic"
        self._calls.begin(stage, lambda: store.put_task_configs(sets), done)
        whose = name if len(sets) == 1 else f"{name} and {len(sets) - 1} more"
        return f"writes {tasks} task configs of {whose}: {reasons[name]}"

    def _together(self, names: Iterable[str]) -> dict[str, Sequence[Mapping[str, str]]]:
        """Return the sets of the next write: the first, and others behind it as long as all of them are small."""
        sets: dict[str, Sequence[Mapping[str, str]]] = {}
        tasks = 0
        for name in names:
            pending = self._pending[name]
            assert pending.generated is not None
            tasks += len(pending.generated.configs)
            if sets and (pending.alone or tasks > TASKS_MOST or len(sets) >= SETS_MOST):
                break
            sets[name] = pending.generated.configs
            if pending.alone:
                break
        return sets

    def _take_answers(self, now_ms: int) -> None:
        for answer in self._forwarding.answers():
            pending = self._pending.get(answer.connector)
            if pending is None or not pending.sent:
                continue
            if answer.error is None:
                del self._pending[answer.connector]
            else:
                self._again(answer.connector, pending, answer.error, now_ms)

    def _again(self, name: str, pending: _Pending, error: str, now_ms: int) -> None:
        delay_ms = self._retry_delay_ms(name, pending.attempt)
        log.warning("connector=%s task configs cannot be published: %s; retrying in %d ms", name, error, delay_ms)
        pending.sent = False
        pending.attempt += 1
        pending.due_ms = now_ms + delay_ms

    def _retry_delay_ms(self, connector: str, attempt: int) -> int:
        return retry_delay_ms(attempt, chance_of(connector, attempt))

    def _signing_key(self, snapshot: ClusterConfigState) -> bytes | None:
        key = snapshot.session_key
        return key.key if key and self._state.protocol.version >= 2 else None
