"""One distributed worker: signals, orderly end (Java ``ConnectDistributed``).

Its herder reads the internal topics and joins the group.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.app.connect_worker import ConnectWorker
from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.serving import await_end, end_failed, stop_asked
from spark_connect_rt.app.wiring import herder_dependencies
from spark_connect_rt.base.exit_codes import EXIT_BAD_TOPIC, EXIT_BROKER_UNREACHABLE
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError, StartupError
from spark_connect_rt.group.member import GroupMember, MembershipEvent
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder

START_LIMIT_S = 120.0
YOUNG_OBJECTS = 10_000  # made before they are scanned: 700 unless set, for each request several times
WARM_LIMIT_S = 180.0  # then a running group is joined with a cold engine

log = logging.getLogger(__name__)


class DeferredMember:
    """Joins a running group only when this worker can run tasks at once: port GroupMember in front of another member.

    A worker that joins takes over work from the others, and its first Spark job takes ten seconds or more. So it warms
    its engine first. It joins at once where no group runs, and without a warm engine where Spark takes too long. Java
    needs no such wait, because its tasks are threads.
    """

    def __init__(
        self,
        member: GroupMember,
        others: Callable[[], bool],
        await_warm: Callable[[], bool],
        report: Report = report_nowhere,
    ) -> None:
        """Wrap a member whose start is deferred.

        Args:
            member: the one that joins.
            others: returns whether the group has members now; may block, may raise ConnectError.
            await_warm: waits until a task would run at once; False when that took too long.
            report: called when the wait ended by an error, so that the group would never be joined.
        """
        self._member = member
        self._others = others
        self._await_warm = await_warm
        self._report = report
        self._may_start = threading.Event()
        self._started = False

    def start(self) -> None:
        """Begin to wait; returns at once."""
        wait = watched(self._wait, SupervisedPart.GROUP, self._report)
        threading.Thread(target=wait, name="warm-up", daemon=True).start()

    def _wait(self) -> None:
        try:
            others = self._others()
        except ConnectError as error:
            log.warning("the group's members are unknown, so this worker joins immediately: %s", error)
            others = False
        if others:
            log.info("the group already has members, so this worker joins once its engine is ready")
            if not self._await_warm():
                log.warning("the engine is not ready yet, but the worker joins the group now and its tasks will wait")
        self._may_start.set()
        self._member.wakeup()

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """See the port; nothing happens before the engine is warm."""
        if not self._started and self._may_start.is_set():
            self._started = True
            self._member.start()
        return self._member.poll(timeout_ms)

    def wakeup(self) -> None:
        """Make a waiting or the next ``poll`` of the member return at once. Any thread."""
        self._member.wakeup()

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance, if the member has started."""
        if self._started:
            self._member.request_rejoin(reason)

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Pass the answer to JoinRequired on to the member."""
        self._member.join(protocols)

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Pass the leader's assignments on to the member."""
        self._member.sync(assignments)

    def member_id(self) -> str:
        """Return the member id, empty unless the membership is stable."""
        return self._member.member_id()

    def trouble(self) -> str:
        """Return the last reason why the group could not be joined. Any thread."""
        return self._member.trouble()

    def in_contact(self) -> bool:
        """Return whether the assigned work is certainly still this member's. Any thread."""
        return self._member.in_contact()

    def holds_lease(self) -> bool:
        """Return whether contact is so fresh that executors may be kept alive. Any thread."""
        return self._member.holds_lease()

    def fenced(self) -> None:
        """Note that the work of before ContactLost was ended."""
        self._member.fenced()

    def leave(self, reason: str) -> None:
        """Send LeaveGroup, if the member has started."""
        if self._started:
            self._member.leave(reason)

    def stop(self) -> None:
        """Leave if still in, and close connections and threads."""
        self._member.stop()


class DistributedWorker(ConnectWorker[DistributedHerder]):
    """A worker of a group, its state on the three internal topics."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(distributed_config(settings))

    @property
    def url(self) -> str:
        """Return the advertised URL, with its trailing slash."""
        return self.address.url

    def _dependencies(self, admin: KafkaAdmin, runner: DeferredRunner) -> HerderDependencies:
        dependencies = herder_dependencies(self.config, self.address, admin, runner, self._cluster, self.supervisor)
        group = self.config.group.group_id
        member = DeferredMember(
            dependencies.member,
            lambda: admin.group_is_active(group),
            lambda: runner.await_warm(WARM_LIMIT_S),
            self.supervisor.failed,
        )
        return replace(dependencies, member=member)

    def _new_herder(self, dependencies: HerderDependencies) -> DistributedHerder:
        return DistributedHerder(dependencies)

    def await_started(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the internal topics are read. Raises StartupError."""
        assert self.herder is not None
        try:
            self.herder.started.result(limit_s)
        except BadConfigError as error:
            raise StartupError(str(error), exit_code=EXIT_BAD_TOPIC, code="CRT-1086") from error
        except RetriableError as error:
            raise StartupError(str(error), exit_code=EXIT_BROKER_UNREACHABLE, code=error.code) from error

    # The methods below serve the quickstart, in addition to REST.

    def spark(self) -> Any:
        """Return the worker's SparkSession, waiting for it."""
        return self._runner.real().session().newSession()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic unless it exists."""
        from spark_connect_rt.kafka.admin import TopicSpec

        self.admin.create_topic(TopicSpec(topic, partitions))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the log end of each partition."""
        count = self.admin.partition_count(topic) or 0
        ends = self.admin.end_offsets([TopicPartition(topic, number) for number in range(count)])
        return {partition.partition: end for partition, end in ends.items()}


def start_worker(settings: Mapping[str, str]) -> DistributedWorker:
    """Start a worker in this process and wait until it has read the internal topics."""
    set_up_logging(settings)
    worker = DistributedWorker(settings)
    bring_up(worker)
    return worker


def bring_up(worker: DistributedWorker) -> None:
    """Start a worker and wait until it has read the internal topics. If that fails, stop its started parts."""
    worker.start()
    try:
        worker.await_started()
    except ConnectError:
        worker.stop()
        raise


def run_worker(settings: Mapping[str, str]) -> int:
    """Run one worker until SIGTERM or SIGINT; return the exit code. A second signal ends the process at once."""
    load_pandas_on_demand()
    ended = stop_asked()
    worker = start_worker(settings)
    assert worker.herder is not None
    # Imported objects stay: a full collection over them takes 80 ms of CPU, in which no thread answers a request.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    log.info("worker=%s serves %s", worker.address.worker_id, worker.url)
    code = await_end(ended, worker.herder.stopped, worker.address.worker_id, worker.supervisor)
    end_failed(worker.supervisor, worker.herder.stopped, code)
    worker.stop()
    end_failed(worker.supervisor, worker.herder.stopped, code)  # parts that ended meanwhile, also by a signal to all
    return code
