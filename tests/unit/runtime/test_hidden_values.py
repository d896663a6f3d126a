"""What a config provider gave is in no trace and no answer, whoever quotes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.base import hidden_values
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.engine.executor.hosting import trace_of
from spark_connect_rt.errors import BadRequestError, ConnectError
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.runtime.herder.validation import validated
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource

PASSWORD = "S3CRET.value"
WORKER = {"config.providers": "vault", "config.providers.vault.class": "Vault"}


class Vault(ConfigProvider):
    """Knows one password and one number."""

    def get(self, path: str, keys: Any = None) -> Mapping[str, str]:
        return {"password": PASSWORD, "port": "12"}


class Quoting(MemorySource):
    """Quotes its whole address where it fails."""

    def config_def(self) -> ConfigDef:
        secret = ConfigKey("address.password", Type.PASSWORD, "", Importance.HIGH, "Its password.")
        return ConfigDef((*super().config_def(), secret))

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:  # type: ignore[override]
        raise ConnectError(f"no route to {self.address} with {self.password}")

    def start(self, config: Mapping[str, str]) -> None:
        self.address, self.password = config["address"], config.get("address.password")


@pytest.fixture
def resolve() -> Iterator[Callable[[Mapping[str, str]], dict[str, str]]]:
    hidden_values.forget()
    providers = ConfigProviders.from_config(WORKER, lambda _: Vault)
    yield lambda config: dict(providers.resolve(config))
    hidden_values.forget()


def test_a_trace_hides_what_was_looked_up_also_within_a_longer_setting(resolve: Any) -> None:
    url = resolve({"url": "db://u:${vault::password}@h:${vault::port}/x12"})["url"]
    assert PASSWORD in url
    trace = trace_of(ConnectError(f"refused: {url}; alone: {PASSWORD}"))
    assert "refused: db://u:[hidden]@h:12/x12; alone: [hidden]" in trace  # a number as short as that is no secret


def test_a_short_value_is_replaced_only_where_it_stands_alone() -> None:
    text = hidden_values.without_secrets("tasks.max is 12, not 120 or x12", {"12": "${vault::port}"})
    assert text == "tasks.max is ${vault::port}, not 120 or x12"


def test_a_connectors_status_hides_it(resolve: Any) -> None:
    with InProcessCluster({"Quoting": Quoting, "Vault": Vault}, WORKER) as cluster:
        cluster.add_worker("w1")
        cluster.until_stable()
        config = {
            "connector.class": "Quoting",
            "topic": "t",
            "address": "db://u:${vault::password}@h",
            "address.password": "plain-text",
        }
        cluster.on_leader(lambda herder: herder.submit(CreateConnector("a", config, None)))
        cluster.until(lambda: bool(cluster.leader().views.connector_status("a").connector.trace))
        trace = cluster.leader().views.connector_status("a").connector.trace or ""
        assert "no route to db://u:[hidden]@h with [hidden]" in trace
        assert PASSWORD not in str([line.reason for line in cluster.leader().views.events()])


def test_a_refusal_names_the_reference(resolve: Any) -> None:
    with InProcessCluster() as cluster:
        deps = replace(cluster.add_worker().herder._deps, plugins=Plugins(BUNDLED), resolve=resolve)
        for version in ({}, {"connector.plugin.version": "${vault::password}"}):
            given = {"name": "a", "connector.class": "${vault::password}", **version}
            with pytest.raises(BadRequestError, match=r"which name matches \$\{vault::password\}") as refused:
                validated(deps, given)
            assert PASSWORD not in str(refused.value)
        given = {"name": "a", "connector.class": "FileStreamSource", "topic": "t", "tasks.max": "x${vault::password}"}
        infos = str(validated(deps, given))
        assert "x${vault::password}" in infos
        assert PASSWORD not in infos
