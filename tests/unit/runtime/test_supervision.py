"""A part of the worker ends by an error: the worker says so, leaves, and others have its tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_connect_rt.base.supervision import PartFailure, SupervisedPart, Supervisor, watched
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder import loop
from spark_connect_rt.runtime.herder.tick import Verdict
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.runtime.cluster_stories import create, source

PATIENT = Timing(session_ms=60_000, heartbeat_ms=20, rebalance_ms=120_000)  # nobody is lost by silence here


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(records=5, tasks=4))
        cluster.until(lambda: [len(worker.running_tasks()) for worker in cluster.workers.values()] == [2, 2])
        yield cluster


def _raise(*_: object) -> None:
    raise MemoryError("nothing left")


def herder(worker: InProcessWorker) -> None:
    worker.herder._loop._tick_guarded = _raise  # type: ignore[method-assign]


def topic_calls(worker: InProcessWorker) -> None:
    worker.herder._loop._calls._thread.submit(_raise)


def forwarding(worker: InProcessWorker) -> None:
    worker.herder._loop._forwarding._thread.submit(_raise)


def engine(worker: InProcessWorker) -> None:
    worker.runner._loop._next = _raise  # type: ignore[assignment]
    worker.runner._loop.submit(lambda: None)


def housekeeping(worker: InProcessWorker) -> None:
    worker.runner._slots.housekeeping = _raise  # type: ignore[method-assign]


def log_reader(worker: InProcessWorker) -> None:
    worker.herder._deps.status_store._log.deliver = _raise  # type: ignore[attr-defined]
    worker.herder._deps.status_store._log.topic.wake()  # type: ignore[attr-defined]


def group_io(worker: InProcessWorker) -> None:
    worker.member._inbox.fail(ConnectError("the group membership failed"))


def group_refuses(worker: InProcessWorker) -> None:
    worker.member._inbox.fail(BadConfigError({"group.id": ["this worker is not authorized to use the group"]}))


def elsewhere(worker: InProcessWorker) -> None:
    worker.supervisor.failed(SupervisedPart.SPARK, "its JVM ended")


@pytest.mark.parametrize(
    ("kill", "part"),
    [
        (herder, SupervisedPart.HERDER),
        (topic_calls, SupervisedPart.HERDER),
        (forwarding, SupervisedPart.HERDER),
        (engine, SupervisedPart.ENGINE),
        (housekeeping, SupervisedPart.ENGINE),
        (log_reader, SupervisedPart.LOG),
        (group_io, SupervisedPart.GROUP),
        (group_refuses, SupervisedPart.REFUSED),
        (elsewhere, SupervisedPart.SPARK),
    ],
)
def test_a_thread_that_ends_ends_the_worker_and_others_have_its_tasks(
    cluster: InProcessCluster, kill: Callable[[InProcessWorker], None], part: SupervisedPart
) -> None:
    lost = cluster.workers["w1"]
    kill(lost)
    cluster.until(lambda: lost.supervisor.failure is not None)
    assert lost.supervisor.failure is not None
    assert lost.supervisor.failure.part is part
    health = lost.herder.views.health()
    assert (health.status, health.live) == ("unhealthy", False)
    assert str(lost.supervisor.failure) in health.detail
    del cluster.workers["w1"]
    cluster.until(lambda: len(cluster.workers["w2"].running_tasks()) == 4)  # long before its session is over
    assert not any(slice_._thread.is_alive() for slice_ in lost.runner.launcher.slices)  # I1
    cluster.until(lost.herder.stopped.is_set)


def test_only_the_first_failure_counts_and_late_listeners_get_it() -> None:
    supervisor, heard = Supervisor(), list[PartFailure]()
    supervisor.on_failure(heard.append)
    supervisor.failed(SupervisedPart.ENGINE, KeyError("x"))
    supervisor.failed(SupervisedPart.REST, "later")
    supervisor.on_failure(heard.append)
    assert [failure.reason for failure in heard] == ["KeyError: 'x'"] * 2
    assert supervisor.failure is heard[0]
    assert str(heard[0]).startswith("the engine: KeyError: 'x'. Start the worker again")


def test_a_watched_thread_reports_its_error_and_an_unrequested_end() -> None:
    heard: list[tuple[SupervisedPart, str]] = []

    def report(part: SupervisedPart, error: BaseException | str) -> None:
        heard.append((part, str(error)))

    watched(_raise, SupervisedPart.REST, report)()
    watched(lambda: None, SupervisedPart.REST, report)()
    watched(lambda: None, SupervisedPart.REST, report, may_end=lambda: False)()
    assert heard == [(SupervisedPart.REST, "nothing left"), (SupervisedPart.REST, "its thread ended unasked")]


def test_a_tick_that_fails_while_the_worker_stops_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.clear()
    monkeypatch.setattr(loop, "STOP_MARGIN_MS", 1_500)
    calls: list[int] = []

    def failing(now_ms: int) -> Verdict:
        calls.append(now_ms)
        raise RuntimeError("a bug")

    with InProcessCluster(timing=PATIENT, worker_config={"task.shutdown.graceful.timeout.ms": "1"}) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=5))
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        worker.herder._loop._steps = (("fail", failing),)
        cluster.until(lambda: bool(calls))
    assert 2 <= len(calls) <= 5


def test_a_worker_whose_every_tick_fails_is_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "UNHEALTHY_AFTER_MS", 50)
    monkeypatch.setattr(loop, "PAUSE_AFTER_ERROR_S", 0.01)
    with InProcessCluster(timing=PATIENT) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until_stable()
        monkeypatch.setattr(worker.herder._loop, "_steps", (("fail", _raise_each_tick),))
        worker.member.wakeup()
        cluster.until(lambda: not worker.herder.views.health().live)
        assert "No tick has completed successfully" in worker.herder.views.health().detail


def _raise_each_tick(now_ms: int) -> Verdict:
    raise RuntimeError(f"a bug at {now_ms}")
