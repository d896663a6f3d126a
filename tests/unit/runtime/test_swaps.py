"""Tasks that change places by load: two rounds, nothing else moves, each runs once; what is odd changes nothing."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import NotLeaderError
from spark_connect_rt.group.load import Swap, TaskLoadSample
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.operations.placement.load_watch import samples_of
from spark_connect_rt.rest.peers import GroupWorker, WorkerAnswer
from spark_connect_rt.runtime.herder.herder_requests import SwapTasks
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.runtime.cluster_stories import create, offers_javas_names_only, source
from tests.unit.runtime.test_several_workers import balanced

PATIENT = Timing(session_ms=10_000, heartbeat_ms=20, rebalance_ms=60_000)


def places(cluster: InProcessCluster) -> dict[str, str]:
    return {task: name for name, worker in cluster.workers.items() for task in worker.running_tasks()}


def swap_of(cluster: InProcessCluster) -> Swap:
    ours = {name: sorted(worker.running_tasks()) for name, worker in cluster.workers.items()}
    (giver, hot), (taker, cold) = [(f"http://{name}:8083/", tasks[0]) for name, tasks in sorted(ours.items())]
    return Swap(task_of(hot), giver, task_of(cold), taker)


def task_of(text: str) -> ConnectorTaskId:
    name, _, number = text.rpartition("-")
    return ConnectorTaskId(name, int(number))


def test_two_tasks_change_places_and_no_other_moves() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(records=20, tasks=6))
        cluster.until(lambda: balanced(cluster, 6))
        before, swap = places(cluster), swap_of(cluster)
        follower = next(worker for worker in cluster.workers.values() if not worker.herder.views.is_leader())
        with pytest.raises(NotLeaderError):
            follower.herder.submit(SwapTasks((swap,))).result(10)
        cluster.on_leader(lambda herder: herder.submit(SwapTasks((swap,))))
        wanted = {**before, str(swap.hot): before[str(swap.cold)], str(swap.cold): before[str(swap.hot)]}
        cluster.until(lambda: places(cluster) == wanted)
        # A swap with a worker that is gone by then changes nothing.
        gone = Swap(swap.hot, "http://gone:8083/", swap.cold, swap.giver)
        cluster.on_leader(lambda herder: herder.submit(SwapTasks((gone,))))
        cluster.until_stable()
        cluster.until(lambda: places(cluster) == wanted)


def test_next_to_a_java_worker_nothing_is_swapped_by_default() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        cluster.add_worker("w1")
        create(cluster, "a", source(records=20, tasks=4))
        offers_javas_names_only(cluster.add_worker("w2"))
        cluster.until(lambda: balanced(cluster, 4))
        before, swap = places(cluster), swap_of(cluster)
        leader = cluster.leader()
        generation = leader.views.standing().generation
        cluster.on_leader(lambda herder: herder.submit(SwapTasks((swap,))))
        cluster.until(lambda: leader.views.standing().generation > generation)
        cluster.until_stable()
        assert places(cluster) == before


def test_load_answers_of_workers_are_read_line_by_line() -> None:
    worker = GroupWorker("h:1", "http://h:1/")
    lines = [["c", 0, 1.5, None, 2.0], ["c", "x", 1, 1, 1], ["c", 1], None, ["c", 2, 0, 7, None]]
    assert samples_of([WorkerAnswer(worker, lines), WorkerAnswer(GroupWorker("j:1", "http://j:1/"), None)]) == {
        "http://h:1/": {
            ConnectorTaskId("c", 0): TaskLoadSample(1.5, None, 2.0),
            ConnectorTaskId("c", 2): TaskLoadSample(0.0, 7, None),
        },
        "http://j:1/": {},
    }
