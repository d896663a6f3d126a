"""SIGTERM's way: drain, commit, only then leave; never longer than the graceful limit and what killing takes."""

from spark_connect_rt.group.membership import Timing
from spark_connect_rt.group.work_plan import Life
from spark_connect_rt.runtime.herder.herder_requests import ReadOffsets
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

PATIENT = Timing(session_ms=10_000, heartbeat_ms=20, rebalance_ms=60_000)


def positions(worker: InProcessWorker) -> dict[str, int]:
    found = worker.herder.submit(ReadOffsets("a")).result(5)
    return {str(o.partition["task"]): int(o.offset["position"]) for o in found if o.partition and o.offset}


class Leaving:
    """What was true when LeaveGroup reached the coordinator."""

    def __init__(self, cluster: InProcessCluster, worker: InProcessWorker, watcher: InProcessWorker) -> None:
        self.alive: list[str] = []
        self.offsets: dict[str, int] = {}  # task -> committed position
        self.emitted: list[str] = []
        leave = cluster.group.request_leave
        mine = worker.member.state.member_id

        def seen(member_id: str) -> None:
            if member_id == mine:
                tasks = worker.herder._loop.worker.tasks().items()
                self.alive = [str(task) for task, now in tasks if now.life is not Life.STOPPED]
                self.offsets = positions(watcher)
                self.emitted = emitted(cluster)
            leave(member_id)

        cluster.group.request_leave = seen  # type: ignore[method-assign]


def test_tasks_are_drained_and_their_offsets_committed_before_leave_group_is_sent() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        stays, goes = cluster.add_worker("w1"), cluster.add_worker("w2")
        create(cluster, "a", source(records=100_000, tasks=2))
        cluster.until(lambda: bool(goes.running_tasks()) and bool(stays.running_tasks()))
        (task,) = goes.running_tasks()
        cluster.until(lambda: any(value.startswith(f"{task}:") for value in emitted(cluster)))
        cluster.until_stable()
        leaving = Leaving(cluster, goes, stays)
        cluster.stop_worker("w2")
        assert leaving.alive == []
        # Everything it emitted lies before the offset that was committed when it left: nothing is repeated.
        mine = [value for value in leaving.emitted if value.startswith(f"{task}:")]
        assert leaving.offsets[task] == len(mine) > 0
        cluster.until(lambda: stays.running_tasks() == {"a-0", "a-1"})
        faults.raises("a-0.poll", RuntimeError("enough"))
        faults.raises("a-1.poll", RuntimeError("enough"))


def test_task_that_does_not_end_is_killed_at_the_limit_and_the_worker_leaves() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT, worker_config={"task.shutdown.graceful.timeout.ms": "50"}) as cluster:
        stays, goes = cluster.add_worker("w1"), cluster.add_worker("w2")
        create(cluster, "a", source(records=10, tasks=2))
        cluster.until(lambda: bool(goes.running_tasks()) and bool(stays.running_tasks()))
        cluster.until_stable()
        (task,) = goes.running_tasks()
        gate = faults.blocks(f"{task}.stop_task")
        cluster.stop_worker("w2")
        gate.set()
        cluster.until(lambda: stays.running_tasks() == {"a-0", "a-1"})
        cluster.until(lambda: set(emitted(cluster)) == {*expected("a-0", 10), *expected("a-1", 10)})
