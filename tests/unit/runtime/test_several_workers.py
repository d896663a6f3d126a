"""Several workers: work is shared, moves when workers come and go, runs nowhere twice, requests find their owner."""

from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import NotAssignedError, NotFoundError, NotLeaderError
from spark_connect_rt.group.assignments import NOTHING
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DeleteConnector,
    RestartConnector,
    RestartTask,
    SetGroupLoggerLevel,
    SetLoggerLevel,
    SetTargetState,
)
from spark_connect_rt.runtime.herder.steps import membership
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, offers_javas_names_only, source

QUICK = Timing(session_ms=400, heartbeat_ms=20, rebalance_ms=10_000)
PATIENT = Timing(session_ms=10_000, heartbeat_ms=20, rebalance_ms=60_000)  # nobody is lost on a busy machine


def tasks_of(cluster: InProcessCluster) -> list[str]:
    return sorted(task for worker in cluster.workers.values() for task in worker.running_tasks())


def balanced(cluster: InProcessCluster, tasks: int) -> bool:
    shares = [len(worker.running_tasks()) for worker in cluster.workers.values()]
    return sum(shares) == tasks and max(shares) - min(shares) <= 1 and len(set(tasks_of(cluster))) == tasks


def follower(cluster: InProcessCluster) -> InProcessWorker:
    return next(worker for worker in cluster.workers.values() if not worker.herder.views.is_leader())


@pytest.mark.parametrize("protocol", ["sessioned", "compatible", "eager"])
def test_work_is_shared_and_moves_to_a_newcomer(protocol: str) -> None:
    faults.clear()
    with InProcessCluster(worker_config={"connect.protocol": protocol}, timing=QUICK) as cluster:
        cluster.add_worker("w1")
        create(cluster, "a", source(records=50, tasks=4))
        cluster.until(lambda: balanced(cluster, 4))
        cluster.add_worker("w2")
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until(lambda: len(emitted(cluster)) == 200)
        assert emitted(cluster) == sorted(v for n in range(4) for v in expected(f"a-{n}", 50))
        cluster.stop_worker("w1")
        cluster.until(lambda: balanced(cluster, 4))
        assert len(emitted(cluster)) == 200  # offsets moved with the tasks: nothing is read twice


def test_a_follower_hands_its_task_configs_to_the_leader_signed() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        for name in ("a", "b", "c"):
            create(cluster, name, source(records=5))
        cluster.until(lambda: tasks_of(cluster) == ["a-0", "b-0", "c-0"])
        posted = [path for method, path in cluster.peers.requests if method == "POST"]
        assert posted
        assert {path.split("/")[2] for path in posted} <= {"a", "b", "c"}


def test_a_vanished_worker_is_replaced_and_what_it_had_not_committed_is_read_again() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        cluster.add_worker("w1")
        create(cluster, "a", source(records=20, tasks=2))
        lost = cluster.add_worker("w2")
        cluster.until(lambda: balanced(cluster, 2))
        lost.member.vanish()
        lost.runner.lose_slices()
        del cluster.workers["w2"]
        cluster.until(lambda: balanced(cluster, 2))
        cluster.until(lambda: set(emitted(cluster)) == {*expected("a-0", 20), *expected("a-1", 20)})
        lost.herder.stop(10)


def test_a_worker_isolated_from_its_coordinator_stops_its_work_and_comes_back() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=10))
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        worker.member.cut_off()
        cluster.until(lambda: worker.herder.views.progress().tasks == ())
        assert not worker.herder.views.is_leader()
        assert worker.herder.views.list_connectors() == ["a"]  # reads go on
        worker.member.reconnect()
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        assert emitted(cluster) == expected("a-0", 10)


def test_requests_say_who_must_serve_them() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(records=5, tasks=4))
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until_stable()
        leader, other = cluster.leader(), follower(cluster)
        with pytest.raises(NotLeaderError) as refused:
            other.herder.submit(DeleteConnector("a")).result(5)
        assert refused.value.leader_url == leader.views.progress().worker_url
        elsewhere = ConnectorTaskId("a", int(sorted(other.running_tasks())[0].removeprefix("a-")))
        with pytest.raises(NotAssignedError) as sent_on:
            leader.submit(RestartTask(elsewhere)).result(5)
        assert sent_on.value.owner_url == other.herder.views.progress().worker_url
        other.herder.submit(RestartTask(elsewhere)).result(5)
        other.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)  # any worker may
        cluster.until(lambda: set(cluster.states("a").values()) == {"PAUSED"})


