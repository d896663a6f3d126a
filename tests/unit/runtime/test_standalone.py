"""The standalone herder: a group of one, local logs, the engine in memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import AlreadyExistsError, ConnectError, NotFoundError
from spark_connect_rt.operations.overview.selection import OverviewQuery
from spark_connect_rt.operations.overview.wiring import OverviewParts
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    DeleteConnector,
    FenceZombies,
    PutConfig,
    PutTaskConfigs,
    RestartConnector,
    RestartTask,
)
from spark_connect_rt.runtime.herder.standalone import NO_FENCING, NO_TASK_CONFIGS, SoloMember, StandaloneHerder
from spark_connect_rt.testing.in_process_cluster import InProcessPeers, MemoryPlugins
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups, MemoryGroupOffsets
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore
from tests.unit.runtime.cluster_stories import Said

LIMIT_S = 15.0
SOURCE = {"connector.class": "MemorySource", "tasks.max": "2", "topic": "t"}


class FailsToStart(SourceConnector):
    """A connector whose start fails."""

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def start(self, config: Mapping[str, str]) -> None:
        raise ValueError("no such database")

    def task_class(self) -> type[Any]:
        return object

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


@pytest.fixture
def herder() -> Iterator[StandaloneHerder]:
    plugins = MemoryPlugins(
        {
            "MemorySource": MemorySource,
            "FailsSource": FailsToStart,
            "StringConverter": StringConverter,
            "SimpleHeaderConverter": SimpleHeaderConverter,
            "Said": Said,
        }
    )
    providers = {"config.providers": "said", "config.providers.said.class": "Said"}
    raw = {"header.converter": "SimpleHeaderConverter", "connect.protocol": "compatible", **providers}
    config = worker_settings(raw)
    clock, topics = SystemClock(), MemoryTopics()
    groups = MemoryConsumerGroups()
    herder = StandaloneHerder(
        HerderDependencies(
            settings=HerderSettings.of("w:8083", "http://w:8083/", config),
            clock=clock,
            member=SoloMember(),
            config_store=ConfigStore(LocalCompactedLog("configs"), clock),
            resolve=ConfigProviders.from_config(raw, plugins.class_of).resolve,
            status_store=StatusStore(LocalCompactedLog("statuses"), clock),
            offset_store=OffsetStore(LocalCompactedLog("offsets")),
            runner=MemoryTaskRunner(MemoryExecutorClients(topics, plugins.class_of)),
            sink_groups=groups.member,
            group_offsets=MemoryGroupOffsets(groups),
            plugins=plugins,
            peers=InProcessPeers({}),
            new_key=bytes,
        )
    )
    herder.start()
    herder.started.result(LIMIT_S)
    yield herder
    assert herder.stop(LIMIT_S)


def until(read: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (seen := read()) != wanted:
        assert time.monotonic() < deadline, f"{seen!r}, not {wanted!r}"
        time.sleep(0.01)


def states(herder: StandaloneHerder, name: str) -> tuple[str, list[str]]:
    status = herder.views.connector_status(name)
    return status.connector.state, [task.state for task in status.tasks]


def test_a_created_connector_is_answered_with_its_tasks(herder: StandaloneHerder) -> None:
    created = herder.submit(CreateConnector("a", SOURCE, None)).result(LIMIT_S)
    assert created.created
    assert created.info.tasks == (ConnectorTaskId("a", 0), ConnectorTaskId("a", 1))
    changed = herder.submit(PutConfig("a", {**SOURCE, "tasks.max": "1"})).result(LIMIT_S)
    assert (changed.created, changed.info.tasks) == (False, (ConnectorTaskId("a", 0),))
    with pytest.raises(AlreadyExistsError):
        herder.submit(CreateConnector("a", SOURCE, None)).result(LIMIT_S)
    for name, state in (("b", TargetState.PAUSED), ("c", TargetState.STOPPED)):
        waiting = herder.submit(CreateConnector(name, SOURCE, state)).result(LIMIT_S)
        assert waiting.info.tasks == () or state is TargetState.PAUSED
        assert states(herder, name)[0] == state.value
    herder.submit(DeleteConnector("a")).result(LIMIT_S)
    assert herder.views.list_connectors() == ["b", "c"]


def test_it_is_a_group_of_one_and_shows_its_own_overview(herder: StandaloneHerder) -> None:
    herder.submit(CreateConnector("a", SOURCE, None)).result(LIMIT_S)
    reads, clock = HttpGroupReads(herder.views, herder._deps.peers), SystemClock()
    parts = OverviewParts(herder.views, reads, clock, herder._deps.peers, dict)
    until(lambda: [worker.worker_id for worker in reads.workers()], ["w:8083"])
    page = parts.overview.page(OverviewQuery())
    until(  # the leader is known with the second look at the group
        lambda: [(worker.worker_id, worker.this, worker.leader) for worker in parts.overview.group().workers],
        [("w:8083", True, True)],
    )
    assert ([row.name for row in page.connectors], page.unanswered) == (["a"], ())
    assert len(parts.overview.connector("a").tasks) == 2
    parts.stop()
    reads.stop()


def test_a_connector_that_does_not_start_is_its_creation_s_failure(herder: StandaloneHerder) -> None:
    with pytest.raises(ConnectError, match=r"^no such database$"):
        herder.submit(CreateConnector("bad", {"connector.class": "FailsSource"}, None)).result(LIMIT_S)
    assert states(herder, "bad") == ("FAILED", [])


def test_a_restart_is_answered_when_it_is_done(herder: StandaloneHerder) -> None:
    herder.submit(CreateConnector("a", SOURCE, None)).result(LIMIT_S)
    until(lambda: states(herder, "a"), ("RUNNING", ["RUNNING", "RUNNING"]))  # a plan is made of statuses
    for _ in itertools.repeat(None, 3):
        planned = herder.submit(RestartConnector("a", include_tasks=True, only_failed=False)).result(LIMIT_S)
        assert planned is not None
        told = [planned.connector.state, *(task.state for task in planned.tasks)]
        assert told == ["RESTARTING"] * 3
        assert herder.views.progress().connectors == {"a": "RUNNING"}
    until(lambda: states(herder, "a"), ("RUNNING", ["RUNNING", "RUNNING"]))  # tasks: once the engine has them
    untouched = herder.submit(RestartConnector("a", include_tasks=True, only_failed=True)).result(LIMIT_S)
    assert untouched is not None
    assert {untouched.connector.state, *(task.state for task in untouched.tasks)} == {"RUNNING"}
    assert herder.submit(RestartConnector("a", include_tasks=False, only_failed=False)).result(LIMIT_S) is None
    herder.submit(RestartTask(ConnectorTaskId("a", 1))).result(LIMIT_S)
    with pytest.raises(NotFoundError, match=r"^Task a-7 not found$"):
        herder.submit(RestartTask(ConnectorTaskId("a", 7))).result(LIMIT_S)
    for include in (True, False):
        with pytest.raises(NotFoundError, match=r"^Unknown connector: none$"):
            herder.submit(RestartConnector("none", include, False)).result(LIMIT_S)


def test_group_only_requests_are_refused_with_the_java_message(herder: StandaloneHerder) -> None:
    assert not herder.views.internal_key().required
    for refused, words in (
        (herder.submit(PutTaskConfigs("a", [])), NO_TASK_CONFIGS),
        (herder.submit(FenceZombies("a")), NO_FENCING),
    ):
        with pytest.raises(ConnectError) as error:
            refused.result(0)
        assert str(error.value) == words


def test_settings_that_are_references_do_what_their_values_do(herder: StandaloneHerder) -> None:
    config = {"connector.class": "${said:MemorySource:it}", "tasks.max": "${said:2:it}", "topic": "${said:t:it}"}
    written = herder.submit(CreateConnector("a", config)).result(LIMIT_S)
    assert (len(written.info.tasks), written.info.type, written.info.config["tasks.max"]) == (
        2,
        "source",
        "${said:2:it}",
    )
