"""The leader's look at loads, over fakes: what it asks for, and when it keeps its hands off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.group_config import PlacementSettings
from spark_connect_rt.operations.placement.load_watch import LoadWatch
from spark_connect_rt.rest.peers import GroupWorker, WorkerAnswer
from spark_connect_rt.runtime.group_events import no_event
from spark_connect_rt.runtime.herder.herder_requests import Request, SwapTasks
from spark_connect_rt.runtime.values import WorkerStanding
from tests.unit.operations.overview.test_group_rows import HERE, THERE, Reads, Time
from tests.unit.rest.fake_herder import FakeHerder

LOOK_MS = 30_000


class Leader(FakeHerder):
    """Leads, in a group of our own workers or in another."""

    leads, own = True, True

    def standing(self) -> WorkerStanding:
        return WorkerStanding("h:8083", HERE.url, self.leads, HERE.url, 3, "sessioned", own_group=self.own)


class Loads(Reads):
    """Two workers with two tasks each; those of the first use a core each, and more as time passes."""

    seconds = 0.0

    def ask(self, what: str, arguments: Mapping[str, Any] | None = None, *_: Any, **__: Any) -> Sequence[WorkerAnswer]:
        self.asked += 1
        hot = [["c", n, 0.0, None, self.seconds] for n in (0, 2)]
        cold = [["c", n, 0.0, None, 0.0] for n in (1, 3)]
        return [WorkerAnswer(HERE, hot), WorkerAnswer(THERE, cold, self.away)]

    def workers(self) -> Sequence[GroupWorker]:
        return [HERE, THERE]


def looked(views: Leader, reads: Loads, by_load: str = "own", looks: int = 30) -> list[Request[Any]]:
    submitted: list[Request[Any]] = []
    clock = Time()

    def submit(request: Request[Any]) -> Future[Any]:
        submitted.append(request)
        done: Future[Any] = Future()
        done.set_result(None)
        return done

    settings = PlacementSettings.of({"connectrt.placement.by.load": by_load})
    watch = LoadWatch(views, reads, submit, clock, no_event, settings)
    for _ in range(looks):
        watch.look()
        clock.ms += LOOK_MS
        reads.seconds += LOOK_MS / 1000
    return submitted


def test_a_skew_that_lasts_makes_a_hot_and_a_cold_task_change_places_once() -> None:
    (swap,) = [event for event in looked(Leader(), Loads(), looks=20) if isinstance(event, SwapTasks)]
    assert [(pair.giver, pair.taker) for pair in swap.swaps] == [(HERE.url, THERE.url)]
    assert swap.swaps[0].hot in {ConnectorTaskId("c", 0), ConnectorTaskId("c", 2)}
    assert swap.swaps[0].cold in {ConnectorTaskId("c", 1), ConnectorTaskId("c", 3)}


@pytest.mark.parametrize(
    ("leads", "own", "away", "by_load", "swaps"),
    [
        (True, True, "", "own", True),
        (True, False, "", "always", True),
        (True, False, "", "own", False),
        (True, True, "", "never", False),
        (False, True, "", "always", False),
        (True, True, "did not answer", "own", False),
    ],
)
def test_load_watch_swaps_only_when_it_may(leads: bool, own: bool, away: str, by_load: str, swaps: bool) -> None:
    views, reads = Leader(), Loads()
    views.leads, views.own, reads.away = leads, own, away
    assert bool(looked(views, reads, by_load)) is swaps


def test_a_group_of_one_is_not_asked() -> None:
    class Alone(Loads):
        def workers(self) -> Sequence[GroupWorker]:
            return [HERE]

    reads = Alone()
    assert looked(Leader(), reads) == []
    assert reads.asked == 0
