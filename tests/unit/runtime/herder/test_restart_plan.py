"""Which instances a restart touches (KIP-745)."""

import pytest

from spark_connect_rt.runtime.herder.health import RestartPlan, RestartRequest, most_impactful, plan_restart
from spark_connect_rt.topics.status_records import ConnectorStatus, State

OK = ConnectorStatus(State.RUNNING, "w", 1)
BAD = ConnectorStatus(State.FAILED, "w", 1, "trace")


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "restarts_connector", "tasks"),
    [
        (False, False, OK, True, ()),
        (True, False, OK, True, (0, 1)),
        (False, True, OK, False, ()),
        (False, True, BAD, True, ()),
        (True, True, OK, False, (1,)),
        (True, True, BAD, True, (1,)),
    ],
)
def test_the_matrix(
    include_tasks: bool, only_failed: bool, connector: ConnectorStatus, restarts_connector: bool, tasks: tuple[int, ...]
) -> None:
    request = RestartRequest("a", include_tasks, only_failed)
    plan = plan_restart(request, connector, {1: BAD, 0: OK})
    assert plan == RestartPlan(request, restarts_connector, tasks)


def test_without_a_status_there_is_no_plan() -> None:
    assert plan_restart(RestartRequest("a"), None, {}) is None


def test_the_request_that_restarts_the_most_is_kept() -> None:
    order = [
        RestartRequest("a", False, True),
        RestartRequest("a", True, True),
        RestartRequest("a", False, False),
        RestartRequest("a", True, False),
    ]
    for index, request in enumerate(order):
        assert most_impactful([request, *order[:index]]) == {"a": request}
        assert most_impactful([*order[:index], request]) == {"a": request}
    assert set(most_impactful([RestartRequest("a"), RestartRequest("b")])) == {"a", "b"}
