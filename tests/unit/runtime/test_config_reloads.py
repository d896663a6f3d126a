"""What a config provider lends for a while: who was made from it is made anew (``config.action.reload``)."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest

from spark_connect_rt.api.config_provider import ConfigData, ConfigProvider
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.runtime.worker.events import ReloadDue, WorkerEvent
from spark_connect_rt.runtime.worker.worker_connector import ConfigReloads
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

TTL_MS = 50
LENT = {"records": "5"}
PROVIDERS = {"config.providers": "lent", "config.providers.lent.class": "Lending"}


class Lending(ConfigProvider):
    """Lends the values of LENT; a path names for how many ms."""

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        return ConfigData(LENT, int(path) if path else None)


@pytest.fixture(autouse=True)
def lent_anew() -> None:
    LENT["records"] = "5"


def test_connector_and_tasks_are_created_again_with_current_leases() -> None:
    with InProcessCluster({"Lending": Lending}, PROVIDERS) as cluster:
        cluster.add_worker()
        create(cluster, "a", source() | {"records": f"${{lent:{TTL_MS}:records}}"})
        cluster.until(lambda: emitted(cluster) == expected("a-0", 5))
        LENT["records"] = "8"
        cluster.until(lambda: emitted(cluster) == expected("a-0", 8))
        sentences = [line.reason for worker in cluster.workers.values() for line in worker.herder.views.events()]
        assert any(said.startswith("a restarts: ") or "; a restarts: " in said for said in sentences)
        assert any("a-0 restarts: " in said for said in sentences)


def test_the_shortest_life_of_what_is_lent_counts() -> None:
    providers = ConfigProviders({"lent": Lending()})
    config = {"a": "${lent:900:records}", "b": "${lent:700:records}", "c": "${lent::records}", "d": "plain"}
    resolved = providers.resolve(config)
    assert resolved == {"a": "5", "b": "5", "c": "5", "d": "plain"}
    assert resolved.ttl_ms == 700
    assert providers.resolve({"c": "${lent::records}"}).ttl_ms is None


class Noted:
    """A timer that says whether it was cancelled."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Watched:
    """ConfigReloads with a note of what it asks for: (after ms, the event)."""

    def __init__(self) -> None:
        self.due: list[tuple[int, WorkerEvent]] = []
        self.timers: list[Noted] = []
        self._told: list[WorkerEvent] = []
        self.reloads = ConfigReloads(ConfigProviders({"lent": Lending()}).resolve, self._told.append, self)  # type: ignore[arg-type]

    def later(self, delay_ms: int, call: object) -> Noted:
        call()  # type: ignore[operator]
        self.due.append((delay_ms, self._told.pop()))
        self.timers.append(Noted())
        return self.timers[-1]

    def start(self, name: str, run: object) -> None:
        run()  # type: ignore[operator]


def test_a_run_is_due_after_the_life_of_its_values() -> None:
    watched = Watched()
    watched.reloads.watch("a", 1, ConfigData({}, 70))
    task = ConnectorTaskId("a", 0)
    watched.reloads.watch_task(
        task, 2, StoredConfig({"password": "${lent:90:records}"}), StoredConfig({"file": "plain"})
    )
    watched.reloads.watch_task(task, 2, NO_SETTINGS, StoredConfig({"password": "${lent:80:records}"}))
    assert watched.due == [(70, ReloadDue("a", 1)), (90, ReloadDue(task, 2)), (80, ReloadDue(task, 2))]


def test_only_the_newest_run_of_what_still_runs_waits_for_its_time() -> None:
    watched, task = Watched(), ConnectorTaskId("a", 0)
    for key in (1, 2):
        watched.reloads.watch("a", key, ConfigData({}, 86_400_000))
        watched.reloads.watch(task, key, ConfigData({}, 86_400_000))
    assert [timer.cancelled for timer in watched.timers] == [True, True, False, False]
    watched.reloads.watch("a", 3, ConfigData({}))
    watched.reloads.forget(task)
    watched.reloads.forget(task)
    assert [timer.cancelled for timer in watched.timers] == [True] * 4


@pytest.mark.parametrize("config", [{"config.action.reload": "none"}, {"config.action.reload": " NONE "}])
def test_nothing_is_due_where_the_user_says_so(config: dict[str, str]) -> None:
    watched = Watched()
    watched.reloads.watch("a", 1, ConfigData(config, 70))
    own = StoredConfig({"password": "${lent:90:records}"})
    watched.reloads.watch_task(ConnectorTaskId("a", 0), 2, StoredConfig(config), own)
    assert watched.due == []


def test_nothing_is_due_for_values_without_a_lifetime() -> None:
    watched = Watched()
    watched.reloads.watch("a", 1, ConfigData({"x": "y"}))
    watched.reloads.watch_task(ConnectorTaskId("a", 0), 2, StoredConfig({"password": "${lent::records}"}), NO_SETTINGS)
    assert watched.due == []


def test_a_provider_that_fails_leaves_the_task_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(config: Mapping[str, str]) -> ConfigData:
        raise ValueError("secret of the provider")

    told: list[WorkerEvent] = []
    watched = Watched()
    reloads = ConfigReloads(fail, told.append, watched)  # type: ignore[arg-type]
    reloads.watch_task(ConnectorTaskId("a", 0), 1, StoredConfig({"x": "${lent:1:y}"}), NO_SETTINGS)
    assert told == []
    assert "ValueError" in caplog.text
    assert "secret of the provider" not in caplog.text