def _states(views: Any, name: str) -> list[str]:
    try:
        status = views.connector_status(name)
    except NotFoundError:
        return []
    return [status.connector.state, *(task.state for task in status.tasks)]


def test_a_restart_by_plan_reaches_every_worker() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(tasks=4))
        cluster.until(lambda: balanced(cluster, 4))
        for worker in cluster.workers.values():  # each makes its plan of the statuses that it has read
            cluster.until(lambda views=worker.herder.views: _states(views, "a") == ["RUNNING"] * 5)  # type: ignore[misc]
        before = sum(faults.calls[f"a-{n}.start"] for n in range(4))
        cluster.on_leader(lambda herder: herder.submit(RestartConnector("a", include_tasks=True, only_failed=False)))
        cluster.until(lambda: sum(faults.calls[f"a-{n}.start"] for n in range(4)) == before + 4)
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until(lambda: set(cluster.states("a").values()) == {"RUNNING"})


def test_writes_during_a_rebalance_wait_for_it() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        gate = faults.blocks("a-0.stop_task")
        create(cluster, "a", source())
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        cluster.on_leader(lambda herder: herder.submit(DeleteConnector("a")))
        waiting = worker.herder.submit(CreateConnector("b", source(records=3), None))
        assert worker.herder.views.list_connectors() == []
        assert not waiting.done()
        gate.set()
        assert waiting.result(10).created
        cluster.until(lambda: emitted(cluster)[-3:] == expected("b-0", 3))


JAVAS_DEFAULT_DELAY = {"scheduled.rebalance.max.delay.ms": "300000", "connectrt.lost.work.delay.ms": "0"}


def test_without_java_workers_a_vanished_workers_tasks_run_again_at_once() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK, worker_config=JAVAS_DEFAULT_DELAY) as cluster:
        cluster.add_worker("w1")
        create(cluster, "a", source(records=20, tasks=4))
        lost = cluster.add_worker("w2")
        cluster.until(lambda: balanced(cluster, 4))
        lost.member.vanish()
        lost.runner.lose_slices()
        del cluster.workers["w2"]
        cluster.until(lambda: balanced(cluster, 4), limit_s=5)
        assert lost.herder.stop(10)


def test_with_a_java_worker_in_the_group_lost_work_waits_for_its_worker() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK, worker_config=JAVAS_DEFAULT_DELAY) as cluster:
        leader = cluster.add_worker("w1")
        create(cluster, "a", source(records=20, tasks=6))
        java = cluster.add_worker("w2")
        offers_javas_names_only(java)
        lost = cluster.add_worker("w3")
        cluster.until(lambda: balanced(cluster, 6))
        remaining = {task for name in ("w1", "w2") for task in cluster.workers[name].running_tasks()}
        lost.member.vanish()
        lost.runner.lose_slices()
        del cluster.workers["w3"]
        cluster.until(lambda: any("delay 300000 ms" in line.reason for line in leader.herder.views.events()))
        cluster.until_stable()
        assert set(tasks_of(cluster)) == remaining
        # It leaves: the group is our own again, and what was lost is placed.
        cluster.stop_worker("w2")
        cluster.until(lambda: len(leader.running_tasks()) == 6, limit_s=5)
        assert lost.herder.stop(10)


def test_an_orderly_leave_is_taken_over_in_one_round_and_reads_nothing_twice() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT, worker_config=JAVAS_DEFAULT_DELAY) as cluster:
        leader = cluster.add_worker("w1")
        create(cluster, "a", source(records=1_000, tasks=4))
        cluster.add_worker("w2")
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until_stable()
        generation = leader.herder.views.progress().generation
        cluster.stop_worker("w2")
        cluster.until(lambda: len(leader.running_tasks()) == 4)
        assert leader.herder.views.progress().generation == generation + 1
        cluster.until(lambda: len(emitted(cluster)) >= 4_000)
        assert emitted(cluster) == sorted(v for n in range(4) for v in expected(f"a-{n}", 1_000))


