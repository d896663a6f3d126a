"""A connector's token endpoint is the worker's, or one that the worker's file allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.api.config_provider import ConfigData
from spark_connect_rt.app.wiring import guarded
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.override_policy import ALLOWED_FILES, ALLOWED_URLS, ENDPOINT, refuse_foreign_endpoints
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.connectors.mirror.maker_config import MirrorMakerConfig, SourceAndTarget
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.runtime.worker.launches import TaskSpec, connector_facts, make_launch
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.worker_settings import worker_settings

TOKEN = "file:/var/run/secrets/kubernetes.io/serviceaccount/token"
OVERRIDE = f"producer.override.{ENDPOINT}"


@pytest.mark.parametrize("url", [TOKEN, "http://169.254.169.254/latest", "https://issuer/token2", "FILE:/etc/token"])
@pytest.mark.parametrize("name", [OVERRIDE, f"source.cluster.{ENDPOINT}", ENDPOINT])
def test_an_endpoint_of_a_connector_is_refused_by_name_and_without_its_value(name: str, url: str) -> None:
    worker = {ENDPOINT: "https://issuer/token", ALLOWED_FILES: "/tmp/token"}
    with pytest.raises(BadConfigError) as refused:
        refuse_foreign_endpoints({name: url, "topic": "t"}, worker)
    assert list(refused.value.problems) == [name]
    assert url not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "worker"),
    [
        ("https://issuer/token", {ENDPOINT: "https://issuer/token"}),
        ("https://issuer/token", {f"consumer.{ENDPOINT}": "https://issuer/token"}),
        ("https://issuer/token", {ALLOWED_URLS: "https://other, https://issuer/token"}),
        (TOKEN, {ALLOWED_URLS: TOKEN}),
        (TOKEN, {ALLOWED_FILES: TOKEN.removeprefix("file:")}),
        ("file:///etc/token", {ALLOWED_FILES: "/etc/token"}),
    ],
)
def test_endpoint_that_the_worker_uses_or_allows_is_accepted(url: str, worker: dict[str, str]) -> None:
    refuse_foreign_endpoints({OVERRIDE: url}, worker)
    with pytest.raises(BadConfigError):
        refuse_foreign_endpoints({OVERRIDE: url}, {})


def test_an_endpoint_behind_a_reference_is_looked_at_where_it_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(TOKEN)
    worker = {
        "config.providers": "dir",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    }
    hidden = {ENDPOINT: f"${{dir:{tmp_path}:url}}"}
    with pytest.raises(BadConfigError):
        KafkaExecutorClients().resolve(hidden, worker)
    assert (
        KafkaExecutorClients().resolve(hidden, {**worker, ALLOWED_URLS: f"${{dir:{tmp_path}:url}}"})[ENDPOINT] == TOKEN
    )


def test_the_driver_refuses_it_too_and_its_executors_know_what_the_worker_uses() -> None:
    worker = worker_settings({f"consumer.{ENDPOINT}": "https://issuer/token", "connectrt.oauth.allowed.files": "/a"})
    resolve = guarded(ConfigData, worker)
    with pytest.raises(BadConfigError):
        resolve({OVERRIDE: TOKEN})
    assert resolve({OVERRIDE: "https://issuer/token"})
    spec = TaskSpec(ConnectorTaskId("a", 0), NO_SETTINGS, NO_SETTINGS)
    told = make_launch(spec, connector_facts(MemorySource(), {}), worker, 1, 1).worker_config
    refuse_foreign_endpoints({OVERRIDE: "https://issuer/token", f"x.{ENDPOINT}": "file:/a"}, told)


def test_the_clusters_of_mirror_makers_file_are_the_operators() -> None:
    file = {
        "clusters": "a, b",
        "a.bootstrap.servers": "a:1",
        "b.bootstrap.servers": "b:1",
        f"a.{ENDPOINT}": "https://a/token",
        "a->b.enabled": "true",
    }
    worker = MirrorMakerConfig(file).worker_config(SourceAndTarget("a", "b"))
    refuse_foreign_endpoints({f"source.cluster.{ENDPOINT}": "https://a/token"}, worker)
