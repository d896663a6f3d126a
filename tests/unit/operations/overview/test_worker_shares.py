"""What one worker says of itself: once a second at most, and of many tasks of one connector one line."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.operations.overview.task_timeline import TaskCourses
from spark_connect_rt.operations.overview.worker_shares import SHARES_KEPT_MS, WorkerShares, resident_bytes
from spark_connect_rt.runtime.values import Health, TaskPace
from tests.unit.operations.overview.test_group_rows import Time
from tests.unit.rest.fake_herder import FakeHerder


class Busy(FakeHerder):
    """A worker with three tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def task_paces(self) -> Sequence[TaskPace]:
        self.asked += 1
        return [
            TaskPace(ConnectorTaskId("out", 0), 5, 1.5, None, 1),
            TaskPace(ConnectorTaskId("out", 1), 5, 2.0, 7, 2),
            TaskPace(ConnectorTaskId("out", 10), 5, 0.0, 8, 0),
        ]


def made() -> tuple[WorkerShares, Busy, Time]:
    views, clock = Busy(), Time()
    return WorkerShares(views, TaskCourses(views.task_paces, clock), clock, lambda: 100), views, clock


def test_shares_add_up_and_are_made_once_however_many_workers_ask() -> None:
    shares, views, clock = made()
    for _ in range(20):
        assert shares.shares() == {"out": [3.5, 15, 3, False]}
    assert views.asked == 1
    clock.ms += SHARES_KEPT_MS
    shares.shares()
    assert views.asked == 2


def test_a_worker_says_how_it_is() -> None:
    shares, views, clock = made()
    views.state = Health("unhealthy", "no tick has gone well", note="Java is away")
    said = shares.worker()
    assert said["health"] == "unhealthy: no tick has gone well (Java is away)"
    assert (said["tasks"], said["connectors"]) == (["out-0", "out-1", "out-10"], ["src"])
    assert (said["records_per_second"], said["memory_bytes"], said["started_ms"]) == (3.5, 100, clock.ms)
    assert 0 < said["open_files"] < said["open_files_max"]


def test_memory_is_what_the_kernel_says() -> None:
    found = resident_bytes()
    assert found is None or 10**6 < found < 10**12