def test_i1_work_that_does_not_end_stays_claimed_and_is_not_reassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.clear()
    monkeypatch.setattr(membership, "STOP_MARGIN_MS", 0)
    settings = {**JAVAS_DEFAULT_DELAY, "task.shutdown.graceful.timeout.ms": "30"}
    with InProcessCluster(timing=PATIENT, worker_config=settings) as cluster:
        first = cluster.add_worker("w1")
        create(cluster, "a", source(records=20, tasks=4))
        cluster.until(lambda: len(first.running_tasks()) == 4)
        gates = [faults.blocks(f"a-{number}.stop_task") for number in range(4)]
        cluster.add_worker("w2")
        cluster.until(lambda: any("rejoins when a-" in line.reason for line in first.herder.views.events()))
        stuck = {str(task) for task in first.herder._loop.worker.unfinished().tasks}
        assert len(stuck) == 2
        third = cluster.add_worker("w3")
        cluster.until(
            lambda: third.herder.views.progress().generation > 0 and third.herder.views.health().status == "healthy"
        )
        elsewhere = {task for name in ("w2", "w3") for task in cluster.workers[name].running_tasks()}
        assert not stuck & elsewhere
        assert stuck <= {str(task) for task in (first.herder._loop._state.held or NOTHING).tasks}
        for gate in gates:
            gate.set()
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until(lambda: set(emitted(cluster)) == {v for n in range(4) for v in expected(f"a-{n}", 20)})


def test_an_unreadable_assignment_is_requested_again_and_work_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults.clear()
    monkeypatch.setattr(membership, "UNREADABLE_BACKOFF_MS", 100)
    with InProcessCluster(timing=PATIENT, worker_config=JAVAS_DEFAULT_DELAY) as cluster:
        leader = cluster.add_worker("w1")
        cluster.until_stable()  # it leads; who comes later does not
        other = cluster.add_worker("w2")
        create(cluster, "a", source(records=20, tasks=4))
        cluster.until(lambda: balanced(cluster, 4))
        cluster.until_stable()
        held, sync, garbled = other.running_tasks(), leader.member.sync, []

        def garble_once(plan: Mapping[str, bytes]) -> None:
            if not garbled:
                garbled.append(other.member.state.member_id)
                plan = {**plan, garbled[0]: b"\x00\x02\x00"}
            sync(plan)

        leader.member.sync = garble_once  # type: ignore[method-assign]
        leader.member.request_rejoin("the test wants one")
        cluster.until(lambda: any("cannot be read" in line.reason for line in other.herder.views.events()))
        assert other.running_tasks() == held
        starts = [faults.calls[f"a-{number}.start"] for number in range(4)]
        cluster.until(lambda: other.herder.views.progress().generation == leader.herder.views.progress().generation > 3)
        cluster.until_stable()
        assert other.running_tasks() == held
        assert [faults.calls[f"a-{number}.start"] for number in range(4)] == starts  # nothing moved, nothing ran twice


def test_cluster_logger_level_reaches_every_worker_and_no_later_worker() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        first, second = cluster.add_worker("w1"), cluster.add_worker("w2")
        cluster.until_stable()
        second.herder.submit(SetGroupLoggerLevel("org.x", "TRACE")).result(5)
        cluster.until(lambda: all("org.x" in worker.loggers.levels() for worker in (first, second)))
        assert first.herder.views.logger_level("org.x").level == "TRACE"
        assert second.herder.submit(SetLoggerLevel("org.x", "INFO")).result(5) == ["org.x"]
        assert (first.herder.views.logger_level("org.x").level, second.herder.views.logger_level("org.x").level) == (
            "TRACE",
            "INFO",
        )
        late = cluster.add_worker("w3")
        cluster.until_stable()
        with pytest.raises(NotFoundError, match=r"Logger org\.x not found\."):
            late.herder.views.logger_level("org.x")


class HangsWhenMade(MemorySource):
    """A plug-in whose constructor waits while the fault is ordered."""

    def __init__(self) -> None:
        faults.at("made")
        super().__init__()


def test_e5_a_tick_that_hangs_when_contact_is_lost_keeps_no_executor_alive() -> None:
    faults.clear()
    with InProcessCluster({"HangsWhenMade": HangsWhenMade}, timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        cluster.add_worker("w2")  # it passes the group's time on while the other one hangs
        create(cluster, "a", source(tasks=2))
        cluster.until(lambda: tasks_of(cluster) == ["a-0", "a-1"])
        cluster.until(worker.member.holds_lease)
        hang = faults.blocks("made")
        worker.herder._loop.add("hang", HangsWhenMade)
        cluster.until(lambda: faults.calls["made"] == 1)
        cluster.group.expel(worker.member.member_id())
        cluster.until(lambda: not worker.member.state.holding)
        assert not worker.member.holds_lease()  # the work of before still runs
        hang.set()
        cluster.until(worker.member.holds_lease)
