"""Which connectors' tasks a worker gets ready for before it knows them, and that it is the right JVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.engine.task_runner import Expect, JavaCode
from spark_connect_rt.runtime.herder import herder
from spark_connect_rt.runtime.herder.dependencies import resolve_nothing
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, PutConfig, Request, SetTargetState
from spark_connect_rt.runtime.worker.java_launches import comes_here, expected, facts_of
from spark_connect_rt.runtime.worker.launches import TaskSpec, make_launch
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.test_java_launches import CATALOG, WORKER, config

LIMIT_S = 20.0


@pytest.mark.parametrize(
    ("tasks_max", "members", "comes"),
    [
        (None, 1, True),
        ("1", 1, True),
        ("1", 2, False),
        ("3", 3, True),
        ("3", 4, False),
        ("1", 0, False),
        ("x", 1, False),
    ],
)
def test_a_task_comes_here_where_there_may_be_as_many_as_workers(
    tasks_max: str | None, members: int, comes: bool
) -> None:
    given = {} if tasks_max is None else {"tasks.max": tasks_max}
    assert comes_here(given, members) is comes


def test_expected_task_matches_its_later_launch() -> None:
    worker = worker_settings(WORKER)
    found = expected("o", StoredConfig(config()), 1, worker, CATALOG, resolve_nothing)
    launch = make_launch(
        TaskSpec(ConnectorTaskId("o", 0), NO_SETTINGS, StoredConfig(config())),
        facts_of(StoredConfig(config()), worker, CATALOG, resolve_nothing),
        worker,
        1,
        1,
    )
    assert found is not None
    assert (found.java, found.worker_config) == (launch.java, launch.worker_config)


@pytest.mark.parametrize(
    "given",
    [
        config(connectrt_isolation="process"),  # whose task has a JVM of its own
        config() | {"connector.class": "Memory"},
        config() | {"connector.class": "Unknown"},
        config() | {"connectrt.java.options": "'"},
        {},
    ],
)
def test_nothing_is_expected_of_others_or_of_what_validation_will_refuse(given: Mapping[str, str]) -> None:
    assert expected("o", StoredConfig(given), 1, worker_settings(WORKER), CATALOG, resolve_nothing) is None


def test_the_runner_is_notified_before_a_connector_is_validated(
    monkeypatch: pytest.MonkeyPatch, cluster: InProcessCluster
) -> None:
    said = Expect(ConnectorTaskId("c", 0), JavaCode(()), {})
    order: list[str] = []
    real = herder.checked_config

    def checked(*given: Any) -> dict[str, str]:
        order.append("validated")
        return real(*given)

    monkeypatch.setattr(herder, "expected", lambda name, given, members, *_: said if members == 1 else None)
    monkeypatch.setattr(herder, "checked_config", checked)
    worker = cluster.add_worker()
    cluster.until_stable()
    do = worker.runner.do
    monkeypatch.setattr(worker.runner, "do", lambda command: order.append("Expect") if command is said else do(command))
    given = {"connector.class": "MemorySource", "topic": "t"}

    def asked(request: Request[Any]) -> None:
        cluster.until_stable()  # amid a rebalance no one knows whose the tasks will be
        cluster.leader().submit(request).result(LIMIT_S)

    asked(CreateConnector("c", given, TargetState.STOPPED))
    asked(PutConfig("c", given))
    assert order == ["validated", "validated"]
    asked(CreateConnector("d", given))
    assert order[2:4] == ["Expect", "validated"]
    asked(SetTargetState("c", TargetState.STARTED))
    cluster.until(lambda: order.count("Expect") == 2)
    asked(PutConfig("c", given))
    asked(SetTargetState("c", TargetState.PAUSED))
    assert order.count("Expect") == 3
